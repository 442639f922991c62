package step

import (
	"cmp"
	"slices"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/ranges"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

// Close returns the steps that are closed at a watermark: those whose range ended and whose launches
// have their records, and, incomplete, those whose last launch lies timeout before it.
func (a *Assembler) Close(watermark, timeout uint64) (closed []*Step, abandoned []ranges.ID) {
	for i, is := range a.order {
		if is == nil {
			continue
		}
		large := false
		for _, s := range is.devices {
			large = large || len(s.recorded.Spans) >= MaxKernels
		}
		switch {
		case is.ended && is.waiting <= 0:
		case large:
			is.fail(TooLarge)
		case watermark > is.lastLaunch+timeout:
			is.fail(RangeOpen)
		default:
			continue
		}
		if !is.ended {
			abandoned = append(abandoned, is.id)
		}
		closed = a.close(closed, i)
	}
	a.trim()
	return closed, abandoned
}

// CloseAll returns all that is open. Those that still wait for records are incomplete for the reason
// waiting, the others whose range did not end for the reason open.
func (a *Assembler) CloseAll(waiting, open string) (closed []*Step) {
	for i, is := range a.order {
		if is == nil {
			continue
		}
		if is.waiting > 0 {
			is.fail(waiting)
		} else if !is.ended {
			is.fail(open)
		}
		closed = a.close(closed, i)
	}
	a.order, a.closed = nil, 0
	return closed
}

func (is *issue) fail(reason string) {
	if is.reason == "" {
		is.reason = reason
	}
}

// close works out the steps of the issue at an index.
func (a *Assembler) close(closed []*Step, i int) []*Step {
	is := a.order[i]
	a.order[i] = nil
	a.closed++
	delete(a.issues, is.id)
	if len(is.devices) == 0 {
		is.on(a.device) // the likeliest: no record says
	}
	unseen := is.reason == NotTraced && is.launches == 0
	if unseen && !is.ended {
		is.reason = RangeOpen
	}
	for _, s := range is.devices {
		s.Reason, s.Issued, s.Requests = is.reason, is.issued, is.requests
		if s.Reason == "" && s.invalid {
			s.Reason = InvalidRecords
		}
		if s.Untraced = unseen && len(s.recorded.Spans) == 0; s.Untraced {
			s.First, s.Last = is.begun, is.begun // what orders it among others
		}
		if len(s.recorded.Spans) == 0 && s.Reason == "" {
			a.Empty++
			continue
		}
		a.finish(s)
		closed = append(closed, s)
	}
	return closed
}

// finish puts a closed step's kernels in order and measures them.
func (a *Assembler) finish(s *Step) {
	if len(a.sizes) < maxSizes {
		a.sizes[s.Program] = len(s.recorded.Spans)
	}
	s.Columns = s.recorded
	if s.recorded.Unordered {
		s.order()
	}
	k := a.shape(s)
	s.Shape = k.Shape
	if k.overridden || a.stale(s) {
		s.recount()
	}

	byStart := s.Spans
	if !span.Sorted(byStart) {
		a.byStart = append(a.byStart[:0], byStart...)
		byStart = a.byStart
		span.Sort(byStart)
	}
	var u span.Union
	u.Add(byStart)
	s.Compute = u.Compute.Sum
	s.ExposedComm = u.Kernels.Sum - u.Compute.Sum
	s.Overlap = u.Comm.Sum - s.ExposedComm
	s.Idle = s.Wall() - u.Kernels.Sum
}

// order sorts the columns by launch and node.
func (s *Step) order() {
	index := make([]int, len(s.Refs))
	for i := range index {
		index[i] = i
	}
	refs := s.recorded.Refs
	slices.SortFunc(index, func(a, b int) int { return cmp.Compare(refs[a], refs[b]) })
	s.Spans = make([]span.Span, len(index))
	s.Refs = make([]uint64, len(index))
	for to, from := range index {
		s.Spans[to], s.Refs[to] = s.recorded.Spans[from], refs[from]
	}
	slices.SortStableFunc(s.parts, func(a, b part) int { return cmp.Compare(a.ordinal, b.ordinal) })
	merged := s.parts[:0]
	for _, p := range s.parts {
		if n := len(merged); n > 0 && merged[n-1].ordinal == p.ordinal {
			merged[n-1].n += p.n
			continue
		}
		merged = append(merged, p)
	}
	s.parts = merged
}
