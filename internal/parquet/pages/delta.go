package pages

import (
	"encoding/binary"
	"math/bits"
)

// Blocks of DELTA_BINARY_PACKED: as parquet-mr, arrow and parquet-go cut them.
const (
	blockValues = 128
	miniValues  = 32
	minis       = blockValues / miniValues
)

// A Delta encodes numbers as DELTA_BINARY_PACKED. It is written here, and not taken from parquet-go, for three things that
// 28 columns of 1.5 million rows a second need:
//
//   - Run takes numbers that ascend evenly (positions, a launch's correlation id, the nodes of a graph) block by block:
//     0.1 ns a number instead of 4.4.
//   - parquet-go packs widths without an AVX2 kernel at 4 ns a number. Here all widths take 2.
//   - Whole bytes: with Grain 8 each difference takes whole bytes, which zstd can code by frequency. start_ns of the
//     recordings takes 1.4 bytes then, and 1.55 where differences end in the middle of a byte.
type Delta struct {
	Grain int // widths are multiples of this: 1 or 8

	b           []byte
	rows        int
	first, last int64
	least, most int64
	n           int // of block
	block       [blockValues]int64
}

// Reset begins a page.
func (d *Delta) Reset() { d.b, d.rows, d.n = d.b[:0], 0, 0 }

// Rows are how many numbers there are.
func (d *Delta) Rows() int { return d.rows }

// Bounds are the least and the greatest number since Reset, if there is any.
func (d *Delta) Bounds() (least, most int64) { return d.least, d.most }

// begin takes the first number of a page, which stands in its head.
func (d *Delta) begin(v int64) {
	d.first, d.last, d.least, d.most, d.rows = v, v, v, v, 1
}

// Add adds numbers.
func (d *Delta) Add(values []uint64) {
	if d.rows == 0 && len(values) > 0 {
		d.begin(int64(values[0]))
		values = values[1:]
	}
	d.rows += len(values)
	last, least, most := d.last, d.least, d.most
	for len(values) > 0 {
		some := values[:min(len(values), blockValues-d.n)]
		values = values[len(some):]
		to := d.block[d.n:][:len(some)]
		for i, v := range some {
			v := int64(v)
			to[i] = v - last
			last = v
			least, most = min(least, v), max(most, v)
		}
		if d.n += len(some); d.n == blockValues {
			d.flush()
		}
	}
	d.last, d.least, d.most = last, least, most
}

// Run adds n numbers that begin with first, each greater by step than the one before.
func (d *Delta) Run(first, step int64, n int) {
	if n <= 0 {
		return
	}
	if d.rows == 0 {
		d.begin(first)
	} else {
		d.push(first - d.last)
		d.last, d.rows = first, d.rows+1
	}
	last := first + step*int64(n-1)
	d.least, d.most = min(d.least, first, last), max(d.most, first, last)
	d.last, d.rows = last, d.rows+n-1
	n--
	for ; n > 0 && d.n > 0; n-- {
		d.push(step)
	}
	for ; n >= blockValues; n -= blockValues {
		d.b = append(binary.AppendVarint(d.b, step), make([]byte, minis)...)
	}
	for ; n > 0; n-- {
		d.push(step)
	}
}

// Steps adds a number, and for each of steps the one before plus that.
func (d *Delta) Steps(first int64, steps []int64) {
	d.Run(first, 0, 1)
	d.rows += len(steps)
	for len(steps) > 0 {
		n := copy(d.block[d.n:], steps)
		for _, step := range steps[:n] {
			d.last += step
			d.least, d.most = min(d.least, d.last), max(d.most, d.last)
		}
		steps = steps[n:]
		if d.n += n; d.n == blockValues {
			d.flush()
		}
	}
}

// push adds a difference.
func (d *Delta) push(v int64) {
	d.block[d.n] = v
	if d.n++; d.n == blockValues {
		d.flush()
	}
}

// flush encodes a block: its least difference, a width for each of its parts, then what each difference is above the
// least. Parts behind the last number are left out.
func (d *Delta) flush() {
	n := d.n
	d.n = 0
	least := d.block[0]
	for _, v := range d.block[1:n] {
		least = min(least, v)
	}
	if d.Grain == 8 && least > 0 {
		least = 0 // so that equal differences of two blocks are equal bytes
	}
	for i := n; i < blockValues; i++ {
		d.block[i] = least
	}
	b := binary.AppendVarint(d.b, least)
	widths := len(b)
	b = append(b, make([]byte, minis)...)
	for k := 0; k*miniValues < n; k++ {
		part := (*[miniValues]int64)(d.block[k*miniValues:])
		var all uint64
		for i := range part {
			part[i] -= least
			all |= uint64(part[i])
		}
		width := (bits.Len64(all) + d.Grain - 1) &^ (d.Grain - 1)
		b[widths+k] = byte(width)
		b = appendPacked(b, part, width)
	}
	d.b = b
}

// appendPacked appends 32 numbers of so many bits each.
func appendPacked(b []byte, part *[miniValues]int64, width int) []byte {
	if width == 0 {
		return b
	}
	size := width * miniValues / 8
	at := len(b)
	b = append(b, make([]byte, size+8)...)
	to := b[at:]
	if width == 16 {
		for i, v := range part {
			le.PutUint16(to[2*i:], uint16(v))
		}
		return b[:at+size]
	}
	if width <= 8 { // eight numbers are width bytes
		for i := 0; i < miniValues; i += 8 {
			v := (*[8]int64)(part[i:])
			w := uint(width)
			word := uint64(v[0]) | uint64(v[1])<<w | uint64(v[2])<<(2*w) | uint64(v[3])<<(3*w)
			word |= (uint64(v[4]) | uint64(v[5])<<w | uint64(v[6])<<(2*w) | uint64(v[7])<<(3*w)) << (4 * w)
			le.PutUint64(to, word)
			to = to[width:]
		}
		return b[:at+size]
	}
	var word uint64
	filled, n := 0, 0
	for _, v := range part {
		word |= uint64(v) << filled
		if filled += width; filled >= 64 {
			le.PutUint64(to[n:], word)
			n += 8
			filled -= 64
			word = uint64(v) >> (width - filled)
		}
	}
	le.PutUint64(to[n:], word)
	return b[:at+size]
}

// Append appends the numbers as the values of a page.
func (d *Delta) Append(b []byte) []byte {
	if d.n > 0 {
		d.flush()
	}
	b = binary.AppendUvarint(b, blockValues)
	b = binary.AppendUvarint(b, minis)
	b = binary.AppendUvarint(b, uint64(d.rows))
	if d.rows == 0 {
		d.first = 0
	}
	b = binary.AppendVarint(b, d.first)
	return append(b, d.b...)
}
