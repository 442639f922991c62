package sample

import (
	"errors"
	"slices"
	"time"
)

// Bounds of what may be asked for at once.
const (
	MaxSteps    = 1000
	maxRequests = 16
)

// ErrBusy says that too many requests wait already.
var ErrBusy = errors.New("too many requests for traces wait")

// An Ask is what someone wants to see: the next steps, or those from a seq on; of all ranks, or of one.
type Ask struct {
	Steps int     // traces, at least 1 and at most MaxSteps
	Seq   *uint64 // nil: whatever comes next
	Rank  *int64  // nil: all
}

// A Request is an Ask that waits for its steps.
type Request struct {
	Done chan struct{} // closed once all traces were begun
	ask  Ask
	left int // traces not begun; below 0 where several runs have a seq
	got  Got
}

// A Got is what became of a request.
type Got struct {
	Taken []Taken // in the order in which they were chosen
	Away  int     // steps that the budget turned away
}

// A Taken is a step that was chosen on request.
type Taken struct {
	Trace [16]byte
	Seq   uint64
	Rank  int64
}

// Ask begins a request, to be given to End. Steps that are kept and fit a seq are appended to picks.
func (s *Sampler[T]) Ask(a Ask, now time.Time, picks []Pick[T]) (*Request, []Pick[T], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.demands) >= maxRequests {
		return nil, picks, ErrBusy
	}
	r := &Request{Done: make(chan struct{}), ask: a, left: a.Steps}
	s.demands = append(s.demands, r)
	if a.Seq == nil {
		return r, picks, nil
	}
	s.expire(now)
	for k := range s.kept.all {
		if c := k.Candidate; wants(r, &c) {
			s.kept.drop(k)
			v, known := s.verdicts[c.Trace]
			picks = s.pick(&c, verdict{why: Demand}, known && !v.away, []*Request{r}, now, picks)
		}
	}
	return r, picks, nil
}

// End ends a request and returns what became of it. Other ranks' steps of its traces may still come, and are written.
func (s *Sampler[T]) End(r *Request) Got {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.demands = slices.DeleteFunc(s.demands, func(d *Request) bool { return d == r })
	return r.got
}

// asking are the requests that want a step.
func (s *Sampler[T]) asking(c *Candidate[T]) (asking []*Request) {
	for _, r := range s.demands {
		if wants(r, c) {
			asking = append(asking, r)
		}
	}
	return asking
}

// wants reports whether a step is one of those that were asked for.
func wants[T any](r *Request, c *Candidate[T]) bool {
	if r.ask.Rank != nil && *r.ask.Rank != c.Rank {
		return false
	}
	if seq := r.ask.Seq; seq != nil {
		return c.Seq >= *seq && c.Seq-*seq < uint64(r.ask.Steps)
	}
	return r.left > 0 || r.has(c.Trace)
}

// has reports whether a trace was begun for the request.
func (r *Request) has(trace [16]byte) bool {
	return slices.ContainsFunc(r.got.Taken, func(t Taken) bool { return t.Trace == trace })
}

// take notes a step that was chosen for the request.
func (r *Request) take(t Taken) {
	if !r.has(t.Trace) {
		r.left--
		if r.left == 0 {
			close(r.Done)
		}
	}
	r.got.Taken = append(r.got.Taken, t)
}
