// Package behaviour finds the kernels in which ranks meet, by their times alone.
//
// A kernel's arrival is the later of its start and the end of the kernel before it on its stream. Two ranks' clocks differ in a step
// by the median difference of the ends of all its kernels. Over some steps, the difference of two ranks' times in a kernel is
// regressed on the difference of their arrivals. No name is looked at.
package behaviour

import (
	"cmp"
	"slices"
	"time"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/digest"
)

// Bounds, and times.
const (
	maxRanks   = 9       // of a run that are watched: each with the next
	maxShapes  = 256     // of a run
	maxKernels = 1 << 19 // of steps that wait for the other rank, 16 bytes each
	maxSums    = 1 << 18 // positions of pairs, 40 bytes each
	enough     = 40      // steps that a verdict rests on
	rest       = 5 * time.Minute
	margin     = 128 // steps from a verdict until it holds, so that it holds on all ranks from one seq on
)

// A Watcher watches the ranks of a run. It is not safe for concurrent use.
type Watcher struct {
	shapes  map[uint64]*Shape // by work
	ranks   []int64           // that are watched, ascending
	held    map[int64][]held
	kernels int // of held
	sums    int
	newest  int64
	ends    []int64
}

// A Shape is what is known of the steps of a shape.
type Shape struct {
	Program  string
	Verdicts []Behaviour // by position; nil: none yet
	From     int64       // seq from which the verdicts hold
	Compute  []int32     // positions that meet and count as compute

	positions []digest.Position
	before    []int32 // the position before on the stream, or -1
	pairs     map[[2]int64]*pair
	used      int64
}

// A pair is the sums of two ranks.
type pair struct {
	n      float64 // steps
	sums   []regression
	says   []Behaviour // the last verdict
	rested time.Time   // until then
}

// held is a step that waits for the other rank.
type held struct {
	rank int64
	step chunk.Step
	work uint64
}

// New returns a Watcher.
func New() *Watcher {
	return &Watcher{shapes: map[uint64]*Shape{}, held: map[int64][]held{}}
}

// Shapes are all shapes that are known, by work.
func (w *Watcher) Shapes() map[uint64]*Shape { return w.shapes }

// Add takes a complete step of a rank, whose seq is that of other ranks, whole. It keeps the step's columns.
func (w *Watcher) Add(rank int64, s *chunk.Step, of *digest.Shape, now time.Time) {
	w.newest = max(w.newest, s.Seq)
	if i, ok := slices.BinarySearch(w.ranks, rank); !ok && (len(w.ranks) < maxRanks || i < maxRanks) {
		w.ranks = slices.Insert(w.ranks, i, rank)
		w.ranks = w.ranks[:min(len(w.ranks), maxRanks)]
	}
	shape := w.shape(s, of)
	if shape == nil || !w.wants(shape, rank, now) {
		return
	}
	for _, h := range w.held[s.Seq] {
		if h.work == of.Work && w.next(h.rank, rank) {
			if h.rank < rank {
				w.compare(shape, [2]int64{h.rank, rank}, &h.step, s, now)
			} else {
				w.compare(shape, [2]int64{rank, h.rank}, s, &h.step, now)
			}
		}
	}
	if w.kernels += len(s.Starts); w.kernels > maxKernels {
		w.drop()
		w.kernels += len(s.Starts)
	}
	w.held[s.Seq] = append(w.held[s.Seq], held{rank, *s, of.Work})
	if len(w.held[s.Seq]) >= len(w.ranks) && len(w.ranks) > 1 { // all have met
		for i := range w.held[s.Seq] {
			w.kernels -= len(w.held[s.Seq][i].step.Starts)
		}
		delete(w.held, s.Seq)
	}
}

// next reports whether two ranks are watched together.
func (w *Watcher) next(a, b int64) bool {
	i, ok := slices.BinarySearch(w.ranks, a)
	k, also := slices.BinarySearch(w.ranks, b)
	return ok && also && (i-k == 1 || k-i == 1)
}

// wants reports whether steps of a rank are still of use.
func (w *Watcher) wants(s *Shape, rank int64, now time.Time) bool {
	i, ok := slices.BinarySearch(w.ranks, rank)
	if !ok {
		return false
	}
	active := func(a, b int) bool {
		if a < 0 || b >= len(w.ranks) {
			return false
		}
		p := s.pairs[[2]int64{w.ranks[a], w.ranks[b]}]
		return p == nil || !now.Before(p.rested)
	}
	return len(w.ranks) == 1 || active(i-1, i) || active(i, i+1)
}

// drop gives up the older half of the steps that wait.
func (w *Watcher) drop() {
	seqs := make([]int64, 0, len(w.held))
	for seq := range w.held {
		seqs = append(seqs, seq)
	}
	slices.Sort(seqs)
	for _, seq := range seqs[:(len(seqs)+1)/2] {
		delete(w.held, seq)
	}
	w.kernels = 0
	for _, all := range w.held {
		for i := range all {
			w.kernels += len(all[i].step.Starts)
		}
	}
}

