package archive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var errDisk = errors.New("disk says no")

// failing fails an operation on files of a kind.
func failing(op, suffix string) func(string, string) error {
	return func(o, name string) error {
		if o == op && strings.HasSuffix(name, suffix) {
			return fmt.Errorf("%s %s: %w", o, name, errDisk)
		}
		return nil
	}
}

// faulty fails what a test says.
type faulty struct {
	*Directory
	mu   sync.Mutex
	fail func(op, name string) error
}

func (d *faulty) fault(op, name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail == nil {
		return nil
	}
	return d.fail(op, name)
}

func (d *faulty) set(fail func(op, name string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = fail
}

func (d *faulty) Create(name string) (File, error) { return d.wrap("create", name, d.Directory.Create) }
func (d *faulty) Open(name string) (File, error)   { return d.wrap("open", name, d.Directory.Open) }

func (d *faulty) wrap(op, name string, open func(string) (File, error)) (File, error) {
	if err := d.fault(op, name); err != nil {
		return nil, err
	}
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	return &faultyFile{f, d, name}, nil
}

func (d *faulty) Holds(name string, f File) bool {
	return d.Directory.Holds(name, f.(*faultyFile).File)
}

func (d *faulty) Rename(from, to string) error {
	if err := d.fault("rename", to); err != nil {
		return err
	}
	return d.Directory.Rename(from, to)
}

type faultyFile struct {
	File
	disk *faulty
	name string
}

func (f *faultyFile) WriteAt(b []byte, at int64) (int, error) {
	if err := f.disk.fault("write", f.name); err != nil {
		n, _ := f.File.WriteAt(b[:len(b)/2], at)
		return n, err
	}
	return f.File.WriteAt(b, at)
}

func (f *faultyFile) Sync() error {
	if err := f.disk.fault("sync", f.name); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *faultyFile) ReadAt(b []byte, at int64) (int, error) {
	if err := f.disk.fault("read", f.name); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, at)
}

func (f *faultyFile) Size() (int64, error) {
	if err := f.disk.fault("size", f.name); err != nil {
		return 0, err
	}
	return f.File.Size()
}

func (f *faultyFile) Truncate(size int64) error {
	if err := f.disk.fault("truncate", f.name); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (d *faulty) Lock() error {
	if err := d.fault("lock", ""); err != nil {
		return err
	}
	return d.Directory.Lock()
}

func (d *faulty) Remove(name string) error {
	if err := d.fault("remove", name); err != nil {
		return err
	}
	return d.Directory.Remove(name)
}

func (d *faulty) List() ([]Entry, error) {
	if err := d.fault("list", ""); err != nil {
		return nil, err
	}
	return d.Directory.List()
}

func (d *faulty) Sync() error {
	if err := d.fault("sync", ""); err != nil {
		return err
	}
	return d.Directory.Sync()
}

// leftOpen is a directory where a process left chunks 1 and 2 in an open part.
func leftOpen(t *testing.T) *faulty {
	t.Helper()
	d := &faulty{Directory: NewDirectory(t.TempDir())}
	o := options(d)
	o.JournalBytes = 1 // so that there is a list of recent chunks, and row groups that the journal names
	a := openArchive(t, o)
	addAll(t, a, noon, 1, 2)
	d.set(failing("sync", ".parquet.open"))
	require.ErrorIs(t, a.Close(t.Context()), errDisk)
	d.set(nil)
	return d
}

// TestOpenSaysWhatFails: a folder that cannot be read is refused, and not kept from the next process; nothing in it is lost.
func TestOpenSaysWhatFails(t *testing.T) {
	for _, fault := range [][2]string{{"lock", ""}, {"list", ""}, {"open", ".recent"}, {"size", ".recent"}, {"read", ".recent"}, {"open", ".journal"}, {"read", ".journal"}} {
		d := leftOpen(t)
		d.set(failing(fault[0], fault[1]))
		_, err := Open(options(d))
		require.ErrorIs(t, err, errDisk, "%s %s", fault[0], fault[1])
		d.set(nil)
		a := openArchive(t, options(d))
		require.NoError(t, a.Add([]Chunk{chunkOf(2), chunkOf(3)}, noon), "the second chunk comes again")
		require.NoError(t, a.Close(t.Context()))
		require.EqualValues(t, 1, a.Counts().Duplicates)
		requireOnce(t, d, 3)
	}
}

// TestResumingMayFail: a part that was left open is tried again until it is closed, and Flush says why it is not.
func TestResumingMayFail(t *testing.T) {
	for _, fault := range [][2]string{{"open", ".parquet.open"}, {"size", ".parquet.open"}, {"truncate", ".parquet.open"}, {"create", ".recent.new"}, {"rename", ".parquet"}, {"remove", ".journal"}, {"sync", ""}} {
		d := leftOpen(t)
		d.set(failing(fault[0], fault[1]))
		a, err := Open(options(d))
		require.NoError(t, err)
		for range 2 {
			_, err = a.Flush(t.Context())
			require.ErrorIs(t, err, errDisk, "%s %s", fault[0], fault[1])
			require.Equal(t, 1, a.Unclosed())
		}
		require.GreaterOrEqual(t, a.Counts().Failures, int64(2))
		require.Zero(t, a.Counts().Recovered)
		d.set(nil)
		files, err := a.Flush(t.Context())
		require.NoError(t, err)
		require.Len(t, files, 3)
		require.EqualValues(t, 1, a.Counts().Recovered)
		require.NoError(t, a.Close(t.Context()))
		requireOnce(t, d, 2)
		require.Equal(t, Rows{}, a.Counts().Lost)
	}
}

// TestAJournalThatCannotBeSetAsideIsTriedAgain: it is no journal, and its part is not given up before it has its other name.
func TestAJournalThatCannotBeSetAsideIsTriedAgain(t *testing.T) {
	d := &faulty{Directory: NewDirectory(t.TempDir())}
	name := Name{noon, "host", 1}.journal()
	require.NoError(t, os.WriteFile(filepath.Join(d.path, name), []byte("something else"), 0o600))
	d.set(failing("rename", ".bad"))
	a := openArchive(t, options(d))
	_, err := a.Flush(t.Context())
	require.ErrorIs(t, err, errDisk)
	require.FileExists(t, filepath.Join(d.path, name))
	d.set(nil)
	_, err = a.Flush(t.Context())
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(d.path, name+".bad"))
	require.Zero(t, a.Unclosed())
}

