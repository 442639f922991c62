package windows

import (
	"slices"
	"time"
)

// Figures are pooled over an hour, in parts: each part is forgotten when it is an hour old.
const (
	pooled   = time.Hour
	parts    = 12
	partTime = pooled / parts
)

// Least steps of a bucket inside and outside windows before they are compared, and the most that one step counts, in means of its
// bucket: a step that waited for a request is none of tracing's.
const (
	leastSteps = 5
	mostMeans  = 4
)

// maxBuckets bounds the buckets of a part.
const maxBuckets = 512

// sums are of steps that were not cut.
type sums struct {
	n    float64
	took float64 // seconds
}

func (s *sums) add(seconds float64) {
	if s.n >= leastSteps {
		seconds = min(seconds, mostMeans*s.took/s.n)
	}
	s.n++
	s.took += seconds
}

// inOut are the steps of a bucket of a rank, inside windows and outside.
type inOut struct{ in, out sums }

// A costKey is steps that are compared with each other.
type costKey struct {
	rank   int64
	bucket Bucket
}

// A costPart is five minutes.
type costPart struct {
	number int64 // of the five minutes, since 1970
	steps  map[costKey]*inOut
	edges  float64       // windows whose holds were counted, over all ranks
	held   time.Duration // for which those held their engines
}

// A cost is what the windows of a run cost its steps.
type cost struct{ parts []costPart }

// part is the five minutes of a time.
func (c *cost) part(at time.Time) *costPart {
	number := at.UnixNano() / int64(partTime)
	c.parts = slices.DeleteFunc(c.parts, func(p costPart) bool { return p.number <= number-parts })
	for i := range c.parts {
		if c.parts[i].number == number {
			return &c.parts[i]
		}
	}
	c.parts = append(c.parts, costPart{number: number, steps: map[costKey]*inOut{}})
	return &c.parts[len(c.parts)-1]
}

// step takes a step.
func (c *cost) step(s *Step) {
	p, key := c.part(s.At), costKey{s.Rank, s.Bucket}
	io := p.steps[key]
	if io == nil {
		if len(p.steps) >= maxBuckets {
			return
		}
		io = &inOut{}
		p.steps[key] = io
	}
	if s.Traced {
		io.in.add(s.Took.Seconds())
	} else {
		io.out.add(s.Took.Seconds())
	}
}

// hold takes the time for which the edges of windows held an engine.
func (c *cost) hold(at time.Time, windows uint64, held time.Duration) {
	p := c.part(at)
	p.edges += float64(windows)
	p.held += held
}

// A Cost is what windows cost in the last hour.
type Cost struct {
	Slowdown float64       // of a step in a window, as a share of a step outside; if it was not measured, what is taken for it
	Measured bool          // buckets had enough steps
	Held     time.Duration // per window: for which its edges held an engine, by mean
	Share    float64       // of all step time that windows cost, holds counted in; 0 while nothing was measured
}

// sum compares steps inside windows with those outside, within equal buckets of a rank.
func (c *cost) sum() Cost {
	all := map[costKey]*inOut{}
	r := Cost{Slowdown: firstSlowdown}
	var edges, total, inside float64
	var held time.Duration
	for i := range c.parts {
		p := &c.parts[i]
		edges, held = edges+p.edges, held+p.held
		for key, io := range p.steps {
			sum := all[key]
			if sum == nil {
				sum = &inOut{}
				all[key] = sum
			}
			sum.in.n, sum.in.took = sum.in.n+io.in.n, sum.in.took+io.in.took
			sum.out.n, sum.out.took = sum.out.n+io.out.n, sum.out.took+io.out.took
		}
	}
	var took, would float64 // of steps in windows: what they took, and what they would have taken outside
	for _, io := range all {
		total += io.in.took + io.out.took
		inside += io.in.took
		if io.in.n >= leastSteps && io.out.n >= leastSteps {
			took += io.in.took
			would += io.in.n * io.out.took / io.out.n
		}
	}
	if edges > 0 {
		r.Held = held / time.Duration(edges)
	}
	if would > 0 {
		r.Slowdown, r.Measured = max(0, took/would-1), true
	}
	if r.Measured && total > 0 {
		r.Share = (inside*r.Slowdown/(1+r.Slowdown) + held.Seconds()) / total
	}
	return r
}
