package parquet

import (
	"testing"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/chunk"
)

func TestFooterLength(t *testing.T) {
	require.EqualValues(t, 0x0201+8, FooterLength([]byte("\x01\x02\x00\x00PAR1")), "its own length, the length and Magic")
	for _, tail := range []string{"", "\x01\x00\x00\x00PAR2", "\x00\x01\x00\x00\x00PAR1", "\x00\x00\x00PAR1"} {
		require.Zero(t, FooterLength([]byte(tail)), "%q", tail)
	}
}

func TestReadFooterTakesOnlyFootersOfThisSchema(t *testing.T) {
	footer := func(keyValues map[string]string) []byte {
		b, err := Footer(Kernels, nil, keyValues, 0)
		require.NoError(t, err)
		return b
	}
	whole := footer(map[string]string{"more": "keys"})
	table, groups, err := ReadFooter(whole)
	require.NoError(t, err)
	require.Equal(t, Kernels, table)
	require.Empty(t, groups)

	check := func(name string, footer []byte, want string) {
		t.Helper()
		_, _, err := ReadFooter(footer)
		require.ErrorIs(t, err, ErrFooter, name)
		require.ErrorContains(t, err, want, name)
	}
	check("nothing", nil, "footer of 0 bytes")
	check("cut at its begin", whole[1:], "its tail says")
	check("cut at its end", whole[:len(whole)-1], "its tail says 0")
	check("no Thrift", []byte("\xff\x01\x00\x00\x00PAR1"), "footer: ")
	check("another version", footer(map[string]string{KeySchemaVersion: "999"}), `schema version "999"`)
	check("another table's columns", footer(map[string]string{KeyTable: "c"}), `table "c"`)
	check("no table", footer(map[string]string{KeyTable: "x"}), `table "x"`)
	check("sources that are none", footer(map[string]string{KeySources: "{"}), KeySources)
}

// TestGroupsMove: each offset of a group moves by as much, and nothing else changes.
func TestGroupsMove(t *testing.T) {
	one := func(session uint64) *chunk.Chunk {
		return &chunk.Chunk{Identity: chunk.Identity{Run: "r", Session: session}, Steps: []chunk.Step{{
			Shape:    &chunk.Shape{Positions: []chunk.Position{{Name: "gemm"}, {Name: "relu"}}},
			Launches: make([]chunk.Launch, 1), Starts: []uint64{5, 7}, Durs: []uint64{1, 2}, Kernels: 2, Last: true}}}
	}
	b := write(t, Kernels, Options{}, one(1), one(2))
	size := FooterLength(b[len(b)-TailBytes:])
	table, groups, err := ReadFooter(b[int64(len(b))-size:])
	require.NoError(t, err)
	require.Equal(t, Kernels, table)
	require.Len(t, groups, 1)
	g := groups[0]
	require.EqualValues(t, 4, g.Rows)
	require.EqualValues(t, len(Magic), g.Offset)
	indexes := int64(0)
	for _, c := range footer(t, b).RowGroups[0].Columns {
		indexes += int64(c.ColumnIndexLength + c.OffsetIndexLength)
	}
	require.EqualValues(t, int64(len(b))-size-indexes-int64(len(Magic)), g.Length, "pages lie between Magic and page indexes")
	require.Len(t, g.Sources, 2)

	const by = 1000
	moved, err := g.Moved(by)
	require.NoError(t, err)
	require.Equal(t, g.Sources, moved.Sources)
	require.Equal(t, []int64{g.Rows, g.Offset + by, g.Length}, []int64{moved.Rows, moved.Offset, moved.Length})
	meta := func(g Group) (rg format.RowGroup) {
		require.NoError(t, thrift.Unmarshal(&compact, g.Meta, &rg))
		return rg
	}
	before, after := meta(g), meta(moved)
	require.Len(t, after.Columns, len(Columns(Kernels)))
	dictionaries := 0
	for i := range before.Columns {
		was, is := &before.Columns[i].MetaData, &after.Columns[i].MetaData
		require.Equal(t, was.DataPageOffset+by, is.DataPageOffset)
		if was.DictionaryPageOffset != 0 {
			dictionaries++
			require.Equal(t, was.DictionaryPageOffset+by, is.DictionaryPageOffset)
		} else {
			require.Zero(t, is.DictionaryPageOffset)
		}
		require.Equal(t, was.TotalCompressedSize, is.TotalCompressedSize)
		require.Equal(t, was.NumValues, is.NumValues)
	}
	require.Positive(t, dictionaries)

	g.Meta = []byte{0xff}
	_, err = g.Moved(by)
	require.ErrorContains(t, err, "row group: ")
}
