// Package sample chooses the steps that are written as traces.
//
//	           one in N by trace id, slow, asked for, or of a chosen trace
//	offered ──────────────────────────────────────────────────────────────▶ chosen ──▶ picked
//	   │                                                                       │
//	   └──▶ kept for 2 s ──▶ forgotten                                         └──▶ turned away, counted
//	             │                                                                  (over the budget of spans)
//	             └── another rank's step of its trace is chosen ──▶ picked
package sample

import (
	"encoding/binary"
	"sync"
	"time"
)

// A Why is why a step was chosen.
type Why string

// Reasons, as users see them.
const (
	Ratio  Why = "ratio"  // one in N by trace id
	Slow   Why = "slow"   // it, or another rank's step of its trace
	Demand Why = "demand" // someone asked
)

// A Config says what is chosen.
type Config struct {
	OneIn     uint64        // traces of which one is chosen; 0: none
	Slow      float64       // a step is slow above this many times the running median; 0: none is
	Keep      time.Duration // how long steps that are not chosen are kept
	KeepBytes int           // and at most how much of them
	Spans     int           // budget a second
}

// A Candidate is a final step as far as the choice needs it.
type Candidate[T any] struct {
	Trace   [16]byte
	Run     uint64 // hash
	Series  uint64 // hash of what Wall is compared within
	Seq     uint64
	Rank    int64
	Wall    uint64 // ns; 0: it says nothing, because the step is not complete
	Kernels int
	Bytes   int // memory, if it is kept
	Item    T
}

// spans is how many spans the candidate surely needs: itself and its kernels.
func (c *Candidate[T]) spans() int { return 1 + c.Kernels }

// A Pick is a step to be written. Spans are taken off the budget already; Spent takes the rest.
type Pick[T any] struct {
	Item  T
	Why   Why
	Spans int
}

// Counts are of steps, since the sampler was made.
type Counts struct {
	Away      uint64 // chosen, but over the budget
	Forgotten uint64 // let go before Keep was over, for lack of room
}

// remembered is how long the verdict on a trace holds for other ranks' steps: as long as they may take to close.
const remembered = 10 * time.Second

// maxVerdicts bounds those: at the default budget and some 1,000 spans a step, 10 s have 100.
const maxVerdicts = 4096

// A verdict is what was decided on a trace when its first step was chosen.
type verdict struct {
	why   Why
	away  bool
	until time.Time
}

// A Sampler chooses among the steps of all sessions. It is safe for concurrent use.
type Sampler[T any] struct {
	mu       sync.Mutex
	cfg      Config
	counts   Counts
	budget   budget
	medians  medians
	kept     kept[T]
	verdicts map[[16]byte]verdict
	order    [][16]byte // of verdicts, oldest first
	demands  []*Request
	ranks    map[rankKey]rankSeen // the last step of each
}

// New returns a Sampler.
func New[T any](cfg Config) *Sampler[T] {
	return &Sampler[T]{
		cfg: cfg, budget: newBudget(cfg.Spans), medians: medians{}, verdicts: map[[16]byte]verdict{}, ranks: map[rankKey]rankSeen{},
		kept: kept[T]{limit: cfg.KeepBytes},
	}
}

// Counts are the counts so far.
func (s *Sampler[T]) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// Offer takes a final step and appends to picks those that are to be written now: it, those of its trace, or none.
func (s *Sampler[T]) Offer(c Candidate[T], now time.Time, picks []Pick[T]) []Pick[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saw(&c, now)
	picks = s.offer(c, now, picks)
	for _, r := range s.demands {
		s.settle(r, now)
	}
	return picks
}

func (s *Sampler[T]) offer(c Candidate[T], now time.Time, picks []Pick[T]) []Pick[T] {
	s.expire(now)
	slow := s.cfg.Slow > 0 && c.Wall > 0 && s.medians.slow(c.Series, c.Wall, s.cfg.Slow)
	asking := s.asking(&c)
	v, known := s.verdicts[c.Trace]
	switch {
	case len(asking) > 0:
		return s.pick(&c, verdict{why: Demand}, known && !v.away, asking, now, picks)
	case known:
		return s.pick(&c, v, true, nil, now, picks)
	case s.ratio(c.Trace):
		return s.pick(&c, verdict{why: Ratio}, false, nil, now, picks)
	case slow:
		return s.pick(&c, verdict{why: Slow}, false, nil, now, picks)
	}
	s.counts.Forgotten += s.kept.add(c, now)
	return picks
}

// pick picks a chosen step if the budget allows, and the kept steps of its trace if it is the first of that to be chosen:
// known says that it is not. A trace whose first step is turned away is turned away whole.
func (s *Sampler[T]) pick(c *Candidate[T], v verdict, known bool, asking []*Request, now time.Time, picks []Pick[T]) []Pick[T] {
	v.until = now.Add(remembered)
	if v.away || !s.budget.take(c.spans(), known, now) {
		s.counts.Away++
		for _, r := range asking {
			if wants(r, c) {
				r.got.Away++
			}
		}
		if !known && len(asking) == 0 {
			v.away = true
			s.decide(c.Trace, v)
		}
		return picks
	}
	picks = append(picks, Pick[T]{c.Item, v.why, c.spans()})
	all := len(asking) == 0 // ranks are wanted
	for _, r := range asking {
		if wants(r, c) {
			r.take(Taken{c.Trace, c.Seq, c.Rank}, c.Run)
		}
		all = all || r.ask.Rank == nil
	}
	if known || !all {
		return picks
	}
	s.decide(c.Trace, v)
	return s.pull(c.Trace, v.why, asking, now, picks)
}

// pull picks the kept steps of a trace that is decided on.
func (s *Sampler[T]) pull(trace [16]byte, why Why, asking []*Request, now time.Time, picks []Pick[T]) []Pick[T] {
	for k := range s.kept.all {
		if k.Trace == trace {
			c := k.Candidate
			s.kept.drop(k)
			picks = s.pick(&c, verdict{why: why}, true, asking, now, picks)
		}
	}
	return picks
}

// Spent takes spans off the budget that a pick needed beyond its estimate.
func (s *Sampler[T]) Spent(spans int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.budget.left -= float64(spans)
}

// ratio reports whether a trace is one of those that are chosen by their ids: by the 56 bits that W3C and OpenTelemetry
// take to be random, and as OpenTelemetry's probability sampling takes them.
func (s *Sampler[T]) ratio(trace [16]byte) bool {
	const values = 1 << 56
	if s.cfg.OneIn == 0 {
		return false
	}
	random := binary.BigEndian.Uint64(trace[8:]) % values
	return random >= values-values/s.cfg.OneIn
}

// decide remembers the verdict on a trace.
func (s *Sampler[T]) decide(trace [16]byte, v verdict) {
	if _, ok := s.verdicts[trace]; !ok {
		s.order = append(s.order, trace)
	}
	s.verdicts[trace] = v
}

// expire forgets verdicts and kept steps whose time is over.
func (s *Sampler[T]) expire(now time.Time) {
	n := 0
	for n < len(s.order) && (len(s.order)-n > maxVerdicts || now.After(s.verdicts[s.order[n]].until)) {
		delete(s.verdicts, s.order[n])
		n++
	}
	if n > 0 {
		s.order = append(s.order[:0], s.order[n:]...)
	}
	s.kept.expire(now.Add(-s.cfg.Keep))
}
