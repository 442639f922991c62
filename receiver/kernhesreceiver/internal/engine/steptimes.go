package engine

import (
	"slices"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/ranges"
)

// A StepTime is what one step of a process in the mode windows took, traced or not.
type StepTime struct {
	Session            uint64
	Run                string
	Rank               int64  // of the process's first device
	Program, Batch, KV string // labels of the step's metrics
	Tokens, Context    int64  // tokens of the step, and of context a sequence; 0: not known
	NS                 uint64 // from its push to the next one's of its thread
	At                 uint64 // unix ns of its push
	Device             bool   // it is device time
	Traced             bool   // it lies in a window
	Cut                bool   // tracing began or ended meanwhile
}

// stepTimes are the last steps of a process's threads.
type stepTimes struct {
	threads map[uint32]*lastStep
	by      map[ranges.ID]uint32 // thread of the steps that are open
	edges   uint64               // times that tracing began or ended
	recent  [recentSteps]lastStep
	n       int // that were put into recent
}

// A lastStep is the last step of a thread.
type lastStep struct {
	id      ranges.ID
	info    ranges.Step
	begun   uint64
	popped  uint64 // 0: it is open, or its end was not seen
	edges   uint64
	traced  bool // when it was pushed
	cut     bool // tracing began or ended before its pop
	waiting bool // there is none before
	gaps    gaps
}

// Bounds of stepTimes.
const (
	maxStepThreads = 256
	recentSteps    = 128   // device time comes 64 steps late at most
	leastGap       = 400e3 // ns: an engine may always take so long between two steps
)

// pushed takes the push of a step that is not within another of its thread, and gives what the one before took. After a gap of more
// than four times the usual one the engine waited for requests: the step before took less, and how much is not known.
func (p *Process) stepPushed(id ranges.ID, info ranges.Step, thread uint32, at uint64) {
	if p.set.stepTimes == nil || p.mode != modeWindows {
		return
	}
	t := &p.times
	if t.threads == nil {
		t.threads, t.by = map[uint32]*lastStep{}, map[ranges.ID]uint32{}
	}
	last := t.threads[thread]
	if last == nil {
		if len(t.threads) >= maxStepThreads {
			clear(t.threads)
			clear(t.by)
		}
		last = &lastStep{waiting: true}
		t.threads[thread] = last
	}
	if _, open := t.by[last.id]; open && !last.waiting {
		return // within that
	}
	if !last.waiting && last.popped >= last.begun && at >= last.popped && at > last.begun {
		gap := at - last.popped
		if usual, known := last.gaps.usual(); known && gap <= max(4*usual, leastGap) {
			p.giveStepTime(last, StepTime{NS: at - last.begun, Traced: p.traces.on(), Cut: last.edges != t.edges})
		}
		last.gaps.add(gap)
	}
	last.id, last.info, last.begun, last.popped, last.edges, last.waiting = id, info, at, 0, t.edges, false
	last.traced, last.cut = p.traces.on(), false
	t.by[id] = thread
}

// gaps are what lay between the last steps of a thread, ns.
type gaps struct {
	last [15]uint64
	n    int
}

func (g *gaps) add(ns uint64) {
	g.last[g.n%len(g.last)] = ns
	g.n++
}

// usual is their median; false: there were too few.
func (g *gaps) usual() (ns uint64, known bool) {
	if g.n < len(g.last)/2 {
		return 0, false
	}
	sorted := g.last
	n := min(g.n, len(sorted))
	slices.Sort(sorted[:n])
	return sorted[n/2], true
}

// stepPopped takes the end of a step's range.
func (p *Process) stepPopped(id ranges.ID, at uint64) {
	thread, ok := p.times.by[id]
	if !ok {
		return
	}
	delete(p.times.by, id)
	if last := p.times.threads[thread]; last != nil && last.id == id {
		last.popped, last.cut = at, last.edges != p.times.edges
		p.times.recent[p.times.n%recentSteps] = *last
		p.times.n++
	}
}

// giveStepTime hands on what a step took, in the mode windows and once the process has a run and a rank.
func (p *Process) giveStepTime(s *lastStep, took StepTime) {
	if !p.who.settled || p.main == nil || p.mode != modeWindows {
		return
	}
	labels := p.set.labels(&s.info)
	seqs := max(s.info.Seqs, 1)
	took.Session, took.Run, took.Rank, took.At = p.session, p.info["run"], p.main.rank, s.begun
	took.Program, took.Batch, took.KV = labels.program, labels.batch, labels.kv
	took.Tokens, took.Context = max(s.info.Tokens, s.info.Seqs), (s.info.KV+seqs-1)/seqs
	p.set.stepTimes(took)
}

// stepMeasured takes the time of a step on the device, by the engine's own measure, ns. A step that is still open is left out.
func (p *Process) stepMeasured(id ranges.ID, ns uint64) {
	t := &p.times
	for i := range min(t.n, recentSteps) {
		if s := &t.recent[(t.n-1-i)%recentSteps]; s.id == id {
			p.giveStepTime(s, StepTime{NS: ns, Device: true, Traced: s.traced, Cut: s.cut})
			return
		}
	}
}
