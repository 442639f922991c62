package device

import (
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/cupti"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

// maxRun is how many kernels of several launches are kept as one run.
const maxRun = 4096

// A run is kernels in a row of one owner, as they came.
type run struct {
	owner    uint64 // step; 0: none
	columns  *cupti.Columns
	from, to int
	first    uint64 // earliest start, unix ns
	latest   uint64 // latest start
	end      uint64 // latest end
	after    uint64 // earliest start of what waits to be measured after it
	ordered  bool   // in order of start
	compute  bool   // there are compute kernels in it
}

func (r *run) spans() []span.Span { return r.columns.Spans[r.from:r.to] }

// look fills in what the spans say.
func (r *run) look() {
	r.first, r.ordered = span.Limit, true
	for _, s := range r.spans() {
		if s.Start < r.latest {
			r.ordered = false
		}
		r.first = min(r.first, s.Start)
		r.latest = max(r.latest, s.Start)
		r.end = max(r.end, s.End())
		r.compute = r.compute || s.Class() == span.Compute
	}
}

// extend makes next part of r if it goes on where r ends.
func (r *run) extend(next *run) bool {
	if r.owner != next.owner || r.columns != next.columns || r.to != next.from || r.to-r.from >= maxRun {
		return false
	}
	r.to = next.to
	r.ordered = r.ordered && next.ordered && next.first >= r.latest
	r.first = min(r.first, next.first)
	r.latest = max(r.latest, next.latest)
	r.end = max(r.end, next.end)
	r.compute = r.compute || next.compute
	return true
}

// alone reports whether the run is in order, and nothing that waits after it starts before its last.
func (r *run) alone() bool { return r.ordered && r.latest <= r.after }
