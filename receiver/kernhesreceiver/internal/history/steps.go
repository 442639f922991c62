package history

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// What is kept of steps.
const (
	keptSteps    = 256              // numbers of a rank's newest steps
	keptDetails  = 2                // of them, steps with their kernels: those of sampled, and the slowest of a minute
	maxKernels   = 20_000           // a step with more is drawn without kernels
	sampledSteps = 128              // of so many steps one is kept with its kernels: at 33 steps a second, one each 4 s
	sampledTime  = 15 * time.Second // or one after so long, where steps are long
	minutes      = 16               // sketches of a set: one a minute
	growth       = 1.02             // of a sketch's buckets: a quantile is off by 1% at most
	smallest     = 10e3             // ns: what is shorter counts as that
	maxBuckets   = 1 << 10          // 10 µs × 1.02^1024 is more than an hour
)

// A Step is a final step.
type Step struct {
	Key
	Set
	Seq                          uint64
	Text                         string
	Start, End                   uint64 // unix ns: first kernel's start, last one's end
	Compute, Comm, Overlap, Idle uint64 // ns
	Foreign                      uint64 // ns
	Kernels                      int
	Reason                       string // why it is incomplete; empty: it is complete
	Detail                       []Kernel
	detailed                     time.Time
}

// Wall is first start to last end, ns.
func (s *Step) Wall() uint64 { return s.End - min(s.Start, s.End) }

// A Kernel is one of a step. Texts are the engine's own, shared and not copied.
type Kernel struct {
	Call, Name string
	Comm       bool
	Stream     uint32
	Start, Dur uint64 // unix ns; ns
}

// steps are the newest steps of a rank.
type steps struct {
	ring    []Step
	next    int
	details []*Step
	slowest *Step // of this minute, with its kernels
	minute  int64
}

// logGrowth is the logarithm of growth.
var logGrowth = math.Log(growth)

// Take takes a final step. It calls detail, which gives the step's kernels, for one step in 128 and for slow ones.
func (h *History) Take(now time.Time, s *Step, detail func() []Kernel) {
	h.mu.Lock()
	defer h.mu.Unlock()
	run := h.run(now, s.Run)
	k := run.ranks[s.Rank]
	if k == nil {
		if len(run.ranks) >= maxRank {
			return
		}
		k = &rank{}
		run.ranks[s.Rank] = k
	}
	if s.Reason == "" {
		run.sketch(s.Set).add(now, s.Wall())
	}
	k.steps.take(now, s, detail)
}

// sketch is that of a set.
func (r *run) sketch(set Set) *sketches {
	q := r.sets[set]
	if q == nil {
		if len(r.sets) >= maxSets {
			set = other
			if q = r.sets[set]; q != nil {
				return q
			}
		}
		q = &sketches{}
		r.sets[set] = q
	}
	return q
}

func (s *steps) take(now time.Time, t *Step, detail func() []Kernel) {
	minute := now.Unix() / 60
	newest := time.Time{}
	if len(s.details) > 0 {
		newest = s.details[len(s.details)-1].detailed
	}
	slow := minute != s.minute || s.slowest == nil || t.Wall() > s.slowest.Wall()
	// By seq, so that all ranks keep the same steps; by time, where steps are long.
	sampled := t.Seq%sampledSteps == 0 || now.Sub(newest) >= sampledTime
	if t.Kernels <= maxKernels && (slow || sampled) {
		whole := *t
		whole.Detail, whole.detailed = detail(), now
		if slow {
			s.slowest, s.minute = &whole, minute
		}
		if sampled {
			if len(s.details) == keptDetails {
				s.details = append(s.details[:0], s.details[1:]...)
			}
			s.details = append(s.details, &whole)
		}
	}
	if len(s.ring) < keptSteps {
		s.ring = append(s.ring, *t)
		return
	}
	s.ring[s.next] = *t
	s.next = (s.next + 1) % keptSteps
}

// all are the steps that are kept, oldest first.
func (s *steps) all() []Step {
	return append(slices.Clone(s.ring[s.next:]), s.ring[:s.next]...)
}

// kept are the steps that are kept with their kernels, oldest first.
func (s *steps) kept() []*Step {
	all := slices.Clone(s.details)
	if s.slowest != nil && !slices.Contains(all, s.slowest) {
		all = append(all, s.slowest)
	}
	slices.SortFunc(all, func(a, b *Step) int { return cmp.Compare(a.Start, b.Start) })
	return all
}

// sketches are the wall times of steps of one set, minute by minute.
type sketches struct {
	minutes [minutes]sketch
}

// A sketch counts steps by wall time in buckets that grow by 2%: buckets low, low+1, …
type sketch struct {
	minute int64
	low    int
	counts []uint32
}

func (q *sketches) add(now time.Time, wall uint64) {
	minute := now.Unix() / 60
	s := &q.minutes[minute%minutes]
	if s.minute != minute {
		*s = sketch{minute: minute, counts: s.counts[:0]}
	}
	s.add(bucketOf(wall), 1)
}

// bucketOf is the bucket of a wall time in ns.
func bucketOf(wall uint64) int {
	if wall <= smallest {
		return 0
	}
	return min(int(math.Ceil(math.Log(float64(wall)/smallest)/logGrowth)), maxBuckets-1)
}

// middle is a wall time of a bucket, ns: none of the bucket is further from it than 1%.
func middle(bucket int) float64 {
	return smallest * math.Pow(growth, float64(bucket)-0.5)
}

func (s *sketch) add(bucket int, n uint32) {
	switch {
	case len(s.counts) == 0:
		s.low = bucket
	case bucket < s.low:
		s.counts = slices.Insert(s.counts, 0, make([]uint32, s.low-bucket)...)
		s.low = bucket
	}
	for bucket-s.low >= len(s.counts) {
		s.counts = append(s.counts, 0)
	}
	s.counts[bucket-s.low] += n
}

// between is the sum of the sketches of the minutes from, from+1, … up to before to.
func (q *sketches) between(from, to int64) (sum sketch, n uint64) {
	for i := range q.minutes {
		s := &q.minutes[i]
		if s.minute < from || s.minute >= to {
			continue
		}
		for j, c := range s.counts {
			if c > 0 {
				sum.add(s.low+j, c)
				n += uint64(c)
			}
		}
	}
	return sum, n
}

// quantile is a wall time in ns that a part q of the steps does not exceed, to 1%; 0 of no steps.
func (s *sketch) quantile(q float64) float64 {
	var n, sum uint64
	for _, c := range s.counts {
		n += uint64(c)
	}
	rank := uint64(math.Ceil(q * float64(n)))
	for i, c := range s.counts {
		if sum += uint64(c); c > 0 && sum >= max(rank, 1) {
			return middle(s.low + i)
		}
	}
	return 0
}
