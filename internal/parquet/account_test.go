package parquet

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/internal/chunk"
)

// TestFooterHasTheLastAccount: a session's last chunk may have nothing but its account, which its source is given, in the
// files that have rows of it.
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
		require.NoError(t, w.WriteChunk(one(9, 0, received(4)))) // no row, no source
		require.NoError(t, w.Close(nil))
		_, groups, err := ReadFooter(file.Bytes()[file.Len()-int(FooterLength(file.Bytes()[file.Len()-TailBytes:])):])
		require.NoError(t, err)
		sources := groups[0].Sources
		require.Len(t, sources, 2, when)
		require.Equal(t, books.Counts{books.KernelsReceived: 4, books.KernelsInSteps: 2}, sources[0].Counts, when)
		require.Equal(t, map[string]uint64{books.HESBuffer: 3}, sources[0].Losses, when)
		require.Equal(t, map[string]int64{books.OfKernels: 2}, sources[0].Residues, when)
		require.Equal(t, map[string]int64{books.OfKernels: 0}, sources[1].Residues, when)
		text, err := json.Marshal(sources[0])
		require.NoError(t, err)
		require.Contains(t, string(text), `"counts":{"in_steps":2,"received":4},"losses":{"hes_buffer":3},"residues":{"kernels":2}`)
	}
}
