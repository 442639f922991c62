package pages

// Bits are truths, a bit each, as the PLAIN encoding has them.
type Bits struct {
	words []uint64
	rows  int
}

// Reset begins a page.
func (x *Bits) Reset() { x.words, x.rows = x.words[:0], 0 }

// Rows are how many bits there are.
func (x *Bits) Rows() int { return x.rows }

// Add adds a bit.
func (x *Bits) Add(bit bool) {
	if x.rows%64 == 0 {
		x.words = append(x.words, 0)
	}
	if bit {
		x.words[x.rows/64] |= 1 << (x.rows % 64)
	}
	x.rows++
}

// Copy adds all bits of another, 64 at a time.
func (x *Bits) Copy(o *Bits) {
	shift := x.rows % 64
	for i, word := range o.words {
		if shift == 0 {
			x.words = append(x.words, word)
			continue
		}
		x.words[len(x.words)-1] |= word << shift
		if i*64+64-shift < o.rows {
			x.words = append(x.words, word>>(64-shift))
		}
	}
	x.rows += o.rows
}

// Append appends the bits as the values of a page.
func (x *Bits) Append(b []byte) []byte {
	from := len(b)
	for _, word := range x.words {
		b = le.AppendUint64(b, word)
	}
	return b[:from+(x.rows+7)/8]
}
