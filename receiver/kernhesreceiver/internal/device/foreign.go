package device

import (
	"slices"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

// keep is how long, in ns, kernels are kept for the foreign compute of steps that do not close.
const keep = 30e9

// foreign is what the foreign compute of the next step is worked out from: compute kernels that
// ended after the latest end of the steps that are final.
type foreign struct {
	steps bool       // there was a step
	since uint64     // latest end of a final step, unix ns
	base  span.Cover // union of compute after that by kernels that start before upto
	upto  uint64     // none of which belongs to a step to come
	kept  []*run
}

// Foreign is the union of compute kernels of others than the step owner, from the latest end of an
// earlier step to last, the step's own last end; 0 for the first step. Steps must come in order of
// their first start, each when the watermark has passed its last end. earlier is the latest end of
// steps that started earlier and are not closed yet, 0 if there is none.
func (a *Account) Foreign(owner, last, earlier uint64) (ns uint64) {
	f := &a.foreign
	from := max(f.since, earlier)
	if f.steps && from < last {
		c := span.Cover{End: from}
		if from == f.since {
			c = f.base
			c.End = max(c.End, from)
		}
		a.scratch = a.scratch[:0]
		for _, r := range f.kept {
			if r.owner == owner && owner != 0 || !r.Compute || r.End <= from || r.First >= last {
				continue
			}
			for _, s := range r.spans() {
				if s.Class() == span.Compute && s.End() > from && s.Start >= f.upto && s.Start < last {
					a.scratch = append(a.scratch, s)
				}
			}
		}
		span.Sort(a.scratch)
		for _, s := range a.scratch {
			c.Add(s.Start, s.End())
		}
		ns = c.At(last)
	}
	f.steps = true
	f.since = max(f.since, last)
	f.base = span.Cover{End: max(f.base.End, f.since)}
	f.base.Sum = f.base.End - f.since // of what goes on, all that is left covers
	f.drop(func(r *run) bool { return r.End <= f.since })
	return ns
}

// Settle tells that no step is open or waiting: kernels that start before the watermark belong to
// none, so what they add up to is all that is kept of them. With steps open, kernels are kept for a
// bounded time.
func (a *Account) Settle(watermark uint64, open bool) {
	f := &a.foreign
	if open {
		f.drop(func(r *run) bool { return r.End+keep < watermark })
		return
	}
	if watermark <= f.upto {
		return
	}
	a.scratch = a.scratch[:0]
	for _, r := range f.kept {
		if !r.Compute || r.First >= watermark {
			continue
		}
		for _, s := range r.spans() {
			if s.Class() == span.Compute && s.Start >= f.upto && s.Start < watermark {
				a.scratch = append(a.scratch, s)
			}
		}
	}
	span.Sort(a.scratch)
	f.base.End = max(f.base.End, f.since)
	for _, s := range a.scratch {
		f.base.Add(s.Start, s.End())
	}
	f.upto = watermark
	f.drop(func(r *run) bool { return r.Latest < watermark })
}

func (f *foreign) drop(gone func(*run) bool) { f.kept = slices.DeleteFunc(f.kept, gone) }
