package pages

import (
	"encoding/binary"
	"math/bits"

	"github.com/parquet-go/parquet-go/encoding/rle"
)

// Width is how many bits an index into n values takes.
func Width(n int) int { return bits.Len(uint(max(n, 1) - 1)) }

// Indexes are indexes into a dictionary as Parquet's hybrid of runs and packed groups has them, all of one width. What is
// encoded of some indexes ends on a whole byte, however many they are: parquet-go packs groups of eight, and writes the up
// to seven behind the last group as runs. So encoded sequences are joined by appending one's bytes to the other's.
type Indexes struct {
	width int
	b     []byte
	rows  int
	run   struct{ index, n int } // not in b yet
	loose []int32                // not in b yet; only where there is no run

	scratch []byte
}

// Encode returns what a page holds of indexes that take at most width bits, in scratch if that has room.
func Encode(scratch []byte, indexes []int32, width int) []byte {
	e := rle.Encoding{BitWidth: width}
	b, err := e.EncodeInt32(scratch, indexes)
	if err != nil {
		panic(err) // only for a width above 32
	}
	return b
}

// Reset begins a page.
func (x *Indexes) Reset(width int) {
	x.width, x.rows = width, 0
	x.b, x.loose = x.b[:0], x.loose[:0]
	x.run.n = 0
}

// Rows are how many indexes there are.
func (x *Indexes) Rows() int { return x.rows }

// Copy adds n indexes that Encode has encoded, at the page's width.
func (x *Indexes) Copy(encoded []byte, n int) {
	if x.width == 0 {
		x.Run(0, n)
		return
	}
	x.settle()
	x.b = append(x.b, encoded...)
	x.rows += n
}

// Add adds indexes that are not encoded yet.
func (x *Indexes) Add(indexes []int32) {
	if x.width == 0 {
		x.Run(0, len(indexes))
		return
	}
	if x.run.n > 0 {
		x.settle()
	}
	x.loose = append(x.loose, indexes...)
	x.rows += len(indexes)
}

// Run adds one index n times.
func (x *Indexes) Run(index int32, n int) {
	if n == 0 {
		return
	}
	if len(x.loose) > 0 || x.run.n > 0 && x.run.index != int(index) {
		x.settle()
	}
	x.run.index = int(index)
	x.run.n += n
	x.rows += n
}

// settle encodes what is not encoded yet.
func (x *Indexes) settle() {
	if x.run.n > 0 {
		x.b = appendRun(x.b, x.run.index, x.run.n, x.width)
		x.run.n = 0
	}
	if len(x.loose) > 0 {
		x.scratch = Encode(x.scratch, x.loose, x.width)
		x.b = append(x.b, x.scratch...)
		x.loose = x.loose[:0]
	}
}

// appendRun appends an index that occurs n times: the count, twice, then the index in whole bytes.
func appendRun(b []byte, index, n, width int) []byte {
	b = binary.AppendUvarint(b, uint64(n)<<1)
	for ; width > 0; width -= 8 {
		b = append(b, byte(index))
		index >>= 8
	}
	return b
}

// Append appends the indexes as the values of a page of encoding RLE_DICTIONARY.
func (x *Indexes) Append(b []byte) []byte {
	x.settle()
	return append(append(b, byte(x.width)), x.b...)
}

// AppendLevels appends the indexes as the definition levels of a page.
func (x *Indexes) AppendLevels(b []byte) []byte {
	x.settle()
	return append(le.AppendUint32(b, uint32(len(x.b))), x.b...)
}
