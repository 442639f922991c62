package parquet

import (
	"cmp"
	"slices"

	"github.com/kernhes/kernhes/internal/chunk"
)

// A buffer holds the values of one column of the row group that is being made.
type buffer struct {
	column  Column
	indexes []int32 // into values, of those that are not null; of a Bool, 0 or 1
	numbers []int64 // of those that are not null, where there is no dictionary
	present []uint8 // of a column that may be null: 1 for each value that is not
	values  []value // the dictionary, in order of first use
	known   map[value]int32
	count   map[int64]int32 // where numbers get a dictionary
}

func newBuffers(columns []Column) []buffer {
	buffers := make([]buffer, len(columns))
	for i := range buffers {
		buffers[i] = buffer{column: columns[i], known: map[value]int32{}, count: map[int64]int32{}}
	}
	return buffers
}

func (b *buffer) reset() {
	b.indexes, b.numbers, b.present = b.indexes[:0], b.numbers[:0], b.present[:0]
	clear(b.values) // texts are their chunks'
	b.values = b.values[:0]
	clear(b.known)
	clear(b.count)
}

// index is the place of a value in the dictionary.
func (b *buffer) index(v value) int32 {
	if b.column.Type == Bool {
		return int32(v.Num)
	}
	i, ok := b.known[v]
	if !ok {
		i = int32(len(b.values))
		b.known[v] = i
		b.values = append(b.values, v)
	}
	return i
}

// repeat appends a value n times.
func (b *buffer) repeat(v value, n int) {
	if b.column.Null != "" {
		for range n {
			b.present = append(b.present, bit(!v.Null))
		}
	}
	if v.Null && b.column.Null != "" {
		return
	}
	if b.column.Encoding == Delta || b.column.Encoding == Repeats {
		for range n {
			b.numbers = append(b.numbers, v.Num)
		}
		return
	}
	i := b.index(v)
	for range n {
		b.indexes = append(b.indexes, i)
	}
}

// repeats makes a dictionary of numbers, the most frequent first, and reports whether that was worth it: an entry takes 8
// bytes, what it saves is half a byte a row.
func (b *buffer) repeats() bool {
	most := max(256, len(b.numbers)/16)
	for _, v := range b.numbers {
		if b.count[v]++; len(b.count) > most {
			return false
		}
	}
	for v := range b.count {
		b.values = append(b.values, value{Num: v})
	}
	slices.SortFunc(b.values, func(x, y value) int {
		return cmp.Or(cmp.Compare(b.count[y.Num], b.count[x.Num]), cmp.Compare(x.Num, y.Num))
	})
	for i, v := range b.values {
		b.count[v.Num] = int32(i)
	}
	for _, v := range b.numbers {
		b.indexes = append(b.indexes, b.count[v])
	}
	return true
}

func bit(set bool) uint8 {
	if set {
		return 1
	}
	return 0
}

// addRow appends a row of a table whose rows stand for themselves.
func addRow[T any](buffers []buffer, columns []rowColumn[T], id *chunk.Identity, row *T) {
	for i := range columns {
		buffers[i].repeat(columns[i].of(id, row), 1)
	}
}
