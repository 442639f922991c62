package archive

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/parquet"
)

// names are the files in a disk that are closed, as text.
func names(t testing.TB, d Disk) (closed []string) {
	t.Helper()
	entries, err := d.List()
	require.NoError(t, err)
	for _, e := range entries {
		if tablePattern.MatchString(e.Name) {
			closed = append(closed, e.Name)
		}
	}
	return closed
}

func TestRollsAreAlignedToTheClock(t *testing.T) {
	d := NewDirectory(t.TempDir())
	a := openArchive(t, options(d))
	addAll(t, a, noon.Add(29*time.Minute), 1, 2)
	addAll(t, a, noon.Add(30*time.Minute), 3)
	addAll(t, a, noon.Add(59*time.Minute+59*time.Second), 4)
	a.Tick(noon.Add(time.Hour)) // the roll ends without a chunk
	require.Nil(t, a.Status().Open)
	addAll(t, a, noon.Add(time.Hour+time.Second), 5)
	require.NoError(t, a.Close(t.Context()))
	require.ElementsMatch(t, []string{
		"k-20261129T120000Z-host-1740000.parquet", "s-20261129T120000Z-host-1740000.parquet", "c-20261129T120000Z-host-1740000.parquet",
		"k-20261129T123000Z-host-0.parquet", "s-20261129T123000Z-host-0.parquet", "c-20261129T123000Z-host-0.parquet",
		"k-20261129T130000Z-host-1000.parquet", "s-20261129T130000Z-host-1000.parquet", "c-20261129T130000Z-host-1000.parquet",
	}, names(t, d))
	requireOnce(t, d, 5)
	n := a.Counts()
	require.Equal(t, Rows{5 * kernelsEach, 5, 5, 0}, n.Rows)
	require.EqualValues(t, 9, n.Files)
}

func TestFlushNamesWhatItClosed(t *testing.T) {
	d := NewDirectory(t.TempDir())
	a := openArchive(t, options(d))
	files, err := a.Flush(t.Context())
	require.NoError(t, err)
	require.Empty(t, files)
	addAll(t, a, noon.Add(time.Minute), 1, 2, 3)
	status := a.Status()
	require.Equal(t, noon.Add(30*time.Minute), status.Open.RollEnds)
	require.EqualValues(t, 3*kernelsEach, status.Open.Files[0].Rows)
	files, err = a.Flush(t.Context())
	require.NoError(t, err)
	require.Len(t, files, 3)
	require.Equal(t, "k-20261129T120000Z-host-60000.parquet", files[0].Name)
	for i, rows := range []int64{3 * kernelsEach, 3, 3} {
		require.Equal(t, rows, files[i].Rows)
		info, err := os.Stat(filepath.Join(d.path, files[i].Name))
		require.NoError(t, err)
		require.Equal(t, info.Size(), files[i].Bytes)
	}
	// The roll goes on in another part.
	addAll(t, a, noon.Add(time.Minute), 4)
	require.Equal(t, noon.Add(30*time.Minute), a.Status().Open.RollEnds)
	files, err = a.Flush(t.Context())
	require.NoError(t, err)
	require.Equal(t, "k-20261129T120000Z-host-60001.parquet", files[0].Name)
	requireOnce(t, d, 4)
}

// TestManyFlushes flushes from several sides while chunks come: when a flush returns, all taken before are in closed files.
func TestManyFlushes(t *testing.T) {
	d := NewDirectory(t.TempDir())
	a := openArchive(t, options(d))
	const n = 60
	var wg sync.WaitGroup
	taken := make(chan int64, n)
	for range 4 {
		wg.Go(func() {
			for seq := range taken {
				if _, err := a.Flush(t.Context()); err != nil {
					t.Errorf("flush after step %d: %v", seq, err)
				}
				if seq%10 != 0 {
					continue
				}
				found := false
				for _, c := range contents(t, d) {
					found = found || len(c.kernels[seq]) == kernelsEach
				}
				if !found {
					t.Errorf("step %d was flushed and is in no closed file", seq)
				}
			}
		})
	}
	for seq := int64(1); seq <= n; seq++ {
		addAll(t, a, noon, seq)
		taken <- seq
	}
	close(taken)
	wg.Wait()
	require.NoError(t, a.Close(t.Context()))
	requireOnce(t, d, n)
}