// shape is what is known of a shape, made if need be; nil: there are too many positions.
func (w *Watcher) shape(s *chunk.Step, of *digest.Shape) *Shape {
	shape := w.shapes[of.Work]
	if shape == nil {
		if len(of.Positions) != len(s.Starts) || len(of.Positions) > maxSums {
			return nil
		}
		if len(w.shapes) >= maxShapes {
			w.forget()
		}
		shape = &Shape{Program: s.Program, positions: of.Positions, before: before(s.Shape.Positions), pairs: map[[2]int64]*pair{}}
		w.shapes[of.Work] = shape
	}
	shape.used = w.newest
	return shape
}

// forget drops the shape that was used longest ago.
func (w *Watcher) forget() {
	oldest, found := uint64(0), false
	for work, s := range w.shapes {
		if !found || s.used < w.shapes[oldest].used {
			oldest, found = work, true
		}
	}
	for _, p := range w.shapes[oldest].pairs {
		w.sums -= len(p.sums)
	}
	delete(w.shapes, oldest)
}

// before is the position before each on its stream.
func before(positions []chunk.Position) []int32 {
	last := map[uint32]int32{}
	all := make([]int32, len(positions))
	for i := range positions {
		at, ok := last[positions[i].Stream]
		if !ok {
			at = -1
		}
		all[i] = at
		last[positions[i].Stream] = int32(i)
	}
	return all
}

// compare takes one step of two ranks.
func (w *Watcher) compare(s *Shape, of [2]int64, a, b *chunk.Step, now time.Time) {
	n := len(s.positions)
	if len(a.Starts) != n || len(b.Starts) != n {
		return
	}
	p := s.pairs[of]
	if p == nil {
		p = &pair{}
		s.pairs[of] = p
	}
	if now.Before(p.rested) {
		return
	}
	if p.sums == nil {
		if w.sums+n > maxSums {
			return
		}
		w.sums += n
		p.sums = make([]regression, n)
	}
	w.ends = w.ends[:0]
	for i := range n {
		w.ends = append(w.ends, int64(b.Starts[i]+b.Durs[i]-a.Starts[i]-a.Durs[i]))
	}
	slices.Sort(w.ends)
	offset := w.ends[n/2]
	for i := range n {
		enterA, enterB := s.enters(a, i), s.enters(b, i)
		leaveA, leaveB := int64(a.Starts[i]+a.Durs[i]), int64(b.Starts[i]+b.Durs[i])
		p.sums[i].add(float64(enterB-enterA-offset), float64(leaveB-enterB-leaveA+enterA))
	}
	if p.n++; p.n == enough {
		w.judge(s, p, now)
	}
}

// enters is when a kernel could begin: the later of its start and the end of the one before it on its stream.
func (s *Shape) enters(step *chunk.Step, i int) int64 {
	start := int64(step.Starts[i])
	if k := s.before[i]; k >= 0 {
		start = max(start, int64(step.Starts[k]+step.Durs[k]))
	}
	return min(start, int64(step.Starts[i]+step.Durs[i]))
}

// judge gives a verdict of a pair.
func (w *Watcher) judge(s *Shape, p *pair, now time.Time) {
	p.says = make([]Behaviour, len(p.sums))
	for i := range p.sums {
		p.says[i] = p.sums[i].says(p.n)
	}
	w.sums -= len(p.sums)
	p.sums, p.n, p.rested = nil, 0, now.Add(rest)

	verdicts := make([]Behaviour, len(s.positions))
	var compute []int32
	for i := range verdicts {
		for _, o := range s.pairs {
			if o.says != nil {
				verdicts[i] = max(verdicts[i], o.says[i]) // one pair that meets is enough
			}
		}
		if verdicts[i] == Meeting && !s.positions[i].Comm {
			compute = append(compute, int32(i))
		}
	}
	if !slices.Equal(compute, s.Compute) {
		s.From = w.newest + margin
	}
	s.Verdicts, s.Compute = verdicts, compute
}

// A Finding is kernels of a call that meet and count as compute, or count as communication and do not meet.
type Finding struct {
	Program   string `json:"program"`
	Call      string `json:"call"`
	Kernel    string `json:"kernel"`
	Class     string `json:"class"`
	Behaviour string `json:"behaviour"`
	Positions int    `json:"positions"`
}

// Findings are where behaviour and class differ, at most n.
func (w *Watcher) Findings(n int) (all []Finding) {
	counts := map[Finding]int{}
	for _, s := range w.shapes {
		for i, v := range s.Verdicts {
			p := &s.positions[i]
			if v == Meeting && !p.Comm || v == Alone && p.Comm {
				counts[Finding{Program: s.Program, Call: p.Call, Kernel: p.Name, Class: Class(p.Comm), Behaviour: Names[v]}]++
			}
		}
	}
	for f, count := range counts {
		f.Positions = count
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.Positions, a.Positions), cmp.Compare(a.Program, b.Program), cmp.Compare(a.Call, b.Call), cmp.Compare(a.Kernel, b.Kernel))
	})
	return all[:min(n, len(all))]
}

// Class is the name of a class.
func Class(comm bool) string {
	if comm {
		return "comm"
	}
	return "compute"
}

// A Count is a label set of positions.
type Count struct {
	Program, Class string
	Behaviour      Behaviour
}

// Counts are the positions of all shapes with a verdict.
func (w *Watcher) Counts() map[Count]int {
	counts := map[Count]int{}
	for _, s := range w.shapes {
		for i, v := range s.Verdicts {
			counts[Count{s.Program, Class(s.positions[i].Comm), v}]++
		}
	}
	return counts
}
