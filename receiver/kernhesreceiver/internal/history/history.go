// Package history turns counters and steps of ranks into the last 15 minutes of each run.
//
// It is what the live page draws. All of it is bounded: Limits has the numbers.
package history

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// Limits of what is remembered. At 64 ranks all of it takes less than 20 MB.
const (
	Span    = 15 * time.Minute // how far back
	Tick    = 5 * time.Second  // length of a bin of a rank's strip, and how often Observe should be called
	Bins    = int(Span / Tick)
	maxRuns = 16  // a new run takes the place of the one that was heard least recently
	maxRank = 256 // ranks of a run; others are counted in Run.Beyond
	maxSets = 64  // label sets (program, batch, kv) of a run; other steps are of the set "other"
)

// A Key names a rank: of an engine process that was started once, on one device.
type Key struct {
	Run  string
	Rank int64
}

// A Set is what makes steps comparable: equal program and buckets of batch and kv, as metrics label them.
type Set struct {
	Program string `json:"program"`
	Batch   string `json:"batch"`
	KV      string `json:"kv"`
}

// other is the set of steps beyond maxSets.
var other = Set{"other", "other", "other"}

// Counters are the sums of a rank at one time. They only grow, but for a restart of the receiver.
type Counters struct {
	Compute, Comm, Idle, Unknown uint64 // ns of device time by kind
	Untraced                     uint64 // ns of Unknown: outside windows, yielded or off
	Overlap, Copy, Foreign       uint64 // ns
	Cost                         uint64 // ns: what tracing cost the engine
	Wait, Blame                  uint64 // ns: that the rank waited for others, and they for it; 0 without the connector kernwaits
	Steps, Incomplete, Dropped   uint64
}

// sub is c less d, 0 where that is negative.
func (c Counters) sub(d Counters) Counters {
	less := func(a, b uint64) uint64 { return a - min(a, b) }
	return Counters{
		less(c.Compute, d.Compute), less(c.Comm, d.Comm), less(c.Idle, d.Idle), less(c.Unknown, d.Unknown), less(c.Untraced, d.Untraced),
		less(c.Overlap, d.Overlap), less(c.Copy, d.Copy), less(c.Foreign, d.Foreign),
		less(c.Cost, d.Cost), less(c.Wait, d.Wait), less(c.Blame, d.Blame), less(c.Steps, d.Steps), less(c.Incomplete, d.Incomplete), less(c.Dropped, d.Dropped),
	}
}

// All is the device time, ns.
func (c Counters) All() uint64 { return c.Compute + c.Comm + c.Idle + c.Unknown }

// Sums are the steps of one set on one rank at one time.
type Sums struct{ Steps, Wall, Compute uint64 } // Wall and Compute in ns

// A Reading is what a rank says at one time.
type Reading struct {
	Key
	PID, Host, GPU, Model, Engine, Mode string
	Tracing                             bool
	Down                                string // why it is not heard: silent, hung, gone, ended; empty: it is heard
	LastStep                            uint64 // unix ns of the end of the last step; 0: none yet
	Counters                            Counters
	Sets                                map[Set]Sums
	Waits                               map[string]Wait // by cause; nil: nothing compares the ranks
}

// A Wait is cumulative, ns: what the rank waited for others, and what they waited for it.
type Wait struct{ Wait, Blame uint64 }

// A History is safe for concurrent use.
type History struct {
	mu   sync.Mutex
	runs map[string]*run
}

// New returns a History in which nothing has happened.
func New() *History { return &History{runs: map[string]*run{}} }

// A run is what is remembered of a run.
type run struct {
	name   string
	heard  time.Time
	ranks  map[int64]*rank
	beyond uint64 // readings of ranks beyond maxRank
	sets   map[Set]*sketches
}

// A rank is what is remembered of a rank.
type rank struct {
	last  Reading
	heard time.Time
	bins  [Bins]bin // by time / Tick, modulo Bins
	past  []moment  // sums of sets: each 10 s of the last minute, each minute before
	steps steps
}

