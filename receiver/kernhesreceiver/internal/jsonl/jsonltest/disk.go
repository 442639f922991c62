package jsonltest

import (
	"errors"
	"os"
	"syscall"
)

// A FullDisk is a file whose next write stops in the middle.
type FullDisk struct {
	*os.File
	Full bool
}

func (f *FullDisk) Write(b []byte) (int, error) {
	if !f.Full {
		return f.File.Write(b)
	}
	n, err := f.File.Write(b[:len(b)/2])
	return n, errors.Join(err, syscall.ENOSPC)
}