func TestChunksThatComeAgainAreNotTakenAgain(t *testing.T) {
	d := NewDirectory(t.TempDir())
	o := options(d)
	o.JournalBytes = 1000
	a := openArchive(t, o)
	require.NoError(t, a.Add([]Chunk{chunkOf(1), chunkOf(2), chunkOf(1)}, noon))
	addAll(t, a, noon, 2, 3)
	require.NoError(t, a.Close(t.Context()))
	require.EqualValues(t, 2, a.Counts().Duplicates)
	require.ErrorIs(t, a.Add([]Chunk{chunkOf(4)}, noon), ErrClosed)
	a = openArchive(t, o)
	addAll(t, a, noon, 3, 4)
	require.NoError(t, a.Close(t.Context()))
	require.EqualValues(t, 1, a.Counts().Duplicates)
	requireOnce(t, d, 4)
}

func TestOneExporterADirectory(t *testing.T) {
	path := t.TempDir()
	a := openArchive(t, options(NewDirectory(path)))
	_, err := Open(options(NewDirectory(path)))
	require.ErrorIs(t, err, ErrLocked)
	require.ErrorContains(t, err, path)
	require.NoError(t, a.Close(t.Context()))
	openArchive(t, options(NewDirectory(path)))
}

func TestClockSetBack(t *testing.T) {
	d := NewDirectory(t.TempDir())
	a := openArchive(t, options(d))
	addAll(t, a, noon.Add(time.Minute), 1)
	addAll(t, a, noon.Add(-time.Minute), 2) // less than a roll: the part goes on
	require.Equal(t, noon.Add(30*time.Minute), a.Status().Open.RollEnds)
	a.Tick(noon.Add(-24 * time.Hour))
	addAll(t, a, noon.Add(-24*time.Hour), 3)
	addAll(t, a, noon.Add(2*time.Minute), 4) // and forward again: not the name that was closed
	require.NoError(t, a.Close(t.Context()))
	requireOnce(t, d, 4)
	require.Len(t, contents(t, d), 3)
}

func TestRetentionTakesTheOldestClosed(t *testing.T) {
	d := NewDirectory(t.TempDir())
	require.NoError(t, os.WriteFile(filepath.Join(d.path, "k-notes.parquet"), []byte("mine"), 0o600))
	o := options(d)
	o.MaxAge = 2 * time.Hour
	a := openArchive(t, o)
	for i := range int64(5) {
		addAll(t, a, noon.Add(time.Duration(i)*time.Hour), i+1)
	}
	_, err := a.Flush(t.Context())
	require.NoError(t, err)
	addAll(t, a, noon.Add(4*time.Hour), 6)
	a.retain(noon.Add(4 * time.Hour)) // rolls that ended before 14:00: those of 12:00 and 13:00
	left := strings.Join(names(t, d), " ")
	require.NotContains(t, left, "T120000Z")
	require.NotContains(t, left, "T130000Z")
	require.Contains(t, left, "T140000Z")
	require.EqualValues(t, 6, a.Counts().Removed)

	a.o.MaxAge, a.o.MaxBytes = 0, 1
	a.retain(noon.Add(4 * time.Hour))
	require.Empty(t, names(t, d), "all closed ones take more than a byte")
	require.NotNil(t, a.Status().Open, "the open one stays")
	require.NoError(t, a.Close(t.Context()))
	require.Len(t, names(t, d), 3)
	require.FileExists(t, filepath.Join(d.path, "k-notes.parquet"))
}

// TestRetentionCountsFromTheEndOfTheRotation: files of 12:00 to 12:30 are two hours old at 14:30.
func TestRetentionCountsFromTheEndOfTheRotation(t *testing.T) {
	d := NewDirectory(t.TempDir())
	o := options(d)
	o.MaxAge = 2 * time.Hour
	a := openArchive(t, o)
	addAll(t, a, noon, 1)
	_, err := a.Flush(t.Context())
	require.NoError(t, err)
	for _, now := range []time.Duration{2*time.Hour + time.Second, 2*time.Hour + 30*time.Minute} {
		a.retain(noon.Add(now))
		require.Len(t, names(t, d), 3, "after %v", now)
	}
	a.retain(noon.Add(2*time.Hour + 30*time.Minute + time.Second))
	require.Empty(t, names(t, d))
}

func TestDirectoryRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "archive")
	d := NewDirectory(path)
	a := openArchive(t, options(d))
	addAll(t, a, noon, 9)
	require.NoError(t, os.RemoveAll(path))
	addAll(t, a, noon, 1)
	_, err := a.Flush(t.Context())
	require.NoError(t, err)
	require.Equal(t, Rows{kernelsEach, 1, 1, 0}, a.Counts().Lost, "step 9 was taken and is gone")
	requireOnce(t, d, 1)
	_, err = Open(options(NewDirectory(path)))
	require.ErrorIs(t, err, ErrLocked, "the new one is locked too")
}