// A bin is what a rank did in one Tick.
type bin struct {
	tick int64 // unix time / Tick; another: it is of a past round
	Counters
}

// A moment is the sums at one time.
type moment struct {
	at       time.Time
	counters Counters
	sets     map[Set]Sums
	waits    map[string]Wait
}

// Observe takes what all known ranks say now. A rank that is missing has been forgotten by the receiver, or its
// engine has ended; its past stays until Span is over.
func (h *History) Observe(now time.Time, readings []Reading) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range readings {
		h.observe(now, &readings[i])
	}
	for name, r := range h.runs {
		if now.Sub(r.heard) > Span {
			delete(h.runs, name)
		}
	}
}

func (h *History) observe(now time.Time, r *Reading) {
	run := h.run(now, r.Run)
	k := run.ranks[r.Rank]
	if k == nil {
		if len(run.ranks) >= maxRank {
			run.beyond++
			return
		}
		k = &rank{}
		run.ranks[r.Rank] = k
	}
	restarted := k.last.PID != r.PID || k.last.Counters.All() > r.Counters.All()
	if len(k.past) > 0 && !restarted {
		d := r.Counters.sub(k.last.Counters)
		k.bin(now).add(d)
	} else {
		k.past = nil
	}
	k.last, k.heard = *r, now
	k.remember(moment{now, r.Counters, maps.Clone(r.Sets), maps.Clone(r.Waits)})
}

// run is the run with a name, which is heard now.
func (h *History) run(now time.Time, name string) *run {
	r := h.runs[name]
	if r == nil {
		if len(h.runs) >= maxRuns {
			oldest := slices.MinFunc(slices.Collect(maps.Values(h.runs)), func(a, b *run) int {
				return cmp.Or(a.heard.Compare(b.heard), cmp.Compare(a.name, b.name))
			})
			delete(h.runs, oldest.name)
		}
		r = &run{name: name, ranks: map[int64]*rank{}, sets: map[Set]*sketches{}}
		h.runs[name] = r
	}
	r.heard = now
	return r
}

// bin is the bin of a time.
func (k *rank) bin(now time.Time) *bin {
	tick := now.UnixNano() / int64(Tick)
	b := &k.bins[tick%int64(Bins)]
	if b.tick != tick {
		*b = bin{tick: tick}
	}
	return b
}

func (b *bin) add(d Counters) {
	b.Compute += d.Compute
	b.Comm += d.Comm
	b.Idle += d.Idle
	b.Unknown += d.Unknown
	b.Untraced += d.Untraced
	b.Overlap += d.Overlap
	b.Copy += d.Copy
	b.Foreign += d.Foreign
	b.Cost += d.Cost
	b.Wait += d.Wait
	b.Blame += d.Blame
	b.Steps += d.Steps
	b.Incomplete += d.Incomplete
	b.Dropped += d.Dropped
}

// remember keeps the sums of now, and thins those of before: one each 10 s for a minute and a half, one a minute before that.
func (k *rank) remember(m moment) {
	k.past = append(k.past, m)
	kept := k.past[:0]
	for i, p := range k.past {
		step := time.Minute
		if m.at.Sub(p.at) < 90*time.Second {
			step = 10 * time.Second
		}
		newest := i == len(k.past)-1
		if m.at.Sub(p.at) > Span+time.Minute || (!newest && len(kept) > 0 && p.at.Sub(kept[len(kept)-1].at) < step) {
			continue
		}
		kept = append(kept, p)
	}
	clear(k.past[len(kept):])
	k.past = kept
}

// before is the newest moment that is at least that old; nil: none is.
func (k *rank) before(now time.Time, age time.Duration) *moment {
	for i := len(k.past) - 1; i >= 0; i-- {
		if now.Sub(k.past[i].at) >= age {
			return &k.past[i]
		}
	}
	return nil
}
