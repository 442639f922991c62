package truth

import (
	"cmp"
	"slices"

	"github.com/kernhes/kernhes/internal/sim/fleet"
	"github.com/kernhes/kernhes/internal/sim/program"
)

// An interval is the time of one kernel or copy.
type interval struct {
	start, end   int64
	comm, copied bool
}

// intervals are spans on the rank's clock. One without an end hangs, and has no record.
func intervals(spans []fleet.Span, offset int64) (all []interval) {
	for _, s := range spans {
		if s.End > 0 {
			comm := s.Kernel != nil && s.Kernel.Meets != program.None
			all = append(all, interval{start: s.Start + offset, end: s.End + offset, comm: comm})
		}
	}
	return all
}

// A cover is how much time intervals cover that are added in order of start.
type cover struct{ sum, end int64 }

func (c *cover) add(i interval) {
	if i.end > c.end {
		c.sum += i.end - max(i.start, c.end)
		c.end = i.end
	}
}

// until is what is covered before t: only what was added last reaches beyond it.
func (c *cover) until(t int64) int64 { return c.sum - max(0, c.end-t) }

// sums are lengths of unions.
type sums struct{ compute, comm, busy int64 }

func sum(all []interval) sums {
	slices.SortStableFunc(all, func(a, b interval) int { return cmp.Compare(a.start, b.start) })
	var compute, comm, busy cover
	for _, i := range all {
		busy.add(i)
		if i.comm {
			comm.add(i)
		} else {
			compute.add(i)
		}
	}
	return sums{compute.sum, comm.sum, busy.sum}
}

// within is how much of the time between two times intervals cover.
func within(all []interval, from, to int64) int64 {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b interval) int { return cmp.Compare(a.start, b.start) })
	c := cover{end: from}
	for _, i := range all {
		if i.end = min(i.end, to); i.start < i.end {
			c.add(i)
		}
	}
	return c.sum
}
