package sample

import "slices"

// window is how many steps a running median is of, and settled how many it must have seen before it is used.
const (
	window  = 63
	settled = 16
)

// maxSeries bounds the medians, 1 KiB each; when there are more, all begin anew.
const maxSeries = 4096

// medians are the running medians of wall times by series.
type medians map[uint64]*median

// A median has the last wall times of a series, in ns.
type median struct {
	n      int // seen; the last ones are in recent
	recent [window]uint64
	sorted [window]uint64
}

// slow takes a step's wall time and reports whether it is above factor times the median of those before.
func (m medians) slow(series, wall uint64, factor float64) bool {
	d := m[series]
	if d == nil {
		if len(m) >= maxSeries {
			clear(m)
		}
		d = &median{}
		m[series] = d
	}
	slow := d.n >= settled && float64(wall) > factor*float64(d.middle())
	d.add(wall)
	return slow
}

func (d *median) middle() uint64 { return d.sorted[min(d.n, window)/2] }

func (d *median) add(wall uint64) {
	held := min(d.n, window)
	if held == window {
		i, _ := slices.BinarySearch(d.sorted[:], d.recent[d.n%window])
		copy(d.sorted[i:], d.sorted[i+1:])
		held--
	}
	i, _ := slices.BinarySearch(d.sorted[:held], wall)
	copy(d.sorted[i+1:held+1], d.sorted[i:held])
	d.sorted[i] = wall
	d.recent[d.n%window] = wall
	d.n++
}
