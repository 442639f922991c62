package sample

import (
	"errors"
	"maps"
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
	Done   chan struct{} // closed once all traces were begun, and no rank's step of them is still to come
	ask    Ask
	left   int // traces not begun; below 0 where several runs have a seq
	begun  []begun
	got    Got
	closed bool
}

// A begun is a trace that was begun for a request.
type begun struct {
	trace [16]byte
	run   uint64
	seq   uint64
}

// A Got is what became of a request.
type Got struct {
	Taken   []Taken // in the order in which they were chosen
	Missing []Taken // steps of other live ranks of those traces that did not come
	Away    int     // steps that the budget turned away
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
	s.settle(r, now)
	return r, picks, nil
}

// End ends a request and returns what became of it. Other ranks' steps of its traces may still come, and are written.
func (s *Sampler[T]) End(r *Request, now time.Time) Got {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range r.begun {
		s.missing(r, b, now, func(rank int64, _ bool) { r.got.Missing = append(r.got.Missing, Taken{b.trace, b.seq, rank}) })
	}
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
func (r *Request) take(t Taken, run uint64) {
	if !r.has(t.Trace) {
		r.left--
		r.begun = append(r.begun, begun{t.Trace, run, t.Seq})
	}
	r.got.Taken = append(r.got.Taken, t)
}

// A rankKey is a rank of a run.
type rankKey struct {
	run  uint64
	rank int64
}

// A rankSeen is the last step of a rank.
type rankSeen struct {
	seq uint64
	at  time.Time
}

// maxRanks bounds the ranks whose last steps are known; when there are more, those without a step for longest are forgotten.
const maxRanks = 4096

// unpaired is the first seq of steps that pair with no other rank's.
const unpaired = 1 << 62

// saw takes note of a rank's step.
func (s *Sampler[T]) saw(c *Candidate[T], now time.Time) {
	if c.Seq >= unpaired {
		return
	}
	key := rankKey{c.Run, c.Rank}
	if _, known := s.ranks[key]; !known && len(s.ranks) >= maxRanks {
		maps.DeleteFunc(s.ranks, func(_ rankKey, r rankSeen) bool { return now.Sub(r.at) > remembered })
		if len(s.ranks) >= maxRanks {
			clear(s.ranks)
		}
	}
	s.ranks[key] = rankSeen{c.Seq, now}
}

// missing calls f with each live rank whose step of a trace did not come, in order, and whether it is still to come: ranks close
// their steps in order.
func (s *Sampler[T]) missing(r *Request, b begun, now time.Time, f func(rank int64, toCome bool)) {
	if r.ask.Rank != nil || b.seq >= unpaired {
		return
	}
	var ranks []int64
	for key, seen := range s.ranks {
		if key.run == b.run && now.Sub(seen.at) <= remembered &&
			!slices.ContainsFunc(r.got.Taken, func(t Taken) bool { return t.Trace == b.trace && t.Rank == key.rank }) {
			ranks = append(ranks, key.rank)
		}
	}
	slices.Sort(ranks)
	for _, rank := range ranks {
		f(rank, s.ranks[rankKey{b.run, rank}].seq < b.seq)
	}
}

// Settle closes the request's Done if nothing more of it is to come.
func (s *Sampler[T]) Settle(r *Request, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle(r, now)
}

func (s *Sampler[T]) settle(r *Request, now time.Time) {
	if r.closed || r.left > 0 {
		return
	}
	wait := false
	for _, b := range r.begun {
		s.missing(r, b, now, func(_ int64, toCome bool) { wait = wait || toCome })
	}
	if !wait {
		r.closed = true
		close(r.Done)
	}
}
