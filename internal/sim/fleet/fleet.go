// Package fleet lets ranks run programs on their GPUs, and meet: it works out when each kernel
// runs.
//
// Times are of one true clock, in ns and multiples of a tick. A rank enters a meeting when its own
// work is done, and all leave together when the last has arrived and the work of the meeting is
// done.
package fleet

import (
	"math/rand/v2"
	"time"

	"github.com/kernhes/kernhes/internal/sim/fault"
	"github.com/kernhes/kernhes/internal/sim/program"
)

const tick = program.Tick

// Times of host and GPU, in ns.
const (
	graphGap  = 13 * tick  // between kernels of a graph, without jitter: the median of the recordings
	launchGap = 44 * tick  // between launches of an eager program
	latency   = 125 * tick // from a launch to its kernel's start
	upload    = 3000 * tick
)

// A Job is one step of one rank.
type Job struct {
	Rank    int
	Program *program.Program
	Batch   program.Batch
	After   int64 // no earlier
}

// A Span is one kernel as it ran; Kernel is nil for one outside any step.
type Span struct {
	Kernel     *program.Kernel
	Index      int // among the program's launches
	Start, End int64
}

// A Step is one job as it ran.
type Step struct {
	Job
	Seq      uint64
	Push     int64   // when the engine began to issue it
	Pop      int64   // when it had
	Launches []int64 // of an eager program, by kernel; of a graph, one
	Copy     Span    // of its input to the device
	Spans    []Span  // in order of launch
	Foreign  []Span  // kernels of this process on the card that are not the step's
	Peer     []Span  // copies from peers
	Hung     bool    // a kernel does not end: the last of Spans has no end
}

// Start and End of a step: the first kernel's start, and the latest end.
func (s *Step) Start() int64 { return s.Spans[0].Start }

// End is the latest end of a kernel.
func (s *Step) End() (end int64) {
	for i := range s.Spans {
		end = max(end, s.Spans[i].End)
	}
	return end
}

// A Fleet is all ranks. It is not safe for concurrent use.
type Fleet struct {
	Layout   program.Layout
	Schedule fault.Schedule
	Jitter   float64 // how much times vary: 1 as in the recordings, 0 not at all
	Skew     float64 // how much the load of experts differs between ranks and layers, relative
	Zero     int64   // true ns at which the schedule begins
	Gap      int64   // host's time between two steps, ns

	seed     uint64
	ranks    []*rank
	loads    map[load]float64
	moved    uint64 // rearrangements of experts
	meetings []*Meeting
}

type load struct{ rank, layer int }

// A rank is one GPU with its engine's thread.
type rank struct {
	id    int
	rng   *rand.Rand
	free  int64 // when the main stream is
	side  int64 // when the side stream is
	host  int64 // when the engine may begin the next step
	extra map[string]int64
	dead  bool

	step  *Step
	next  int    // kernel
	met   [4]int // meetings of the step, by kind
	waits bool   // in one
}

// New is a fleet whose GPUs are idle from a time on.
func New(l program.Layout, seed uint64, zero int64) *Fleet {
	f := &Fleet{Layout: l, Zero: zero, Jitter: 1, Skew: 0.08, Gap: 9000 * tick, seed: seed, loads: map[load]float64{}}
	for r := range l.Ranks() {
		f.ranks = append(f.ranks, &rank{id: r, rng: rand.New(rand.NewPCG(seed, uint64(r)+1)), free: zero, side: zero, host: zero, extra: map[string]int64{}})
	}
	return f
}

// at is a true time on the schedule's clock.
func (f *Fleet) at(t int64) time.Duration { return time.Duration(t - f.Zero) }

// Ready is when the last rank that lives may begin its next step.
func (f *Fleet) Ready() (t int64) {
	for _, r := range f.ranks {
		if !r.dead {
			t = max(t, r.host)
		}
	}
	return t
}

// First is when the first stage may begin its next step; later ones follow.
func (f *Fleet) First() (t int64) {
	for _, r := range f.ranks {
		if !r.dead && f.Layout.Stage(r.id) == 0 {
			t = max(t, r.host)
		}
	}
	return t
}

// Alive reports whether every rank lives.
func (f *Fleet) Alive() bool {
	for _, r := range f.ranks {
		if r.dead {
			return false
		}
	}
	return true
}

// Run runs one step on each rank, and returns them by rank, with their meetings in the order in
// which they ended. Where a rank never arrives, those that wait for it hang.
func (f *Fleet) Run(seq uint64, jobs []Job) ([]*Step, []*Meeting) {
	f.meetings = nil
	steps := make([]*Step, len(jobs))
	waiting := map[group]*Meeting{}
	for i, j := range jobs {
		steps[i] = f.begin(f.ranks[j.Rank], seq, j)
	}
	for moved := true; moved; {
		moved = false
		for _, r := range f.ranks {
			for r.step != nil && !r.waits && f.advance(r, waiting) {
				moved = true
			}
		}
	}
	for _, r := range f.ranks {
		if r.step != nil { // it waits for one that does not come
			r.step.Hung, r.step, r.dead = true, nil, true
		}
	}
	return steps, f.meetings
}

// ticks is a duration in ns in whole ticks, one at least.
func ticks(ns float64) int64 { return max(1, int64(ns/tick+0.5)) * tick }
