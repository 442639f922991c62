package parquet

import (
	"slices"
	"strings"

	"cmp"

	"github.com/parquet-go/parquet-go/format"
)

// maxStatistic is the longest text, in bytes, that a footer gives as least or greatest: those of names would fill it.
const maxStatistic = 64

// statistics are a column's least and greatest value and its nulls, by which readers pass over row groups.
func statistics(buf *buffer, rows int) format.Statistics {
	var s format.Statistics
	n := max(len(buf.indexes), len(buf.numbers))
	s.NullCount = int64(rows - n)
	if n == 0 {
		return s
	}
	var least, most value
	switch {
	case buf.column.Type == Bool:
		least.num, most.num = int64(slices.Min(buf.indexes)), int64(slices.Max(buf.indexes))
	case len(buf.values) > 0:
		least, most = slices.MinFunc(buf.values, compare), slices.MaxFunc(buf.values, compare)
	default:
		least.num, most.num = slices.Min(buf.numbers), slices.Max(buf.numbers)
	}
	if len(least.text) <= maxStatistic && len(most.text) <= maxStatistic {
		s.MinValue = appendPlain(nil, buf.column.Type, least)
		s.MaxValue = appendPlain(nil, buf.column.Type, most)
	}
	return s
}

func compare(a, b value) int {
	return cmp.Or(strings.Compare(a.text, b.text), cmp.Compare(a.num, b.num))
}
