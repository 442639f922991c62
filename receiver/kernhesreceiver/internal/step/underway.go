package step

import (
	"cmp"
	"slices"
)

// Underway are the extents of the open steps of a device, in order of their start. It is valid until records come, or
// steps close.
type Underway struct {
	extents []extent
	next    int    // the first that Before has not passed
	end     uint64 // latest end of those passed, unix ns
}

// An extent is when a step's kernels ran, unix ns.
type extent struct{ start, end uint64 }

// Underway returns the open steps that have kernels on a device.
func (a *Assembler) Underway(device uint16) *Underway {
	o := &Underway{}
	for _, is := range a.order {
		if is == nil {
			continue
		}
		for _, s := range is.devices {
			if s.Device == device && len(s.recorded.Spans) > 0 {
				o.extents = append(o.extents, extent{s.First, s.Last})
			}
		}
	}
	slices.SortFunc(o.extents, func(a, b extent) int { return cmp.Compare(a.start, b.start) })
	return o
}

// Before is the latest end among those that started before first; false if there is none. The times
// that it is asked for ascend, so that all calls together pass each step once.
func (o *Underway) Before(first uint64) (end uint64, ok bool) {
	for o.next < len(o.extents) && o.extents[o.next].start < first {
		o.end = max(o.end, o.extents[o.next].end)
		o.next++
	}
	return o.end, o.next > 0
}
