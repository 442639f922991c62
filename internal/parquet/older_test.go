package parquet

import (
	"bytes"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/chunk"
)

// TestAFileOfAnOlderVersionGoesOn: an update finds files that its predecessor left open, with fewer columns. They are
// finished with those.
func TestAFileOfAnOlderVersionGoesOn(t *testing.T) {
	c := &chunk.Chunk{Identity: chunk.Identity{Run: "r", Session: 7}}
	for seq := range int64(3) {
		c.Steps = append(c.Steps, chunk.Step{Seq: seq, Start: 5, End: 6, Shape: &chunk.Shape{Positions: []chunk.Position{{Name: "gemm", Group: "tp:0"}}},
			Launches: make([]chunk.Launch, 1), Starts: []uint64{5}, Durs: []uint64{1}, Kernels: 1, Last: true,
			Requests: []chunk.Request{{ID: "q"}}})
		c.Copies = append(c.Copies, chunk.Copy{Start: 7, Dur: 1, InStep: true, Seq: seq})
	}
	again := &chunk.Chunk{Identity: c.Identity, Steps: slices.Clone(c.Steps), Copies: c.Copies}
	again.Steps[1].Untraced, again.Steps[1].Reason = true, "not_traced"
	later := map[string]bool{"session": true, "occurrence": true, "group": true, "group_source": true, "bytes": true,
		"traced": true, "range_start_ns": true, "range_ns": true, "thread": true, "level": true, "device_ns": true}
	for _, table := range Tables {
		var file bytes.Buffer
		w, err := NewWriter(&file, table, Options{})
		require.NoError(t, err)
		for i := range w.buffers {
			if b := &w.buffers[i]; table == Steps && slices.Contains(alwaysThere, b.column.Name) {
				b.column.Null = "" // as it wrote them
			}
		}
		require.NoError(t, w.WriteChunk(c))
		require.NoError(t, w.Flush())
		// What an older version would have noted of the row group.
		older := w.Groups()[0]
		var rg format.RowGroup
		require.NoError(t, thrift.Unmarshal(&compact, older.Meta, &rg))
		rg.Columns = slices.DeleteFunc(rg.Columns, func(c format.ColumnChunk) bool {
			name := c.MetaData.PathInSchema[0]
			return later[name] && (table != Copies || name != "bytes")
		})
		older.Meta, err = thrift.Marshal(&compact, &rg)
		require.NoError(t, err)

		w, err = NewWriter(&file, table, Options{Groups: []Group{older}})
		require.NoError(t, err)
		require.NoError(t, w.WriteChunk(again))
		require.NoError(t, w.Close(nil))
		var names []string
		for _, column := range Columns(table) {
			if !later[column.Name] || table == Copies && column.Name == "bytes" {
				names = append(names, column.Name)
			}
		}
		for reader, read := range readers {
			got := read(t, file.Bytes())
			require.Len(t, got, len(names), reader)
			for _, name := range names {
				require.Len(t, got[name], 6, "%s: %s", reader, name)
			}
			require.Equal(t, []any{int64(0), int64(1), int64(2), int64(0), int64(1), int64(2)}, got["seq"], reader)
			if table == Steps {
				require.Equal(t, []any{int64(6), int64(6), int64(6), int64(6), int64(0), int64(6)}, got["end_ns"], "no column of that file can be null")
				require.Equal(t, "not_traced", got["reason"][4], reader)
			}
		}

		rg.Columns[0], rg.Columns[1] = rg.Columns[1], rg.Columns[0]
		older.Meta, err = thrift.Marshal(&compact, &rg)
		require.NoError(t, err)
		_, err = NewWriter(&file, table, Options{Groups: []Group{older}})
		require.ErrorContains(t, err, "out of order")
	}
}
