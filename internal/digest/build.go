package digest

import (
	"cmp"
	"slices"

	"github.com/kernhes/kernhes/internal/chunk"
)

// maxSums bounds the shapes that are summed apart between two calls of TakeSums.
const maxSums = 1024

// maxKernels bounds the kernels of a step that comes in parts; a longer one is not compared.
const maxKernels = 1 << 20

// sampled is one in how many kernels counts in the median. The same positions count on all ranks.
const sampled = 3

// A sumKey names the steps that are summed together.
type sumKey struct {
	shape   *Shape
	program string
}

// A Builder makes digests of the steps of one rank, which come in order. The zero Builder needs Shapes.
type Builder struct {
	Shapes *Shapes
	// Meets, if it is set, gives positions of a step that are calls whatever their class, ascending. Of a step in parts none are.
	Meets func(s *chunk.Step, shape *Shape) []int32

	sums      map[sumKey]*Sums // since TakeSums
	parts     []uint64         // durations of the open step, where it comes in parts
	also      []int32          // what Meets gave for the open step
	positions []chunk.Position // of the parts of the open step
	open      Step
	sweep     sweep
	durs      []uint64 // of some compute kernels
	order     []int32  // positions of the part, by start
	sites     []int32  // by position: the call that it is, or the next one
	at        int      // position of the part that is due
	skip      bool
}

// Add takes a step, or a part of one, and returns the digest when the step is whole; else nil. Kernels outside any step have
// none, nor has a step that was not traced: no rank can be compared by it. The digest shares nothing with the chunk but texts.
func (b *Builder) Add(s *chunk.Step) *Step {
	if s.Outside || s.Untraced {
		return nil
	}
	if s.Offset == 0 {
		b.begin(s)
	}
	b.skip = b.skip || s.Offset != b.at || s.Kernels > maxKernels
	n := len(s.Starts)
	b.at += n
	if !b.skip {
		b.take(s)
		if !s.Last {
			b.positions = append(b.positions, s.Shape.Positions...)
			b.parts = append(b.parts, s.Durs...)
		}
	}
	if !s.Last {
		return nil
	}
	return b.end(s)
}

// begin opens a step.
func (b *Builder) begin(s *chunk.Step) {
	b.positions, b.durs, b.parts, b.at, b.skip = b.positions[:0], b.durs[:0], b.parts[:0], 0, false
	b.sweep, b.also = sweep{}, nil
	if b.Meets != nil && s.Last && s.Shape != nil {
		b.also = b.Meets(s, b.Shapes.Of(s.Shape))
	}
	b.open = Step{Seq: s.Seq, Pairs: s.Pairs, Complete: s.Complete, Program: s.Program, Seqs: s.Seqs, Tokens: s.Tokens, KV: s.KV,
		Start: s.Start, End: s.End, Compute: s.Compute, Idle: s.Idle, Foreign: s.Foreign}
}

// take sweeps over the kernels of a part in order of their starts.
func (b *Builder) take(s *chunk.Step) {
	if s.Shape == nil {
		return
	}
	for i := range s.Launches {
		b.open.Graph = b.open.Graph || s.Launches[i].Graph != 0
	}
	b.sort(s.Starts)
	b.sites = b.sites[:0]
	for i := range s.Shape.Positions {
		b.sites = append(b.sites, int32(len(b.open.Calls)))
		if b.calls(s, i) {
			b.open.Calls = append(b.open.Calls, Call{Start: s.Starts[i], Dur: s.Durs[i]})
		} else if (s.Offset+i)%sampled == 0 {
			b.durs = append(b.durs, s.Durs[i])
		}
	}
	for _, i := range b.order {
		switch start, end := s.Starts[i], s.Starts[i]+s.Durs[i]; {
		case b.calls(s, int(i)):
			b.sweep.pass(start, b.open.Calls)
			b.open.Calls[b.sites[i]].Before = b.sweep.until(start)
			b.sweep.running = append(b.sweep.running, int(b.sites[i]))
		case s.Shape.Positions[i].Class == chunk.Compute:
			b.sweep.pass(start, b.open.Calls)
			b.sweep.add(start, end)
		}
	}
	b.sweep.pass(1<<63, b.open.Calls)
}

