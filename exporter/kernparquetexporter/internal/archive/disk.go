package archive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ErrLocked is why a directory is refused that another exporter writes into.
var ErrLocked = errors.New("another exporter has it")

// A Disk is a folder of files by name. What it is asked to keep through a power loss it is told by Sync: a file's Sync for
// its bytes, the Disk's for which names there are.
type Disk interface {
	// Lock makes the folder if it must, and takes it; ErrLocked: another has it.
	Lock() error
	Unlock() error
	// Locked reports whether the folder that Lock took is still there.
	Locked() bool
	// Create makes a file, or empties it; Open opens one that exists.
	Create(name string) (File, error)
	Open(name string) (File, error)
	// Holds reports whether name is still that of f.
	Holds(name string, f File) bool
	Rename(from, to string) error
	Remove(name string) error
	List() ([]Entry, error)
	Sync() error
}

// A File of a Disk.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	Truncate(size int64) error
	Sync() error
}

// An Entry is a file of a folder.
type Entry struct {
	Name string
	Size int64 // bytes
}

// lockName is the file that holds the lock. It stays: removing it would let two hold it.
const lockName = ".kernparquet.lock"

// DefaultMode lets the owner write a file and the group read it.
const DefaultMode fs.FileMode = 0o640

// A Directory is a Disk of the operating system.
type Directory struct {
	// Mode is the permission of new files, less the umask. Default: DefaultMode.
	Mode fs.FileMode

	path string
	lock *os.File
}

// NewDirectory names a directory; nothing is done with it yet.
func NewDirectory(path string) *Directory { return &Directory{Mode: DefaultMode, path: path} }

// Lock makes the directory, readable by the group, and takes it for this process until Unlock or its end.
func (d *Directory) Lock() error {
	if err := os.MkdirAll(d.path, 0o750); err != nil {
		return err
	}
	f, err := os.OpenFile(d.at(lockName), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, d.Mode)
	if err != nil {
		return err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("directory %s: %w", d.path, ErrLocked)
		}
		return fmt.Errorf("directory %s: lock: %w", d.path, err)
	}
	d.lock = f
	return nil
}

// Unlock gives the directory back.
func (d *Directory) Unlock() error {
	if d.lock == nil {
		return nil
	}
	err := d.lock.Close()
	d.lock = nil
	return err
}

// Locked looks whether the lock's file is still the one in the directory.
func (d *Directory) Locked() bool { return d.lock != nil && same(d.at(lockName), d.lock) }

// Create makes or empties a file.
func (d *Directory) Create(name string) (File, error) {
	return d.open(name, os.O_CREATE|os.O_TRUNC|os.O_RDWR)
}

// Open opens a file to read and write.
func (d *Directory) Open(name string) (File, error) { return d.open(name, os.O_RDWR) }

func (d *Directory) open(name string, flags int) (File, error) {
	// A link in a file's place would have another file written.
	f, err := os.OpenFile(d.at(name), flags|syscall.O_NOFOLLOW, d.Mode)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Holds compares device and inode.
func (d *Directory) Holds(name string, f File) bool { return same(d.at(name), f.(osFile).File) }

func same(path string, f *os.File) bool {
	there, err := os.Stat(path)
	if err != nil {
		// What cannot be looked at may well be there.
		return !errors.Is(err, fs.ErrNotExist)
	}
	here, err := f.Stat()
	return err == nil && os.SameFile(there, here)
}

// Rename replaces what was called so.
func (d *Directory) Rename(from, to string) error { return os.Rename(d.at(from), d.at(to)) }

// Remove removes a file.
func (d *Directory) Remove(name string) error { return os.Remove(d.at(name)) }

// List gives the plain files.
func (d *Directory) List() ([]Entry, error) {
	all, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for _, e := range all {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
			continue
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, Entry{e.Name(), info.Size()})
	}
	return entries, nil
}

// Sync makes creations, renames and removals last.
func (d *Directory) Sync() error {
	f, err := os.Open(d.path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (d *Directory) at(name string) string { return filepath.Join(d.path, name) }

type osFile struct{ *os.File }

// Size is the file's length, in bytes.
func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
