package parquet

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/chunk/chunktest"
	"github.com/kernhes/kernhes/internal/parquet/parquettest"
)

// TestShapePagesHoldWhatALibraryWritesOfEachRow writes random steps by shape pages and, a row at a time, by parquet-go:
// all columns of all rows are equal, in each order of row groups.
func TestShapePagesHoldWhatALibraryWritesOfEachRow(t *testing.T) {
	for seed := range uint64(3) {
		chunks := chunktest.Random(seed, 60)
		var plain bytes.Buffer
		w := parquettest.NewWriter(&plain, 1<<20)
		for _, c := range chunks {
			require.NoError(t, w.WriteChunk(c))
		}
		require.NoError(t, w.Close())
		want := readParquetGo(t, plain.Bytes())
		for _, o := range []Options{{Profile: Fast}, {Profile: Small, RowGroupRows: 20_000}, {Profile: Fast, RowGroupRows: 3000, Compression: "none"}} {
			file := write(t, Kernels, o, chunks...)
			for reader, read := range readers {
				got := read(t, file)
				require.Len(t, got, len(want))
				for name := range want {
					require.Len(t, got[name], len(want[name]))
					for i := range want[name] {
						if got[name][i] != want[name][i] {
							require.Equal(t, want[name][i], got[name][i], "seed %d, %+v, %s: %s of row %d", seed, o, reader, name, i)
						}
					}
				}
			}
		}
	}
}

// TestDictionariesGrow: over row groups of one writer a column comes to 300 values, so indexes that were encoded at one
// width are needed at others; and a bank that is worn is replaced.
func TestDictionariesGrow(t *testing.T) {
	shape := func(from int) *chunk.Shape {
		s := &chunk.Shape{Hash: uint64(from)}
		for i := range 100 {
			s.Positions = append(s.Positions, chunk.Position{Call: fmt.Sprint("call", from+i%50), Name: "k", Node: uint32(i)})
		}
		return s
	}
	var chunks []*chunk.Chunk
	var want []any
	first := shape(0)
	add := func(s *chunk.Shape) {
		step := chunk.Step{Seq: int64(len(chunks)), Shape: s, Launches: make([]chunk.Launch, 1), Starts: make([]uint64, 100), Durs: make([]uint64, 100), Last: true}
		chunks = append(chunks, &chunk.Chunk{Identity: chunk.Identity{Run: "r"}, Steps: []chunk.Step{step}})
		for i := range s.Positions {
			want = append(want, s.Positions[i].Call)
		}
	}
	for i := range (bankGroups + 6) * ownRows / 100 {
		if i%100 == 99 {
			add(shape(50 * (i / 100 % 6)))
		}
		add(first)
	}
	file := write(t, Kernels, Options{RowGroupRows: ownRows}, chunks...)
	require.Greater(t, len(footer(t, file).RowGroups), bankGroups+2)
	for reader, read := range readers {
		require.True(t, slices.Equal(want, read(t, file)["call"]), reader)
	}
}

// TestStatisticsAreOfTheRowGroup: what a row group says of its texts is of those that it has, not of its dictionary.
func TestStatisticsAreOfTheRowGroup(t *testing.T) {
	var chunks []*chunk.Chunk
	for i, call := range []string{"b", "a", "c", "b"} {
		s := &chunk.Shape{Hash: uint64(i), Positions: make([]chunk.Position, ownRows)}
		for k := range s.Positions {
			s.Positions[k] = chunk.Position{Call: call, Node: uint32(k)}
		}
		chunks = append(chunks, &chunk.Chunk{Steps: []chunk.Step{{Shape: s, Launches: make([]chunk.Launch, 1), Starts: make([]uint64, ownRows), Durs: make([]uint64, ownRows)}}})
	}
	file := write(t, Kernels, Options{RowGroupRows: ownRows}, chunks...)
	var got []string
	for _, rg := range footer(t, file).RowGroups {
		for _, c := range rg.Columns {
			if c.MetaData.PathInSchema[0] == "call" {
				got = append(got, string(c.MetaData.Statistics.MinValue)+string(c.MetaData.Statistics.MaxValue))
			}
		}
	}
	require.Equal(t, []string{"bb", "aa", "cc", "bb"}, got)
}