func TestOpenFileRemoved(t *testing.T) {
	d := NewDirectory(t.TempDir())
	o := options(d)
	o.JournalBytes = 1
	a := openArchive(t, o)
	addAll(t, a, noon, 1) // in row groups that the journal names
	require.NoError(t, os.Remove(filepath.Join(d.path, "k-20261129T120000Z-host-0.parquet.open")))
	_, err := a.Flush(t.Context())
	require.Error(t, err)
	files, err := a.Flush(t.Context())
	require.NoError(t, err)
	require.Len(t, files, 3)
	require.Equal(t, Rows{Kernels: kernelsEach}, a.Counts().Lost)
	require.EqualValues(t, 1, files[1].Rows)
}

// A file that was cut short gets no hole in its middle: what it had is lost and counted, what comes goes into a whole file.
func TestOpenFileCutShort(t *testing.T) {
	d := NewDirectory(t.TempDir())
	o := options(d)
	o.JournalBytes = 1
	a := openArchive(t, o)
	addAll(t, a, noon, 1) // in row groups that the journal names
	require.NoError(t, os.Truncate(filepath.Join(d.path, "k-20261129T120000Z-host-0.parquet.open"), 100))
	addAll(t, a, noon, 2) // finds it cut; the closer mends the part by its journal
	files, err := a.Flush(t.Context())
	require.NoError(t, err)
	require.Len(t, files, 3)
	require.Equal(t, Rows{Kernels: kernelsEach}, a.Counts().Lost)
	for _, c := range contents(t, d) {
		require.Empty(t, c.kernels[1])
		require.Len(t, c.kernels[2], kernelsEach)
		require.Equal(t, map[int64]int{1: 1, 2: 1}, c.steps)
	}
}

func TestForeignJournalIsSetAside(t *testing.T) {
	d := NewDirectory(t.TempDir())
	name := Name{noon, "host", 1}
	require.NoError(t, os.WriteFile(filepath.Join(d.path, name.journal()), []byte("something else"), 0o600))
	a := openArchive(t, options(d))
	addAll(t, a, noon, 1)
	require.NoError(t, a.Close(t.Context()))
	require.FileExists(t, filepath.Join(d.path, name.journal()+".bad"))
	requireOnce(t, d, 1)
}

// TestEachOperationMayFail makes every operation of a kind on files of a kind fail for a while. What was refused is
// added again; all is there, once, when the disk is well.
func TestEachOperationMayFail(t *testing.T) {
	for _, op := range []string{"create", "open", "write", "sync", "rename"} {
		for _, suffix := range []string{".parquet.open", ".parquet", ".journal", ".new", ".recent"} {
			t.Run(op+suffix, func(t *testing.T) {
				d := &faulty{Directory: NewDirectory(t.TempDir())}
				o := options(d)
				o.JournalBytes = 1000
				a := openArchive(t, o)
				addAll(t, a, noon, 1)
				d.set(failing(op, suffix))
				var again []int64
				for seq := int64(2); seq < 9; seq++ {
					err := a.Add([]Chunk{chunkOf(seq)}, noon.Add(time.Duration(seq)*10*time.Minute))
					if err != nil {
						if !errors.Is(err, ErrBehind) {
							require.ErrorIs(t, err, errDisk)
						}
						again = append(again, seq)
					}
				}
				_, _ = a.Flush(t.Context())
				d.set(nil)
				addAll(t, a, noon.Add(2*time.Hour), again...)
				_, err := a.Flush(t.Context())
				require.NoError(t, err)
				require.Zero(t, a.Unclosed())
				require.NoError(t, a.Close(t.Context()))
				requireOnce(t, d, 8)
				require.Equal(t, Rows{}, a.Counts().Lost)
				require.EqualValues(t, 8, a.Counts().Chunks)
			})
		}
	}
}

func TestCloseHasADeadline(t *testing.T) {
	d := &faulty{Directory: NewDirectory(t.TempDir())}
	a := openArchive(t, options(d))
	addAll(t, a, noon, 1)
	release := make(chan struct{})
	d.set(func(op, name string) error {
		if op == "sync" && strings.HasSuffix(name, ".open") {
			<-release
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, a.Close(ctx), context.Canceled)
	close(release)
	<-a.closer.done
	a = openArchive(t, options(d.Directory)) // whatever was left
	require.NoError(t, a.Close(t.Context()))
	requireOnce(t, d.Directory, 1)
}

func TestNamesOfHosts(t *testing.T) {
	for host, want := range map[string]string{"gpu-7.example": "gpu-7.example", "a/../b c": "a_.._b_c", "": "host", strings.Repeat("x", 99): strings.Repeat("x", 63)} {
		require.Equal(t, want, HostName(host))
		n, ok := parse(tablePattern, Name{noon, HostName(host), 12}.closed(parquet.Copies))
		require.True(t, ok)
		require.Equal(t, Name{noon, want, 12}, n)
	}
}
