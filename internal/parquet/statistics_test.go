package parquet

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"

	parquetgo "github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/chunk"
)

// TestStatisticsAreTheLeastAndTheGreatest holds the footer's statistics of each column of each row group to the values that
// another library reads. Readers pass over row groups by them, so wrong ones lose rows.
func TestStatisticsAreTheLeastAndTheGreatest(t *testing.T) {
	chunks := append([]*chunk.Chunk{descending()}, record(t, "tp2.rank0", 0).chunks[:3]...)
	for _, table := range Tables {
		b := write(t, table, Options{RowGroupRows: 5000}, chunks...)
		f, err := parquetgo.OpenFile(bytes.NewReader(b), int64(len(b)))
		require.NoError(t, err)
		for g, group := range f.RowGroups() {
			for i, column := range group.ColumnChunks() {
				name := f.Schema().Columns()[i][0]
				meta := f.Metadata().RowGroups[g].Columns[i].MetaData
				least, most, nulls := extremes(t, column)
				require.Equal(t, nulls, meta.Statistics.NullCount, "%s.%s, row group %d: nulls", table, name, g)
				wantLeast, wantMost := "", ""
				if !least.IsNull() && len(plain(least)) <= 64 && len(plain(most)) <= 64 { // long texts would fill the footer
					wantLeast, wantMost = string(plain(least)), string(plain(most))
				}
				require.Equal(t, wantLeast, string(meta.Statistics.MinValue), "%s.%s, row group %d: least", table, name, g)
				require.Equal(t, wantMost, string(meta.Statistics.MaxValue), "%s.%s, row group %d: greatest", table, name, g)
			}
		}
	}
}

// descending is a step of which the first position has the least or the greatest of nothing.
func descending() *chunk.Chunk {
	s := chunk.Step{Seq: 1, Program: "p", Text: "step:p", Start: 1000, End: 1030, Kernels: 3, Last: true, Shape: &chunk.Shape{Hash: 9}}
	for i, at := range []uint32{5, 2, 8} {
		s.Shape.Positions = append(s.Shape.Positions, chunk.Position{Name: string(rune('a' + at)), Call: string(rune('b' + at)), Op: string(rune('c' + at)), Stream: at,
			Grid: [3]uint32{at + 10, at + 20, at + 30}, Block: [3]uint32{at + 40, at + 50, at + 60}, Node: at, Fused: at == 2, Bytes: uint64(at), Launch: uint32(i)})
		s.Launches = append(s.Launches, chunk.Launch{Correlation: at, Graph: at})
		s.Starts, s.Durs = append(s.Starts, 1000+uint64(10*i)), append(s.Durs, uint64(at))
	}
	return &chunk.Chunk{Identity: chunk.Identity{Run: "other", Rank: 7, Session: 1}, Steps: []chunk.Step{s}}
}

// extremes reads a column chunk.
func extremes(t *testing.T, c parquetgo.ColumnChunk) (least, most parquetgo.Value, nulls int64) {
	t.Helper()
	pages := c.Pages()
	defer pages.Close()
	for {
		p, err := pages.ReadPage()
		if err == io.EOF {
			return least, most, nulls
		}
		require.NoError(t, err)
		values := make([]parquetgo.Value, p.NumValues())
		n, err := p.Values().ReadValues(values)
		require.True(t, err == nil || err == io.EOF)
		require.Len(t, values, n)
		for _, v := range values {
			if v.IsNull() {
				nulls++
				continue
			}
			if least.IsNull() || before(v, least) {
				least = v.Clone()
			}
			if most.IsNull() || before(most, v) {
				most = v.Clone()
			}
		}
	}
}

// before is the order of Parquet's types: numbers by value, texts by byte.
func before(a, b parquetgo.Value) bool {
	switch a.Kind() {
	case parquetgo.Boolean:
		return !a.Boolean() && b.Boolean()
	case parquetgo.ByteArray:
		return bytes.Compare(a.ByteArray(), b.ByteArray()) < 0
	case parquetgo.Int32:
		return a.Int32() < b.Int32()
	default:
		return a.Int64() < b.Int64()
	}
}

// plain is a value in the encoding PLAIN, without a text's length.
func plain(v parquetgo.Value) []byte {
	switch v.Kind() {
	case parquetgo.Boolean:
		if v.Boolean() {
			return []byte{1}
		}
		return []byte{0}
	case parquetgo.ByteArray:
		return v.ByteArray()
	case parquetgo.Int32:
		return binary.LittleEndian.AppendUint32(nil, uint32(v.Int32()))
	default:
		return binary.LittleEndian.AppendUint64(nil, uint64(v.Int64()))
	}
}
