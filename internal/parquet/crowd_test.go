package parquet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	parquetgo "github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/chunk"
)

// TestACrowdOfRanksIsNoCrowdOfRowGroups: a hostile session claims another rank, run and host with each step. What it makes of the
// file is bounded, each of its rows is there, and so are those of a good engine, in row groups of their own.
func TestACrowdOfRanksIsNoCrowdOfRowGroups(t *testing.T) {
	const crowd = 10_000
	shape := &chunk.Shape{Hash: 1, Positions: []chunk.Position{{Name: "k", Call: "c"}}}
	step := func(run string, rank int64) *chunk.Chunk {
		return &chunk.Chunk{
			Identity: chunk.Identity{Run: run, Rank: rank, Session: uint64(rank), Host: strings.Repeat("h", 4096), Mode: "hes"},
			Counts:   []chunk.Count{{Name: "received", Value: 1}},
			Steps: []chunk.Step{{Seq: 1, Last: true, Complete: true, Program: "decode", Shape: shape, Start: 5, End: 9,
				Launches: []chunk.Launch{{}}, Starts: []uint64{5}, Durs: []uint64{4}}},
		}
	}
	for _, table := range []Table{Kernels, Steps} {
		var file bytes.Buffer
		w, err := NewWriter(&file, table, Options{})
		require.NoError(t, err)
		require.NoError(t, w.WriteChunk(step("good", 0)))
		for i := range int64(crowd) {
			require.NoError(t, w.WriteChunk(step(fmt.Sprint(strings.Repeat("x", 4000), i), i)))
		}
		require.NoError(t, w.WriteChunk(step("good", 0)))
		require.NoError(t, w.Close(nil))
		f, err := parquetgo.OpenFile(bytes.NewReader(file.Bytes()), int64(file.Len()))
		require.NoError(t, err)
		require.EqualValues(t, crowd+2, f.NumRows())
		require.LessOrEqual(t, len(f.RowGroups()), maxApart+2, "the crowd fills more than one")
		rows := int64(0)
		for _, g := range w.Groups() {
			if slices.ContainsFunc(g.Sources, func(s Source) bool { return s.Run == "good" }) {
				require.Len(t, g.Sources, 1, "it shares with nobody")
				require.EqualValues(t, 2, g.Rows)
			}
			text, err := json.Marshal(g)
			require.NoError(t, err)
			require.Less(t, len(text), 4<<20, "the record of the journal")
			for _, s := range g.Sources {
				rows += s.Rows
			}
		}
		require.EqualValues(t, crowd+2, rows, "each row has a source")
		for key, most := range map[string]int{KeySources: 4 << 20, KeyRuns: 1 << 20, KeyRanks: 1 << 20, KeyHosts: 1 << 20} {
			value, ok := f.Lookup(key)
			require.True(t, ok)
			require.Less(t, len(value), most, key)
		}
		var listed []Source
		value, _ := f.Lookup(KeySources)
		require.NoError(t, json.Unmarshal([]byte(value), &listed))
		rows = 0
		for _, s := range listed {
			rows += s.Rows
		}
		require.EqualValues(t, crowd+2, rows)
	}
}

// TestChunksOfOneRowDoNotPileUp: what a chunk says of all its rows is let go of when as many wait as may.
func TestChunksOfOneRowDoNotPileUp(t *testing.T) {
	w, err := NewWriter(io.Discard, Steps, Options{RowGroupRows: 1 << 20})
	require.NoError(t, err)
	for i := range maxOrigins + 2000 {
		require.NoError(t, w.WriteChunk(&chunk.Chunk{
			Identity: chunk.Identity{Run: "r", Rank: int64(i % 7)},
			Steps:    []chunk.Step{{Seq: int64(i), Last: true, Shape: &chunk.Shape{}, Start: 5, End: 9}},
		}))
	}
	require.LessOrEqual(t, w.origins, maxOrigins)
	require.Len(t, w.Groups(), 1)
}
