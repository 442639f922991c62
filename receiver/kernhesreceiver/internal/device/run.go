package device

import (
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/cupti"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

// maxRun is how many kernels of several launches are kept as one run.
const maxRun = 4096

// A run is kernels in a row of one owner, as they came.
type run struct {
	span.Extent
	owner    uint64 // step; 0: none
	columns  *cupti.Columns
	from, to int
	after    uint64 // earliest start of what waits to be measured after it
}

func (r *run) spans() []span.Span { return r.columns.Spans[r.from:r.to] }

// extend makes next part of r if it goes on where r ends.
func (r *run) extend(next *run) bool {
	if r.owner != next.owner || r.columns != next.columns || r.to != next.from || r.to-r.from >= maxRun {
		return false
	}
	r.to = next.to
	r.Join(next.Extent)
	return true
}

// alone reports whether the run is in order, and nothing that waits after it starts before its last.
func (r *run) alone() bool { return !r.Disorder && r.Latest <= r.after }

// fresh returns an unused run; they are made some at a time.
func (a *Account) fresh() *run {
	if len(a.spare) == 0 {
		a.spare = make([]run, 64)
	}
	r := &a.spare[0]
	a.spare = a.spare[1:]
	return r
}

// Latest is the end of the last kernel or copy that waits to be measured, unix ns; 0: none waits.
func (a *Account) Latest() (end uint64) {
	for _, r := range a.pending {
		end = max(end, r.End)
	}
	for _, s := range a.rest {
		end = max(end, s.End())
	}
	return end
}

// Held is how many kernels the account still needs.
func (a *Account) Held() (n int) {
	for _, r := range a.foreign.kept {
		n += r.to - r.from
	}
	return n + len(a.rest)
}
