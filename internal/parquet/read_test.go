package parquet

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	other "github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"
)

// A table as a reader gives it: columns by name; null is nil.
type columnsRead map[string][]any

func (c columnsRead) ints(t testing.TB, name string) (all []int64) {
	t.Helper()
	for _, v := range c[name] {
		all = append(all, v.(int64))
	}
	return all
}

// readers are libraries that read a file; parquet-go's encoders are those that wrote it, arrow-go shares nothing with it.
var readers = map[string]func(testing.TB, []byte) columnsRead{"arrow-go": readArrow, "parquet-go": readParquetGo}

func readArrow(t testing.TB, b []byte) columnsRead {
	t.Helper()
	f, err := file.NewParquetReader(bytes.NewReader(b))
	require.NoError(t, err)
	r, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	require.NoError(t, err)
	table, err := r.ReadTable(context.Background())
	require.NoError(t, err)
	defer table.Release()
	out := columnsRead{}
	for i := range int(table.NumCols()) {
		name := table.Schema().Field(i).Name
		out[name] = []any{}
		for _, part := range table.Column(i).Data().Chunks() {
			for k := range part.Len() {
				out[name] = append(out[name], arrowValue(t, part, k))
			}
		}
	}
	return out
}

func arrowValue(t testing.TB, part arrow.Array, k int) any {
	if part.IsNull(k) {
		return nil
	}
	switch a := part.(type) {
	case *array.String:
		return a.Value(k)
	case *array.Int64:
		return a.Value(k)
	case *array.Boolean:
		return a.Value(k)
	}
	require.Failf(t, "column of another type", "%T", part)
	return nil
}

func readParquetGo(t testing.TB, b []byte) columnsRead {
	t.Helper()
	f, err := other.OpenFile(bytes.NewReader(b), int64(len(b)))
	require.NoError(t, err)
	out := columnsRead{}
	columns := f.Schema().Columns()
	for _, c := range columns {
		out[c[0]] = []any{}
	}
	for _, rg := range f.RowGroups() {
		for i, c := range rg.ColumnChunks() {
			pages := c.Pages()
			for {
				p, err := pages.ReadPage()
				if err != nil {
					break
				}
				values := make([]other.Value, p.NumValues())
				_, _ = p.Values().ReadValues(values)
				for _, v := range values {
					out[columns[i][0]] = append(out[columns[i][0]], goValue(v))
				}
			}
			require.NoError(t, pages.Close())
		}
	}
	return out
}

func goValue(v other.Value) any {
	switch {
	case v.IsNull():
		return nil
	case v.Kind() == other.ByteArray:
		return string(v.ByteArray())
	case v.Kind() == other.Boolean:
		return v.Boolean()
	case v.Kind() == other.Int64:
		return v.Int64()
	}
	return fmt.Sprint("column of another kind: ", v.Kind())
}