// TestOldFilesThatCannotBeRemovedAreCounted, and are tried again with the next look for them.
func TestOldFilesThatCannotBeRemovedAreCounted(t *testing.T) {
	for _, fault := range [][2]string{{"list", ""}, {"remove", ".parquet"}} {
		d := &faulty{Directory: NewDirectory(t.TempDir())}
		o := options(d)
		o.MaxAge = time.Hour
		a := openArchive(t, o)
		addAll(t, a, noon, 1)
		_, err := a.Flush(t.Context())
		require.NoError(t, err)
		late := noon.Add(5 * time.Hour)
		d.set(failing(fault[0], fault[1]))
		a.retain(late)
		require.EqualValues(t, 1, a.Counts().Failures, "%s %s", fault[0], fault[1])
		require.Zero(t, a.Counts().Removed)
		d.set(nil)
		requireOnce(t, d, 1)
		a.retain(late)
		require.EqualValues(t, 3, a.Counts().Removed)
		require.Empty(t, contents(t, d))
		require.NoError(t, a.Close(t.Context()))
	}
}

// TestAFolderThatCannotBeMadeAgainRefusesChunks until it can: it was removed under the archive.
func TestAFolderThatCannotBeMadeAgainRefusesChunks(t *testing.T) {
	for _, fault := range [][2]string{{"lock", ""}, {"list", ""}, {"create", ".journal.new"}} {
		d := &faulty{Directory: NewDirectory(filepath.Join(t.TempDir(), "archive"))}
		a := openArchive(t, options(d))
		require.NoError(t, os.RemoveAll(d.path))
		d.set(failing(fault[0], fault[1]))
		require.ErrorIs(t, a.Add([]Chunk{chunkOf(1)}, noon), errDisk, "%s %s", fault[0], fault[1])
		a.Tick(noon)
		d.set(nil)
		require.NoError(t, a.Add([]Chunk{chunkOf(1)}, noon))
		require.NoError(t, a.Close(t.Context()))
		require.Positive(t, a.Counts().Failures)
		require.EqualValues(t, 1, a.Counts().Chunks)
		requireOnce(t, d, 1)
	}
	_, err := (&Directory{path: "/dev/null/none"}).List()
	require.ErrorIs(t, err, syscall.ENOTDIR)
}
