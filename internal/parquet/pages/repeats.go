package pages

import (
	"cmp"
	"slices"
)

// Repeats numbers numbers that repeat: 110,000 durations of a recording are 3,000 different ones. Those below 65,536, which
// nearly all durations are, it finds in a table, at 1.5 ns each instead of a map's 15.
type Repeats struct {
	Indexes []int32 // of what was added
	Values  []int64 // in order of first use

	near  []uint32 // by number: round, and below it 1 + index
	round uint32
	far   map[int64]int32
}

const (
	nearNumbers = 1 << 16
	indexBits   = 20 // of near; a row group has at most 2^22 rows, and a dictionary at most a sixteenth of them
)

// NewRepeats returns an empty one.
func NewRepeats() *Repeats {
	return &Repeats{near: make([]uint32, nearNumbers), far: map[int64]int32{}}
}

// Reset forgets all numbers.
func (r *Repeats) Reset() {
	r.Indexes, r.Values = r.Indexes[:0], r.Values[:0]
	clear(r.far)
	if r.round += 1 << indexBits; r.round == 0 {
		clear(r.near)
		r.round = 1 << indexBits
	}
}

// Add adds numbers. It returns false, and has added a part of them, where there are more than most different ones.
func (r *Repeats) Add(numbers []uint64, most int) bool {
	most = min(most, 1<<indexBits-2)
	r.Indexes = slices.Grow(r.Indexes, len(numbers))
	to := r.Indexes[len(r.Indexes):][:len(numbers)]
	near := (*[nearNumbers]uint32)(r.near)
	for i, v := range numbers {
		if v < nearNumbers {
			if at := near[v] - r.round; at-1 < 1<<indexBits-1 {
				to[i] = int32(at - 1)
				continue
			}
		} else if at, ok := r.far[int64(v)]; ok {
			to[i] = at
			continue
		}
		at := len(r.Values)
		if at == most {
			return false
		}
		r.Values = append(r.Values, int64(v))
		if v < nearNumbers {
			near[v] = r.round + uint32(at) + 1
		} else {
			r.far[int64(v)] = int32(at)
		}
		to[i] = int32(at)
	}
	r.Indexes = r.Indexes[:len(r.Indexes)+len(numbers)]
	return true
}

// Bounds are the least and the greatest number; there is at least one.
func (r *Repeats) Bounds() (least, most int64) { return slices.Min(r.Values), slices.Max(r.Values) }

// BoundsOf are those of the numbers from lo to hi, in the order in which they were added.
func (r *Repeats) BoundsOf(lo, hi int) (least, most int64) {
	least, most = r.Values[r.Indexes[lo]], r.Values[r.Indexes[lo]]
	for _, i := range r.Indexes[lo:hi] {
		least, most = min(least, r.Values[i]), max(most, r.Values[i])
	}
	return least, most
}

// Order puts the most frequent number first, so that small indexes are frequent ones.
func (r *Repeats) Order() {
	count := make([]int32, len(r.Values))
	for _, i := range r.Indexes {
		count[i]++
	}
	order := make([]int32, len(count))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b)) })
	values := make([]int64, len(order))
	place := count
	for to, from := range order {
		values[to] = r.Values[from]
	}
	for to, from := range order {
		place[from] = int32(to)
	}
	r.Values = values
	for k, i := range r.Indexes {
		r.Indexes[k] = place[i]
	}
}

// Plain is the numbers in PLAIN encoding.
func (r *Repeats) Plain() []byte {
	b := make([]byte, 0, 8*len(r.Values))
	for _, v := range r.Values {
		b = le.AppendUint64(b, uint64(v))
	}
	return b
}
