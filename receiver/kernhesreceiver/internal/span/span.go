// Package span is time on a device: spans of kernels and copies, and the length of their unions.
package span

import (
	"cmp"
	"slices"

	"github.com/kernhes/kernhes/internal/model"
)

// A Class says what a span's time counts as.
type Class = model.Class

// Classes of spans. Two bits hold one.
const (
	Compute = model.Compute
	Comm    = model.Comm
	Copy    = model.Copying
	Spin    = model.Spin
)

// By is what gave a kernel its class.
type By uint8

// Classes come from these, in the order of ByNames.
const (
	ByDefault  By = 0 // nothing knew its name: it counts as compute
	ByRule     By = 1 // the table of names
	ByManifest By = 2 // the engine's
)

// ByNames are the values of the label by.
var ByNames = [...]string{"default", "rule", "manifest"}

// A Span is one record's time on the device. Times are unix ns below 2^62, which lasts until 2116:
// so the class lies in the low bits of the end, and a span is 16 bytes.
type Span struct{ Start, end uint64 }

// Limit is the first time that does not fit a Span.
const Limit = 1 << 62

// Make returns the span from start to end, both below Limit, start <= end.
func Make(start, end uint64, c Class) Span { return Span{start, end<<2 | uint64(c&3)} }

func (s Span) End() uint64  { return s.end >> 2 }
func (s Span) Class() Class { return Class(s.end & 3) }

// Sorted reports whether spans are in order of start.
func Sorted(spans []Span) bool {
	for i := 1; i < len(spans); i++ {
		if spans[i].Start < spans[i-1].Start {
			return false
		}
	}
	return true
}

// Sort orders spans by start. They are nearly in order: streams overlap, so a kernel comes a few places late. Such are put in
// their places one by one, at 1.5 ns a span; a sort by comparison takes 15. Those that are not nearly in order are sorted so.
func Sort(spans []Span) {
	moves := 4 * len(spans)
	for i := 1; i < len(spans); i++ {
		s := spans[i]
		if s.Start >= spans[i-1].Start {
			continue
		}
		k := i
		for ; k > 0 && spans[k-1].Start > s.Start; k-- {
			spans[k] = spans[k-1]
		}
		spans[k] = s
		if moves -= i - k; moves < 0 {
			slices.SortStableFunc(spans, func(a, b Span) int { return cmp.Compare(a.Start, b.Start) })
			return
		}
	}
}

// An Extent is what spans in a row reach over. The zero Extent is of none.
type Extent struct {
	First    uint64 // earliest start, unix ns
	Latest   uint64 // latest start
	End      uint64 // latest end
	Disorder bool   // they are not in order of start
	Compute  bool   // there is a compute kernel among them
}

// Add takes the next span.
func (e *Extent) Add(s Span) {
	if s.Start >= e.Latest {
		e.Latest = s.Start
		if e.First == 0 {
			e.First = s.Start
		}
	} else {
		e.Disorder = true
		e.First = min(e.First, s.Start)
	}
	e.End = max(e.End, s.End())
	e.Compute = e.Compute || s.Class() == Compute
}

// Join takes what comes after e's spans.
func (e *Extent) Join(next Extent) {
	if e.First == 0 {
		*e = next
		return
	}
	e.Disorder = e.Disorder || next.Disorder || next.First < e.Latest
	e.First = min(e.First, next.First)
	e.Latest = max(e.Latest, next.Latest)
	e.End = max(e.End, next.End)
	e.Compute = e.Compute || next.Compute
}

// A Cover measures a union of spans that come in order of start.
type Cover struct {
	Sum uint64 // ns
	End uint64 // unix ns up to which it is measured
}

// Add takes start to end into the union.
func (c *Cover) Add(start, end uint64) {
	if end > c.End {
		if start < c.End {
			start = c.End
		}
		c.Sum += end - start
		c.End = end
	}
}

// At is the length of the union before t, if all spans that start before t have been added
// and no other.
func (c *Cover) At(t uint64) uint64 {
	if c.End > t {
		return c.Sum - (c.End - t)
	}
	return c.Sum
}

// A Union measures the spans of a device or of a step by class.
type Union struct {
	Compute, Comm Cover // each class alone
	Kernels       Cover // both

	copies   bool   // there was a copy; before the first, any is what Kernels is
	any      Cover  // kernels and copies
	trailing bool   // copies have begun after the last kernel's end
	from     uint64 // start of the first of those, unix ns
	before   Cover  // any without those
}

// Add takes spans, which must be in order of start, also after those added before.
func (u *Union) Add(spans []Span) {
	for _, s := range spans {
		end := s.End()
		switch s.Class() {
		case Compute:
			u.Compute.Add(s.Start, end)
		case Comm:
			u.Comm.Add(s.Start, end)
		case Copy:
			u.copy(s.Start, end)
			continue
		case Spin:
			continue
		}
		u.Kernels.Add(s.Start, end)
		if u.copies {
			u.any.Add(s.Start, end)
			u.trailing = false
		}
	}
}

// copy takes a copy, and notes where those begin that follow the last kernel.
func (u *Union) copy(start, end uint64) {
	if !u.copies {
		u.copies, u.any = true, u.Kernels
	}
	if start >= u.Kernels.End && !u.trailing {
		u.trailing, u.from, u.before = true, start, u.any
	}
	u.any.Add(start, end)
}

// AnyAt is the length of the union of kernels and copies before t, if all spans that start before t have been added, and
// after those only copies that follow the last kernel: time is mostly accounted up to that kernel's end.
func (u *Union) AnyAt(t uint64) uint64 {
	switch {
	case !u.copies:
		return u.Kernels.At(t)
	case u.trailing && t <= u.from:
		return u.before.At(t)
	}
	return u.any.At(t)
}
