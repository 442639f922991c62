// Package jsonl turns what becomes of each record into lines of a file.
package jsonl

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// A File is a file of JSON lines that tells what became of every record: lines of steps, acknowledgements and sessions. It may
// be rotated: when its path names another file, or none, lines go on in a new one. A crash of the machine may lose the last
// lines: nothing here waits for the disk.
type File struct {
	path string

	mu      sync.Mutex
	Out     output // tests replace it
	file    *os.File
	size    int64 // of whole lines
	checked time.Time
}

// An output is where lines go: *os.File, opened for appending.
type output interface {
	io.WriteCloser
	Truncate(size int64) error
}

// An Entry is what a line says of its session.
type Entry struct {
	Kind    string // step, ack or session
	Session uint64
	ID      string // of a step
	Frame   uint64 // on which a step rests, or that is acknowledged
	Ended   string // of a session: bye or gone
	At      int64  // size of the dump when it was noted; only in a journal
}

// Open opens or makes a file, gives the lines from an offset on to each, and cuts off a torn last line. Where the file is
// shorter than the offset, it was rotated: each then gets all lines. Nothing is changed where a line cannot be read.
func Open(path string, from int64, each func(Entry)) (*File, error) {
	f := &File{path: path}
	if err := f.open(); err != nil {
		return nil, err
	}
	err := f.read(from, each)
	if err == nil {
		err = f.file.Truncate(f.size)
	}
	if err != nil {
		return nil, errors.Join(err, f.file.Close())
	}
	return f, nil
}

// open opens the path. Two writers would not know of each other's steps, so that it is locked.
func (f *File) open() error {
	file, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return fmt.Errorf("dump: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return errors.Join(fmt.Errorf("dump: %s is in use by another collector: %w", f.path, err), file.Close())
	}
	f.file, f.Out, f.checked = file, file, time.Now()
	return nil
}

// read reads lines from an offset on, and finds how many bytes are whole lines. It reads about 2 s a GB.
func (f *File) read(from int64, each func(Entry)) error {
	info, err := f.file.Stat()
	if err != nil {
		return fmt.Errorf("dump: %w", err)
	}
	if from > info.Size() {
		from = 0
	}
	if _, err := f.file.Seek(from, io.SeekStart); err != nil {
		return fmt.Errorf("dump: %w", err)
	}
	n, err := ReadEntries(f.file, from, each)
	f.size = from + n
	return err
}

// ReadEntries gives each line to each, and returns how many bytes are whole lines. The first line lies at an offset, which
// errors name.
func ReadEntries(r io.Reader, at int64, each func(Entry)) (size int64, err error) {
	lines := bufio.NewReaderSize(r, 1<<20)
	for {
		text, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return size, nil // what is left is torn
		}
		if err != nil {
			return size, fmt.Errorf("dump: at byte %d: %w", at+size, err)
		}
		var line struct {
			Kind, Session, ID, Ended string
			Frame                    uint64
			At                       int64
		}
		if err := json.Unmarshal(text, &line); err != nil {
			return size, fmt.Errorf("dump: line at byte %d: %w", at+size, err)
		}
		id, err := strconv.ParseUint(line.Session, 16, 64)
		if err != nil {
			return size, fmt.Errorf("dump: line at byte %d: session %q: %w", at+size, line.Session, err)
		}
		size += int64(len(text))
		each(Entry{line.Kind, id, line.ID, line.Frame, line.Ended, line.At})
	}
}

// rotateInterval is how often it is looked whether the path still names the file.
const rotateInterval = time.Second

// rotate goes on in a new file if the path does not name this one any more.
func (f *File) rotate(now time.Time) error {
	if now.Sub(f.checked) < rotateInterval {
		return nil
	}
	f.checked = now
	mine, err := f.file.Stat()
	if err != nil {
		return fmt.Errorf("dump: %w", err)
	}
	if there, err := os.Stat(f.path); err == nil && os.SameFile(mine, there) {
		return nil
	}
	old := f.file
	if err := f.open(); err != nil {
		return err
	}
	err = f.read(0, func(Entry) {}) // mostly it is empty
	return errors.Join(err, old.Close())
}

// Write appends lines, all in one write, and returns the size of the file then. After an error nothing of them is in the file.
func (f *File) Write(lines ...any) (size int64, err error) {
	b, err := Encode(lines...)
	if err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.rotate(time.Now()); err != nil {
		return 0, err
	}
	n, err := f.Out.Write(b)
	if err != nil {
		if n > 0 {
			err = errors.Join(err, f.Out.Truncate(f.size))
		}
		return 0, fmt.Errorf("dump: %w", err)
	}
	f.size += int64(n)
	return f.size, nil
}

// Encode is lines as they are written.
func Encode(lines ...any) ([]byte, error) {
	var b bytes.Buffer
	encode := json.NewEncoder(&b)
	encode.SetEscapeHTML(false)
	for _, line := range lines {
		if err := encode.Encode(line); err != nil {
			return nil, fmt.Errorf("dump: %w", err)
		}
	}
	return b.Bytes(), nil
}

// Size is how many bytes are whole lines.
func (f *File) Size() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.size
}

// Close releases the file.
func (f *File) Close() error { return f.Out.Close() }
