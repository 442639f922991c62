package parquet

import (
	"bytes"
	"encoding/json"
	"testing"

	parquetgo "github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/internal/chunk"
)

// TestFooterHasTheLastAccount: a session's last chunk may have nothing but its account, which its source is given; a session
// without rows in the file is a source of none.
func TestFooterHasTheLastAccount(t *testing.T) {
	shape := &chunk.Shape{Hash: 1, Positions: []chunk.Position{{Name: "gemm"}}}
	one := func(session uint64, steps int, counts ...chunk.Count) *chunk.Chunk {
		c := &chunk.Chunk{Identity: chunk.Identity{Run: "r", Rank: 1, Session: session}, Counts: counts}
		for range steps {
			c.Steps = append(c.Steps, chunk.Step{Start: 5, End: 6, Shape: shape, Launches: []chunk.Launch{{}}, Starts: []uint64{5}, Durs: []uint64{1}, Kernels: 1, Last: true})
		}
		return c
	}
	received := func(n uint64) chunk.Count { return chunk.Count{Name: books.KernelsReceived, Value: n} }
	inSteps := func(n uint64) chunk.Count { return chunk.Count{Name: books.KernelsInSteps, Value: n} }
	lost := func(reason string, n uint64) chunk.Count {
		return chunk.Count{Name: books.LostPrefix + reason, Value: n}
	}
	for when, flush := range map[string]bool{"waiting": false, "written": true} {
		var file bytes.Buffer
		w, err := NewWriter(&file, Kernels, Options{})
		require.NoError(t, err)
		require.NoError(t, w.WriteChunk(one(7, 1, received(1), inSteps(1), lost(books.HESBuffer, 0))))
		require.NoError(t, w.WriteChunk(one(8, 1, received(1), inSteps(1))))
		if flush {
			require.NoError(t, w.Flush())
		}
		require.NoError(t, w.WriteChunk(one(7, 0, received(4), inSteps(2), lost(books.HESBuffer, 3))))
		require.NoError(t, w.WriteChunk(one(9, 0, received(4))))
		require.NoError(t, w.Close(nil))
		_, groups, err := ReadFooter(file.Bytes()[file.Len()-int(FooterLength(file.Bytes()[file.Len()-TailBytes:])):])
		require.NoError(t, err)
		sources := groups[0].Sources
		require.Len(t, sources, 3, when)
		require.EqualValues(t, 9, sources[2].Session, when)
		require.Zero(t, sources[2].Rows, when)
		require.Equal(t, books.Counts{books.KernelsReceived: 4}, sources[2].Counts, when)
		require.Equal(t, books.Counts{books.KernelsReceived: 4, books.KernelsInSteps: 2}, sources[0].Counts, when)
		require.Equal(t, map[string]uint64{books.HESBuffer: 3}, sources[0].Losses, when)
		require.Equal(t, map[string]int64{books.OfKernels: 2}, sources[0].Residues, when)
		require.Equal(t, map[string]int64{books.OfKernels: 0}, sources[1].Residues, when)
		text, err := json.Marshal(sources[0])
		require.NoError(t, err)
		require.Contains(t, string(text), `"counts":{"in_steps":2,"received":4},"losses":{"hes_buffer":3},"residues":{"kernels":2}`)
	}
}

// TestAFileOfNoRowsHasTheLastAccount, and no run, rank or window: those are of rows.
func TestAFileOfNoRowsHasTheLastAccount(t *testing.T) {
	for _, table := range []Table{Kernels, Steps, Copies} {
		var file bytes.Buffer
		w, err := NewWriter(&file, table, Options{})
		require.NoError(t, err)
		require.True(t, w.Empty())
		for _, session := range []uint64{8, 7} {
			require.NoError(t, w.WriteChunk(&chunk.Chunk{
				Identity: chunk.Identity{Run: "r", Rank: 1, Session: session}, Counts: []chunk.Count{{Name: books.KernelsReceived, Value: session}}}))
		}
		require.False(t, w.Empty())
		require.NoError(t, w.Close(nil))
		f, err := parquetgo.OpenFile(bytes.NewReader(file.Bytes()), int64(file.Len()))
		require.NoError(t, err)
		require.Zero(t, f.NumRows())
		value := func(key string) string {
			v, ok := f.Lookup(key)
			require.True(t, ok, key)
			return v
		}
		require.Equal(t, "[]", value(KeyRuns))
		require.JSONEq(t, `{"from_ns":0,"to_ns":0}`, value(KeyWindow))
		var sources []Source
		require.NoError(t, json.Unmarshal([]byte(value(KeySources)), &sources))
		require.Len(t, sources, 2)
		require.EqualValues(t, 7, sources[0].Session)
		require.Equal(t, books.Counts{books.KernelsReceived: 7}, sources[0].Counts)
	}
}

// TestASourceWithoutRowsMovesNoWindow: its times are none.
func TestASourceWithoutRowsMovesNoWindow(t *testing.T) {
	none := Source{Run: "r", Session: 7, account: accountOf([]chunk.Count{{Name: books.KernelsReceived, Value: 4}})}
	some := Source{Run: "r", Session: 7, Rows: 2, From: 5, To: 9}
	for _, sources := range [][]Source{{none, some}, {some, none}} {
		values, err := describe(Kernels, []Group{{Sources: sources}}, nil)
		require.NoError(t, err)
		require.JSONEq(t, `{"from_ns":5,"to_ns":9}`, values[KeyWindow])
		require.JSONEq(t, `[{"run":"r","rank":0,"device":0,"session":7,"host":"","mode":"","rows":2,"from_ns":5,"to_ns":9,
			"counts":{"received":4},"residues":{"kernels":4}}]`, values[KeySources])
	}
}
