// Package reload keeps what a file says up to date while the file changes.
package reload

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"sync/atomic"
)

// A File is the value of a file when it last could be read and understood. Value and Refused may be called from anywhere,
// Poll from one goroutine at a time.
type File[T any] struct {
	path  string
	limit int64
	parse func(body []byte) (T, error)
	value atomic.Pointer[T]
	fault atomic.Pointer[error] // of what Poll last found; nil: none
	seen  [sha256.Size]byte     // of the bytes, or the fault, that Poll last found
}

// Open reads a file of at most limit bytes. An error names the file and the reason.
func Open[T any](path string, limit int64, parse func(body []byte) (T, error)) (*File[T], error) {
	f := &File[T]{path: path, limit: limit, parse: parse}
	_, err := f.Poll()
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Value is the last good value.
func (f *File[T]) Value() T { return *f.value.Load() }

// Refused is why the last good value is not what the file says now; nil if it is.
func (f *File[T]) Refused() error {
	if err := f.fault.Load(); err != nil {
		return *err
	}
	return nil
}

// Poll looks whether the file has changed. It reports a new value, or, once for each change, why there is none: then the
// last good value stays. The whole file is read each time, since times and sizes miss changes: a table of 10 KB costs 20 µs.
func (f *File[T]) Poll() (changed bool, err error) {
	body, err := f.read()
	found := sha256.Sum256(body)
	if err != nil {
		found = sha256.Sum256([]byte(err.Error()))
	}
	if found == f.seen {
		return false, nil
	}
	f.seen = found
	if err != nil {
		f.fault.Store(&err)
		return false, err
	}
	value, err := f.parse(body)
	if err != nil {
		err = fmt.Errorf("%s: %w", f.path, err)
		f.fault.Store(&err)
		return false, err
	}
	f.value.Store(&value)
	f.fault.Store(nil)
	return true, nil
}

func (f *File[T]) read() ([]byte, error) {
	file, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	body, err := io.ReadAll(io.LimitReader(file, f.limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(body)) > f.limit {
		return nil, fmt.Errorf("%s: more than %d bytes", f.path, f.limit)
	}
	return body, nil
}
