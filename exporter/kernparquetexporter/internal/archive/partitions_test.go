package archive

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/parquet"
)

// ofRun is a chunk of a step of a run.
func ofRun(run string, seq int64) (c Chunk) {
	p := chunk.NewPacker(chunk.Identity{Run: run, Host: "host", Mode: "hes"}, func(s *chunk.Sealed) {
		unpacked, err := chunk.Unpack(s.Body)
		if err != nil {
			panic(err)
		}
		c = Chunk{append([]byte(nil), s.Body...), unpacked}
	})
	of := chunkOf(seq)
	if err := p.Add(&of.Steps[0]); err != nil {
		panic(err)
	}
	p.Cut()
	return c
}

func partitionsIn(t *testing.T, dir string, change func(*Options)) *Partitions {
	t.Helper()
	o := Options{Host: "host", Roll: 30 * time.Minute, Logger: zap.NewNop(), Tables: parquet.Options{RowGroupRows: 1024, MaxPending: 1 << 16}}
	if change != nil {
		change(&o)
	}
	p, err := OpenPartitions(o, NewDirectory(dir), noon)
	require.NoError(t, err)
	return p
}

// tables are the closed files of table k below a folder.
func tables(t *testing.T, dir string) (paths []string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "k", "*", "*", "k-*.parquet"))
	require.NoError(t, err)
	for _, path := range all {
		rel, err := filepath.Rel(filepath.Join(dir, "k"), filepath.Dir(path))
		require.NoError(t, err)
		paths = append(paths, rel)
	}
	return paths
}

// Each date and run has a folder, whatever a run is called, and each row is in one file.
func TestPartitionsAreFolders(t *testing.T) {
	dir := t.TempDir()
	p := partitionsIn(t, dir, nil)
	require.NoError(t, p.Add([]Chunk{ofRun("a", 1), ofRun("b/c=1", 1), ofRun("a", 2)}, noon))
	require.NoError(t, p.Add([]Chunk{ofRun("a", 1), ofRun("", 1)}, noon), "the first one came before")
	require.NoError(t, p.Add([]Chunk{ofRun("a", 3)}, noon.Add(13*time.Hour)))
	s := p.Status()
	require.Len(t, s.Open.Files, 4*3)
	_, err := OpenPartitions(p.o, NewDirectory(dir), noon)
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, p.Close(t.Context()))
	require.NoError(t, p.Close(t.Context()), "twice")
	require.ErrorIs(t, p.Add([]Chunk{ofRun("a", 9)}, noon), ErrClosed)
	require.Equal(t, []string{"date=2026-11-29/run=__HIVE_DEFAULT_PARTITION__", "date=2026-11-29/run=a", "date=2026-11-29/run=b%2Fc%3D1", "date=2026-11-30/run=a"},
		tables(t, dir))
	n := p.Counts()
	require.Equal(t, Rows{Kernels: 5 * kernelsEach, Steps: 5}, n.Rows)
	require.EqualValues(t, 1, n.Duplicates)
	require.EqualValues(t, 4*3, n.Files)
}

// What a process left open is closed by the next one, in the folder in which it lies.
func TestPartitionsAreResumed(t *testing.T) {
	dir := t.TempDir()
	p := partitionsIn(t, dir, nil)
	require.NoError(t, p.Add([]Chunk{ofRun("a", 1), ofRun("b", 1)}, noon))
	// The process ends: locks go, and nothing else happens.
	for _, at := range p.open {
		at.open.abandon()
		require.NoError(t, at.closer.end(t.Context()))
	}
	require.NoError(t, p.root.Unlock())
	require.Empty(t, tables(t, dir))

	again := partitionsIn(t, dir, nil)
	_, err := again.Flush(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"date=2026-11-29/run=a", "date=2026-11-29/run=b"}, tables(t, dir))
	require.EqualValues(t, 2, again.Counts().Recovered)
	require.NoError(t, again.Close(t.Context()))
}

// Partitions that nothing comes for are closed; old files go, over all of them, and folders that are empty.
func TestPartitionsAgeTogether(t *testing.T) {
	dir := t.TempDir()
	p := partitionsIn(t, dir, func(o *Options) { o.MaxAge = 24 * time.Hour })
	require.NoError(t, p.Add([]Chunk{ofRun("a", 1)}, noon))
	require.NoError(t, p.Add([]Chunk{ofRun("b", 1)}, noon.Add(20*time.Hour)))
	for range retainEach {
		p.Tick(noon.Add(21 * time.Hour))
	}
	require.Eventually(t, func() bool { // the closer has closed the first
		p.Tick(noon.Add(21 * time.Hour))
		return len(p.open) <= 1
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, p.Add([]Chunk{ofRun("b", 2)}, noon.Add(30*time.Hour)))
	require.Eventually(t, func() bool { // a closer may still be at the old one
		p.Tick(noon.Add(30 * time.Hour))
		return !slices.ContainsFunc([]string{"k", "s", "c", staging}, func(folder string) bool {
			_, err := os.Stat(filepath.Join(dir, folder, "date=2026-11-29"))
			return !errors.Is(err, os.ErrNotExist)
		})
	}, 10*time.Second, time.Millisecond, "the old folders go")
	require.NoError(t, p.Close(t.Context()))
	require.Equal(t, []string{"date=2026-11-30/run=b", "date=2026-11-30/run=b"}[:len(tables(t, dir))], tables(t, dir))
	require.NotEmpty(t, tables(t, dir))
}

func TestEscape(t *testing.T) {
	check := func(value, want string) { t.Helper(); require.Equal(t, want, escape(value)) }
	check("nccl-0123", "nccl-0123")
	check("..", "%2E.")
	check("a b", "a%20b")
	check("é", "%C3%A9")
	long := escape(string(make([]byte, 4000)))
	require.LessOrEqual(t, len("run="+long), 255)
	require.NotEqual(t, long, escape(string(make([]byte, 4001))))
}
