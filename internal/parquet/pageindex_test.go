package parquet

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"testing"

	other "github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/chunk"
)

// TestPageIndexesSayWhatPagesHold reads page indexes by parquet-go, and holds them to the rows of each page as arrow-go reads
// them: of a file that was written in one go, and of one that was finished from what a journal had of its row groups.
func TestPageIndexesSayWhatPagesHold(t *testing.T) {
	r := record(t, "tp2.rank0", 0)
	var chunks []*chunk.Chunk
	for range 3 {
		chunks = append(chunks, r.chunks...)
	}
	whole := write(t, Kernels, Options{RowGroupRows: 190_000}, chunks...)
	require.Len(t, footer(t, whole).RowGroups, 2)

	var resumed bytes.Buffer
	w, err := NewWriter(&resumed, Kernels, Options{RowGroupRows: 190_000})
	require.NoError(t, err)
	for _, c := range chunks {
		require.NoError(t, w.WriteChunk(c))
	}
	require.NoError(t, w.Flush())
	journal, err := json.Marshal(w.Groups())
	require.NoError(t, err)
	var groups []Group
	require.NoError(t, json.Unmarshal(journal, &groups))
	w, err = NewWriter(&resumed, Kernels, Options{Groups: groups})
	require.NoError(t, err)
	require.NoError(t, w.Close(nil))

	for name, file := range map[string][]byte{"whole": whole, "resumed": resumed.Bytes()} {
		rows := readArrow(t, file)
		f, err := other.OpenFile(bytes.NewReader(file), int64(len(file)))
		require.NoError(t, err)
		first, pages := 0, 0
		for _, rg := range f.RowGroups() {
			for i, c := range rg.ColumnChunks() {
				column := f.Schema().Columns()[i][0]
				offsets, err := c.OffsetIndex()
				require.NoError(t, err)
				index, err := c.ColumnIndex()
				if err != nil || index == nil {
					require.Contains(t, []string{"kernel", "symbol", "call"}, column, "%s: only texts may be too long to say", name)
					continue
				}
				require.Equal(t, offsets.NumPages(), index.NumPages())
				for p := range index.NumPages() {
					pages++
					lo, hi := first+int(offsets.FirstRowIndex(p)), first+int(rg.NumRows())
					if p+1 < offsets.NumPages() {
						hi = first + int(offsets.FirstRowIndex(p+1))
					}
					least, most, nulls := bound(rows[column][lo:hi])
					require.EqualValues(t, nulls, index.NullCount(p), "%s: %s", name, column)
					require.Equal(t, least, goValue(index.MinValue(p)), "%s: %s, page %d", name, column, p)
					require.Equal(t, most, goValue(index.MaxValue(p)), "%s: %s, page %d", name, column, p)
				}
			}
			first += int(rg.NumRows())
		}
		require.Greater(t, pages, 2*len(Columns(Kernels)), "some columns have several pages")
	}
}

// bound is the least and the greatest of values, nulls aside.
func bound(values []any) (least, most any, nulls int) {
	compare := func(a, b any) int {
		switch a := a.(type) {
		case string:
			return strings.Compare(a, b.(string))
		case int64:
			return cmp.Compare(a, b.(int64))
		}
		return cmp.Compare(bit(a.(bool)), bit(b.(bool)))
	}
	for _, v := range values {
		if v == nil {
			nulls++
			continue
		}
		if least == nil || compare(v, least) < 0 {
			least = v
		}
		if most == nil || compare(v, most) > 0 {
			most = v
		}
	}
	return least, most, nulls
}
