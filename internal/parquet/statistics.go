package parquet

import (
	"slices"

	"github.com/parquet-go/parquet-go/format"

	"github.com/kernhes/kernhes/internal/parquet/pages"
)

// maxStatistic is the longest text, in bytes, that a footer gives as least or greatest: those of names would fill it.
const maxStatistic = 64

// bounds are the statistics of a column without nulls.
func bounds(of format.Type, least, most value) (s format.Statistics) {
	if len(least.Text) <= maxStatistic && len(most.Text) <= maxStatistic {
		s.MinValue = pages.AppendValue([]byte{}, of, least) // an empty text is a bound too
		s.MaxValue = pages.AppendValue([]byte{}, of, most)
	}
	return s
}

// statistics are a column's least and greatest value and its nulls, by which readers pass over row groups.
func statistics(buf *buffer, rows int) format.Statistics {
	n := max(len(buf.indexes), len(buf.numbers))
	if n == 0 {
		return format.Statistics{NullCount: int64(rows)}
	}
	var least, most value
	switch {
	case buf.column.Type == Bool:
		least.Num, most.Num = int64(slices.Min(buf.indexes)), int64(slices.Max(buf.indexes))
	case len(buf.values) > 0:
		least, most = slices.MinFunc(buf.values, pages.Compare), slices.MaxFunc(buf.values, pages.Compare)
	default:
		least.Num, most.Num = slices.Min(buf.numbers), slices.Max(buf.numbers)
	}
	s := bounds(physical[buf.column.Type], least, most)
	s.NullCount = int64(rows - n)
	return s
}
