// Package device turns the kernels of one device into its device time: compute, exposed
// communication, idle and unknown, which add up to the nanosecond.
//
// Time is accounted up to the watermark: no kernel that is still to come started before it. What the
// device did after its last kernel is held back for a while, so that a session that ends is accounted
// up to its last kernel, and a card that stays idle is seen to.
package device

import (
	"slices"
	"sort"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/cupti"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

// A Why is why idle is unknown. Where several hold, the first counts: nothing could be lost while nothing was traced.
type Why uint8

const (
	OutsideWindow Why = iota // between two windows
	Yielded                  // another user of CUPTI has it
	Off                      // tracing is off for another reason
	Loss                     // records were lost

	Whys // how many there are
)

// WhyNames are the reasons as metrics say them.
var WhyNames = [Whys]string{"outside_window", "yielded", "off", "loss"}

// Time is device time since the first kernel started, in ns. Compute, Comm, Idle and Unknown add up
// to Watermark − First.
type Time struct {
	Compute    uint64 // union of compute kernels
	Comm       uint64 // what comm kernels add to that
	Idle       uint64 // the rest, where nothing was lost
	Unknown    uint64 // the rest, where something was, or nothing was traced
	Overlapped uint64 // comm under compute
	Copy       uint64 // what copies add to the union of kernels
	First      uint64 // unix ns at which the first kernel started; 0: none yet
	Watermark  uint64 // unix ns up to which it is accounted

	UnknownBy [Whys]uint64 // these add up to Unknown
}

// An Account is the device time of one device. It is not safe for concurrent use.
type Account struct {
	union   span.Union
	pending []*run      // not measured yet, in the order in which they came
	rest    []span.Span // the part not measured yet of runs that were measured in part; in order
	scratch []span.Span
	spare   []run

	first     uint64 // start of the first kernel; 0: none yet
	copying   uint64 // latest end of the copies that began before that
	watermark uint64 // up to which time is accounted
	busy      uint64 // union of kernels up to there
	idle      uint64
	unknown   [Whys]uint64
	lost      [Whys]uint64 // idle up to here is unknown, unix ns

	foreign foreign
}

// Add takes the kernels that columns gained, launched in the step owner (0: none). It returns how many of them are late: they
// started before what is accounted.
func (a *Account) Add(owner uint64, gained cupti.Added) (late uint64) {
	if gained.From == gained.To {
		return 0
	}
	added := run{Extent: gained.Extent, owner: owner, columns: gained.Columns, from: gained.From, to: gained.To}
	if added.First < a.watermark {
		return a.late(&added)
	}
	if n := len(a.pending); n > 0 && a.pending[n-1].extend(&added) {
		return 0
	}
	r := a.fresh()
	*r = added
	a.pending = append(a.pending, r)
	a.foreign.kept = append(a.foreign.kept, r)
	return 0
}

// late takes kernels of which some started before the watermark: those are counted and left out. Of
// a copy that was under way at the watermark, the rest is taken.
func (a *Account) late(r *run) (late uint64) {
	on := &cupti.Columns{}
	for _, s := range r.spans() {
		switch {
		case s.Start >= a.watermark:
			on.Add(s, 0)
		case s.Class() != span.Copy:
			late++
		case s.End() > a.watermark:
			on.Add(span.Make(a.watermark, s.End(), span.Copy), 0)
		}
	}
	return late + a.Add(r.owner, on.Since(0))
}

// Lost makes idle up to t, unix ns, unknown: records may have lain there that did not come.
func (a *Account) Lost(t uint64, why Why) { a.lost[why] = max(a.lost[why], t) }

// Advance accounts time up to a watermark, unix ns. Time after the last kernel is accounted only
// when the watermark is more than hold ns past that.
func (a *Account) Advance(watermark, hold uint64) {
	a.advance(watermark, func(end uint64) uint64 {
		if watermark > end && watermark-end <= hold {
			return end
		}
		return watermark
	})
}

// Finish accounts time up to the end of the last kernel.
func (a *Account) Finish() {
	a.advance(span.Limit, func(end uint64) uint64 { return end })
}

// advance measures the kernels that start before a watermark, and accounts time up to what to makes
// of the end of the last of them. A union is known at a time only before later kernels are in it, so
// where idle stops being unknown for a reason is looked at on the way.
func (a *Account) advance(watermark uint64, to func(end uint64) uint64) {
	var busy [Whys]uint64
	lost := a.lost
	slices.Sort(lost[:])
	for i, at := range lost {
		if a.watermark < at && at < watermark {
			a.measure(at)
			busy[i] = a.union.Kernels.At(at)
		}
	}
	a.measure(watermark)
	if a.first == 0 {
		return
	}
	t := to(a.union.Kernels.End)
	for i, at := range lost {
		if a.watermark < at && at < t {
			a.account(at, busy[i])
		}
	}
	if t > a.watermark {
		a.account(t, a.union.Kernels.At(t))
	}
}

// account accounts time up to t, before which kernels ran for busy ns in all. No time of lost lies before t.
func (a *Account) account(t, busy uint64) {
	idle := t - a.watermark - (busy - a.busy)
	if why := slices.IndexFunc(a.lost[:], func(until uint64) bool { return a.watermark < until }); why >= 0 {
		a.unknown[why] += idle
	} else {
		a.idle += idle
	}
	a.busy, a.watermark = busy, t
}

// Time is what has been accounted.
func (a *Account) Time() Time {
	w := a.watermark
	compute, kernels := a.union.Compute.At(w), a.union.Kernels.At(w)
	var unknown uint64
	for _, ns := range a.unknown {
		unknown += ns
	}
	return Time{
		Compute: compute, Comm: kernels - compute, Idle: a.idle, Unknown: unknown, UnknownBy: a.unknown,
		Overlapped: a.union.Comm.At(w) - (kernels - compute), Copy: a.union.AnyAt(w) - kernels,
		First: a.first, Watermark: w,
	}
}

// measure takes the kernels that start before a time into the unions, in order of start. Nearly
// always whole runs do, one after the other; else everything that waits is sorted.
func (a *Account) measure(before uint64) {
	after := uint64(span.Limit)
	if len(a.rest) > 0 {
		after = a.rest[0].Start
	}
	for i := len(a.pending) - 1; i >= 0; i-- {
		a.pending[i].after = after
		after = min(after, a.pending[i].First)
	}
	n := 0
	for n < len(a.pending) && a.pending[n].alone() && a.pending[n].Latest < before {
		a.take(a.pending[n].spans())
		n++
	}
	left := a.pending[n:]
	mixed := len(a.rest) > 0 && a.rest[0].Start < before
	for _, r := range left {
		mixed = mixed || r.First < before
	}
	if mixed {
		a.scratch = append(a.scratch[:0], a.rest...)
		for _, r := range left {
			a.scratch = append(a.scratch, r.spans()...)
		}
		if !span.Sorted(a.scratch) {
			span.Sort(a.scratch)
		}
		k := sort.Search(len(a.scratch), func(i int) bool { return a.scratch[i].Start >= before })
		a.take(a.scratch[:k])
		a.rest = append(a.rest[:0], a.scratch[k:]...)
		left = nil
	}
	kept := copy(a.pending, left)
	clear(a.pending[kept:])
	a.pending = a.pending[:kept]
}

// take measures spans; time begins with the first kernel among them. Of copies that are under way then, the rest counts.
func (a *Account) take(spans []span.Span) {
	for a.first == 0 && len(spans) > 0 {
		if first := spans[0]; first.Class() != span.Copy {
			a.first, a.watermark = first.Start, first.Start
			if a.copying > first.Start {
				a.union.Add([]span.Span{span.Make(first.Start, a.copying, span.Copy)})
			}
			break
		}
		a.copying = max(a.copying, spans[0].End())
		spans = spans[1:]
	}
	a.union.Add(spans)
}