// calls reports whether a position of a part is a call.
func (b *Builder) calls(s *chunk.Step, i int) bool {
	if s.Shape.Positions[i].Class == chunk.Comm {
		return true
	}
	if len(b.also) == 0 {
		return false
	}
	_, ok := slices.BinarySearch(b.also, int32(i))
	return ok
}

// sort has b.order be the order of starts. They are nearly in order: kernels of a second stream stand out.
func (b *Builder) sort(starts []uint64) {
	b.order = b.order[:0]
	moves := 8 * len(starts)
	for i := range starts {
		b.order = append(b.order, int32(i))
		for k := i; k > 0 && starts[b.order[k-1]] > starts[b.order[k]] && moves > 0; k-- {
			b.order[k-1], b.order[k] = b.order[k], b.order[k-1]
			moves--
		}
	}
	if moves == 0 {
		slices.SortStableFunc(b.order, func(x, y int32) int { return cmp.Compare(starts[x], starts[y]) })
	}
}

// end gives the digest of the open step.
func (b *Builder) end(s *chunk.Step) *Step {
	step := b.open
	b.open = Step{}
	if len(b.durs) > 0 {
		slices.Sort(b.durs)
		step.Typical = b.durs[len(b.durs)/2]
	}
	switch {
	case b.skip:
		step.Complete, step.Calls, step.Shape = false, nil, &Shape{}
	case s.Offset > 0:
		step.Shape = b.Shapes.of(append(b.positions, s.Shape.Positions...))
		b.sum(&step, b.parts, s.Durs)
	case s.Shape == nil:
		step.Shape = &Shape{}
	case len(b.also) > 0:
		step.Shape = b.Shapes.with(s.Shape, b.also)
		step.Compute = b.sweep.compute
		b.sum(&step, nil, s.Durs)
	default:
		step.Shape = b.Shapes.Of(s.Shape)
		b.sum(&step, nil, s.Durs)
	}
	return &step
}

// sum adds the durations of a complete step, in two runs.
func (b *Builder) sum(s *Step, first, rest []uint64) {
	if !s.Complete {
		return
	}
	key := sumKey{s.Shape, s.Program}
	at := b.sums[key]
	if at == nil {
		if b.sums == nil {
			b.sums = map[sumKey]*Sums{}
		}
		if len(b.sums) >= maxSums {
			return
		}
		at = &Sums{Program: s.Program, Shape: s.Shape, NS: make([]uint64, len(s.Shape.Families))}
		b.sums[key] = at
	}
	at.Steps++
	for i, d := range first {
		at.NS[s.Shape.Family[i]] += d
	}
	for i, d := range rest {
		at.NS[s.Shape.Family[len(first)+i]] += d
	}
}

// TakeSums returns what the steps since the last call took.
func (b *Builder) TakeSums() (all []*Sums) {
	for _, s := range b.sums {
		all = append(all, s)
	}
	slices.SortFunc(all, func(x, y *Sums) int {
		return cmp.Or(cmp.Compare(x.Program, y.Program), cmp.Compare(x.Shape.Work, y.Shape.Work), cmp.Compare(len(x.NS), len(y.NS)))
	})
	clear(b.sums)
	return all
}

// A sweep goes over the kernels of a step by time.
type sweep struct {
	compute uint64 // ns: union of the compute kernels so far
	busy    uint64 // latest end of them
	running []int  // calls whose end is not passed
}

// add takes a compute kernel.
func (w *sweep) add(start, end uint64) {
	if end > w.busy {
		w.compute += end - max(start, w.busy)
		w.busy = end
	}
}

// until is the union of compute up to a time that no later kernel begins before.
func (w *sweep) until(t uint64) uint64 {
	if w.busy > t {
		return w.compute - min(w.compute, w.busy-t)
	}
	return w.compute
}

// pass tells that nothing begins before a time any more.
func (w *sweep) pass(t uint64, calls []Call) {
	kept := w.running[:0]
	for _, i := range w.running {
		if c := &calls[i]; c.End() <= t {
			c.Until = w.until(c.End())
		} else {
			kept = append(kept, i)
		}
	}
	w.running = kept
}
