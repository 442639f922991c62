package archive

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	parquetgo "github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/parquet"
)

// lastWord is the chunk with which a session ends that has no rows waiting.
func lastWord(t *testing.T, received uint64) (c Chunk) {
	p := chunk.NewPacker(chunk.Identity{Run: "run", Rank: 1, Host: "host", Mode: "hes"}, func(s *chunk.Sealed) {
		unpacked, err := chunk.Unpack(s.Body)
		require.NoError(t, err)
		c = Chunk{slices.Clone(s.Body), unpacked}
	})
	p.Count([]chunk.Count{{Name: books.KernelsReceived, Value: received}})
	p.End()
	return c
}

// accounts are the sources with an account of closed files of kernels, by file.
func accounts(t *testing.T, d *Directory) map[string][]parquet.Source {
	of := map[string][]parquet.Source{}
	for _, name := range names(t, d) {
		if name[0] != 'k' {
			continue
		}
		b, err := os.ReadFile(filepath.Join(d.path, name))
		require.NoError(t, err)
		f, err := parquetgo.OpenFile(bytes.NewReader(b), int64(len(b)))
		require.NoError(t, err)
		value, ok := f.Lookup(parquet.KeySources)
		require.True(t, ok)
		var sources []parquet.Source
		require.NoError(t, json.Unmarshal([]byte(value), &sources))
		for _, s := range sources {
			if len(s.Counts) > 0 {
				of[name] = append(of[name], s)
			}
		}
	}
	return of
}

// TestTheLastWordOnASessionIsInAFile: also if the files with its rows are closed, and nothing else comes.
func TestTheLastWordOnASessionIsInAFile(t *testing.T) {
	d := NewDirectory(t.TempDir())
	a := openArchive(t, options(d))
	addAll(t, a, noon, 1)
	_, err := a.Flush(t.Context())
	require.NoError(t, err)
	require.Empty(t, accounts(t, d))
	word := lastWord(t, 40)
	for range 2 { // it may be sent again
		require.NoError(t, a.Add([]Chunk{word}, noon.Add(time.Minute)))
	}
	a.Tick(noon.Add(30 * time.Minute)) // the roll ends
	files, err := a.Flush(t.Context())
	require.NoError(t, err)
	for _, f := range files {
		require.Zero(t, f.Rows)
	}
	got := accounts(t, d)["k-20261129T120000Z-host-60000.parquet"]
	require.Len(t, got, 1)
	require.Equal(t, books.Counts{books.KernelsReceived: 40}, got[0].Counts)
	require.Len(t, names(t, d), 6, "and no more files")
	require.NoError(t, a.Close(t.Context()))
	require.Len(t, names(t, d), 6)
	requireOnce(t, d, 1)
}

// TestTheLastWordOutlivesACrash.
func TestTheLastWordOutlivesACrash(t *testing.T) {
	d := NewDirectory(t.TempDir())
	a := openArchive(t, options(d))
	require.NoError(t, a.Add([]Chunk{lastWord(t, 40)}, noon))
	a.mu.Lock()
	a.giveUp(os.ErrClosed) // what the next start finds
	a.mu.Unlock()
	_, err := a.Flush(t.Context())
	require.NoError(t, err)
	require.Len(t, accounts(t, d), 1)
	require.EqualValues(t, 1, a.Counts().Recovered)
}
