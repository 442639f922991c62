package archive

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/kernhes/kernhes/internal/parquet"
)

// staging is the folder of what is not closed. Engines that read partitions pass over names that begin with a dot.
const staging = ".kernparquet"

// A partitionDisk is the folders of one partition: one of what is not closed, and one a table of closed files.
type partitionDisk struct {
	*Directory                       // of what is not closed
	tables     map[string]*Directory // by the table's name
}

func newPartitionDisk(root *Directory, path string) *partitionDisk {
	of := func(first string) *Directory {
		d := NewDirectory(filepath.Join(root.path, first, path))
		d.Mode = root.Mode
		return d
	}
	d := &partitionDisk{of(staging), map[string]*Directory{}}
	for _, t := range parquet.Tables {
		d.tables[string(t)] = of(string(t))
	}
	return d
}

// of is the folder of a file.
func (d *partitionDisk) of(name string) *Directory {
	if m := tablePattern.FindStringSubmatch(name); m != nil {
		return d.tables[m[1]]
	}
	return d.Directory
}

// Lock makes the folders, and takes them.
func (d *partitionDisk) Lock() error {
	for _, t := range d.tables {
		if err := os.MkdirAll(t.path, 0o750); err != nil {
			return err
		}
	}
	return d.Directory.Lock()
}

// Create makes or empties a file.
func (d *partitionDisk) Create(name string) (File, error) { return d.of(name).Create(name) }

// Open opens a file to read and write.
func (d *partitionDisk) Open(name string) (File, error) { return d.of(name).Open(name) }

// Holds reports whether name is still that of f.
func (d *partitionDisk) Holds(name string, f File) bool { return d.of(name).Holds(name, f) }

// Rename replaces what was called so.
func (d *partitionDisk) Rename(from, to string) error {
	return os.Rename(d.of(from).at(from), d.of(to).at(to))
}

// Remove removes a file.
func (d *partitionDisk) Remove(name string) error { return d.of(name).Remove(name) }

// List gives the plain files of all folders.
func (d *partitionDisk) List() ([]Entry, error) {
	all, err := d.Directory.List()
	for _, t := range parquet.Tables {
		if err != nil {
			return nil, err
		}
		var some []Entry
		some, err = d.tables[string(t)].List()
		all = append(all, some...)
	}
	return all, err
}

// Sync makes creations, renames and removals last.
func (d *partitionDisk) Sync() error {
	err := d.Directory.Sync()
	for _, t := range d.tables {
		err = errors.Join(err, t.Sync())
	}
	return err
}

var _ Disk = (*partitionDisk)(nil)
