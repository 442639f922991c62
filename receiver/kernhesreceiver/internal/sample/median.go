package sample

import "github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/median"

// settled is how many steps a running median must have seen before it is used.
const settled = 16

// maxSeries bounds the medians, 1 KiB each; when there are more, all begin anew.
const maxSeries = 4096

// medians are the running medians of wall times by series.
type medians map[uint64]*median.Running

// slow takes a step's wall time and reports whether it is above factor times the median of those before.
func (m medians) slow(series, wall uint64, factor float64) bool {
	d := m[series]
	if d == nil {
		if len(m) >= maxSeries {
			clear(m)
		}
		d = &median.Running{}
		m[series] = d
	}
	slow := d.Seen() >= settled && float64(wall) > factor*float64(d.Middle())
	d.Add(wall)
	return slow
}
