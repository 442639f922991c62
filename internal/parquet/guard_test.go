package parquet

import (
	"io"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWriterIsManyTimesARival holds the writer to libraries that write the same rows in the same run, by CPU time: the least of
// three turns each. What seconds a machine takes does not count. docs/performance.md has the ratios of a quiet machine: 17 to
// pqarrow and 14 to parquet-go's GenericWriter.
func TestWriterIsManyTimesARival(t *testing.T) {
	if testing.Short() {
		t.Skip("compares CPU times")
	}
	r := record(t, "tp2.rank0", 0)
	perRow := func(open func(testing.TB, io.Writer) *rival, laps int) (least float64) {
		for range 3 {
			begin := cpu()
			w := open(t, io.Discard)
			rows := 0
			for range laps {
				for _, c := range r.chunks {
					w.take(c)
					rows += c.Rows()
				}
			}
			w.end()
			if spent := float64(cpu()-begin-w.made) / float64(rows); least == 0 || spent < least {
				least = spent
			}
		}
		return least
	}
	fast := perRow(func(t testing.TB, to io.Writer) *rival { return ours(t, to, Fast) }, 8)
	small := perRow(func(t testing.TB, to io.Writer) *rival { return ours(t, to, Small) }, 4)
	arrow, library := perRow(pqarrowWriter, 1), perRow(parquetGo, 1)
	t.Logf("ns of CPU a row: fast %.0f, small %.0f, pqarrow %.0f, parquet-go %.0f", fast, small, arrow, library)
	require.Greater(t, arrow/fast, 8.0, "pqarrow's time to that of profile fast")
	require.Greater(t, library/fast, 6.0, "parquet-go's")
	require.Greater(t, arrow/small, 3.0, "pqarrow's time to that of profile small")
}

// TestWriterAllocatesByRowGroup: what a row group allocates does not grow with its rows, once its shapes are known.
func TestWriterAllocatesByRowGroup(t *testing.T) {
	r := record(t, "tp2.rank0", 0)
	w, err := NewWriter(io.Discard, Kernels, Options{})
	require.NoError(t, err)
	write := func(laps int) (rows int) {
		for range laps {
			for _, c := range r.chunks {
				require.NoError(t, w.WriteChunk(c))
				rows += c.Rows()
			}
		}
		return rows
	}
	write(4)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	rows := write(12)
	runtime.ReadMemStats(&after)
	perRow := float64(after.Mallocs-before.Mallocs) / float64(rows)
	require.Less(t, perRow, 0.02, "allocations a row: some 1,000 a row group of 131,072 rows, for headers and statistics")
}
