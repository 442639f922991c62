package pages

import (
	"cmp"
	"slices"
	"strings"
	"unsafe"

	"github.com/parquet-go/parquet-go/format"
)

// A Value is a text, or a number, or null.
type Value struct {
	Text string
	Num  int64
	Null bool
}

// Compare orders values of one column.
func Compare(a, b Value) int {
	return cmp.Or(strings.Compare(a.Text, b.Text), cmp.Compare(a.Num, b.Num))
}

// AppendValue appends a value as statistics have it.
func AppendValue(b []byte, of format.Type, v Value) []byte {
	switch of {
	case format.ByteArray:
		return append(b, v.Text...)
	case format.Boolean:
		return append(b, byte(v.Num))
	}
	return le.AppendUint64(b, uint64(v.Num))
}

// A Dictionary numbers the values of a column in the order of their first use.
type Dictionary struct {
	of     format.Type
	known  map[Value]int32
	values []Value
	size   int // of plain, bytes
	memo   [memoSize]remembered

	page   made // of the first pageOf values
	pageOf int
}

// A remembered value is one that Index was asked for. A shape asks for the same few hundred again and again, whose texts
// are the same memory: a look here takes 3 ns, one in the map 30.
type remembered struct {
	Value
	index int32
	known bool
}

const memoSize = 256

// NewDictionary returns an empty one.
func NewDictionary(of format.Type) *Dictionary {
	return &Dictionary{of: of, known: map[Value]int32{}}
}

// Reset empties the dictionary.
func (d *Dictionary) Reset() {
	clear(d.known)
	clear(d.values) // texts are their chunks'
	clear(d.memo[:])
	d.values, d.size, d.pageOf = d.values[:0], 0, -1
}

// Index is the place of a value.
func (d *Dictionary) Index(v Value) int32 {
	at := uintptr(v.Num)
	if d.of == format.ByteArray {
		at = uintptr(unsafe.Pointer(unsafe.StringData(v.Text)))>>3 + uintptr(len(v.Text))
	}
	m := &d.memo[(at^at>>8)%memoSize]
	if m.known && m.Value == v {
		return m.index
	}
	i, ok := d.known[v]
	if !ok {
		i = int32(len(d.values))
		d.known[v] = i
		d.values = append(d.values, v)
		d.size += 8
		if d.of == format.ByteArray {
			d.size += len(v.Text) - 4
		}
	}
	*m = remembered{v, i, true}
	return i
}

// Len is how many values there are.
func (d *Dictionary) Len() int { return len(d.values) }

// Size is how many bytes the values take.
func (d *Dictionary) Size() int { return d.size }

// Values are the values.
func (d *Dictionary) Values() []Value { return d.values }

// Bounds are the least and the greatest value; there is at least one.
func (d *Dictionary) Bounds() (least, most Value) {
	return slices.MinFunc(d.values, Compare), slices.MaxFunc(d.values, Compare)
}

// plain is the values in PLAIN encoding.
func (d *Dictionary) plain() []byte {
	b := make([]byte, 0, d.size)
	for _, v := range d.values {
		if d.of == format.ByteArray {
			b = le.AppendUint32(b, uint32(len(v.Text)))
		}
		b = AppendValue(b, d.of, v)
	}
	return b
}
