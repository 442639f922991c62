// Package pairing finds the ranks that meet in a call, out of the steps of all ranks of a run.
//
//	Add ──▶ lane: steps by seq ──all ranks there, or too late──▶ settle ──▶ groups ──align──▶ meetings ──▶ Sink
//
// Ranks meet in the n-th call of a group in a step of one seq. Whether they really do shows in the ends of their calls: ranks
// leave a meeting together, so the ends differ by what the clocks differ, the same in all calls of a step and nearly the same
// in the next step.
package pairing

import (
	"cmp"
	"slices"
	"time"

	"github.com/kernhes/kernhes/internal/digest"
)

// Bounds, and times.
const (
	maxRuns     = 64
	maxLanes    = 64               // of a run: occurrences of one seq
	maxRanks    = 1 << 17          // of a run, 1.3 KB each; further ones are not compared
	maxGroups   = 1 << 17          // of a run; calls of further ones count as of a group that is not known
	joinDelay   = 3 * time.Second  // a run's ranks are known when none has been new for so long: chunks are a second long
	forgetAfter = 10 * time.Minute // a run that nothing comes of is forgotten
	leaveAfter  = time.Minute      // a rank that nothing comes of is no member of a group any more, while the others go on
	window      = 64               // a rank that is so many steps ahead has no step behind to come
	laneBit     = 48               // seq has the occurrence above this: internal/chunk
)

// An Outcome is what became of a call.
type Outcome uint8

// Outcomes.
const (
	Compared Outcome = iota
	NotComparable
	Alone
	MissingRank
	Incomplete
	Unpaired
	Diverged
	Unmatched
	Outcomes // how many there are
)

// A Reason is why a rank was missing, or a step was dropped.
type Reason uint8

// Reasons.
const (
	Absent Reason = iota
	IncompleteStep
	Late
	Memory
	Duplicate
	Reasons // how many there are
)

// Settings are what a user may set.
type Settings struct {
	Wait     time.Duration // that a step waits for other ranks
	MaxBytes int           // of steps that wait
}

// A Source is whose steps come.
type Source struct {
	Run, Host, Model string
	Rank             int64
}

// A Run is one start of an engine.
type Run struct {
	Name, Model string
	Begun       time.Time

	ranks  map[int64]*Rank
	order  []*Rank // by number
	groups map[string]*Group
	lanes  map[int64]*lane
	joined time.Time // when the newest rank came
	heard  time.Time
}

// A Rank is one rank of a run.
type Rank struct {
	Run   *Run
	ID    int64
	Index int // 0, 1, 2, … in the order in which the ranks of the run came
	Host  string

	heard  time.Time
	recent [256]int64      // seqs that came, plus 1, by seq modulo their number
	home   *Group          // of calls whose group is not known
	trial  trial           // whether it belongs to another
	seats  []seat          // groups that it takes part in, of the seq that is settled
	newest map[int64]int64 // greatest seq, by lane
}

// A Sink takes what is settled. What is lent is valid during the call.
type Sink interface {
	// Step tells of a complete step, before the meetings of it. The steps of a rank come in order of seq.
	Step(r *Rank, s *digest.Step)
	// Together tells of the steps of the ranks of a group in one seq, before their meetings.
	Together(g *Group, seats []Seat)
	// Meeting tells of a meeting. Those of a rank come in the order in which it had them.
	Meeting(m *Meeting)
	// Calls counts calls of a rank by what became of them.
	Calls(r *Rank, o Outcome, n int)
	// Missing tells that calls of other ranks were not compared because this rank has none in the step.
	Missing(r *Rank, why Reason)
	// Dropped tells that a step of a rank was not compared at all.
	Dropped(r *Rank, why Reason)
}

// A Meeting is one call of the ranks of a group.
type Meeting struct {
	Group    *Group
	Seq      int64
	Nth      int
	Seats    []Seat
	Shortest uint64 // ns: the transfer
	Last     int    // the seat that arrived last: of equal ones the lowest rank
}

// A Seat is the part of one rank in the meetings of a group in one step.
type Seat struct {
	Rank  *Rank
	Step  *digest.Step
	Sites []int // of its shape: the n-th is that of the n-th meeting
}

// Call is the n-th call.
func (s *Seat) Call(n int) *digest.Call { return &s.Step.Calls[s.Sites[n]] }

// Site is that of the n-th call.
func (s *Seat) Site(n int) *digest.Site { return &s.Step.Shape.Sites[s.Sites[n]] }

// Wait is how long a seat waited, in ns.
func (m *Meeting) Wait(i int) uint64 { return m.Seats[i].Call(m.Nth).Dur - m.Shortest }

// A lane is the steps of a run that wait, of seqs that have one occurrence.
type lane struct {
	waiting []*gathering // by seq
	settled int64        // greatest seq that is settled
	any     bool         // one is
}

// A gathering is the steps of one seq that came so far.
type gathering struct {
	seq   int64
	first time.Time
	steps []entry
}

type entry struct {
	rank *Rank
	step *digest.Step
}

// A Comparer compares the ranks of all runs. It is not safe for concurrent use.
type Comparer struct {
	set   Settings
	sink  Sink
	runs  map[string]*Run
	bytes int
	steps int
	work  settling
}

// New returns a Comparer that knows no run.
func New(set Settings, sink Sink) *Comparer {
	return &Comparer{set: set, sink: sink, runs: map[string]*Run{}}
}

// Pending is how many steps wait, and their memory in bytes, as estimated.
func (c *Comparer) Pending() (steps, bytes int) { return c.steps, c.bytes }

// Runs are the runs that are known, by name.
func (c *Comparer) Runs() (all []*Run) {
	for _, r := range c.runs {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *Run) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Ranks are the ranks of a run, by number.
func (r *Run) Ranks() []*Rank { return r.order }

// Rank is a rank of a run, which is made if need be; nil: there are too many.
func (c *Comparer) Rank(from Source, now time.Time) *Rank {
	run := c.runs[from.Run]
	if run == nil {
		for len(c.runs) >= maxRuns {
			c.forgetOldest()
		}
		run = &Run{Name: from.Run, Model: from.Model, Begun: now, ranks: map[int64]*Rank{}, groups: map[string]*Group{}, lanes: map[int64]*lane{}}
		c.runs[from.Run] = run
	}
	run.heard = now
	r := run.ranks[from.Rank]
	if r == nil && len(run.order) >= maxRanks {
		return nil
	}
	if r == nil {
		r = &Rank{Run: run, ID: from.Rank, Index: len(run.order), newest: map[int64]int64{}}
		run.ranks[from.Rank] = r
		run.order = append(run.order, r)
		slices.SortFunc(run.order, func(a, b *Rank) int { return cmp.Compare(a.ID, b.ID) })
		run.joined = now
	}
	r.heard, r.Host = now, from.Host
	return r
}

// Add takes a step of a rank.
func (c *Comparer) Add(r *Rank, s *digest.Step, now time.Time) {
	if !s.Pairs {
		c.sink.Calls(r, Unpaired, len(s.Calls))
		return
	}
	slot := &r.recent[uint64(s.Seq)%uint64(len(r.recent))]
	if *slot == s.Seq+1 {
		c.sink.Dropped(r, Duplicate)
		return
	}
	*slot = s.Seq + 1
	number := s.Seq >> laneBit
	l := r.Run.lanes[number]
	if l == nil {
		if len(r.Run.lanes) >= maxLanes {
			c.drop(r, s, Memory)
			return
		}
		l = &lane{}
		r.Run.lanes[number] = l
	}
	r.newest[number] = max(r.newest[number], s.Seq)
	if l.any && s.Seq <= l.settled {
		c.drop(r, s, Late)
		return
	}
	g := l.at(s.Seq, now)
	g.steps = append(g.steps, entry{r, s})
	c.steps++
	c.bytes += s.Bytes()
	if len(l.waiting[0].steps) >= len(r.Run.order) { // else Tick looks which ranks have nothing to come
		c.settleReady(r.Run, number, l, now)
	}
	for c.bytes > c.set.MaxBytes && c.settleOldest() {
	}
}

// drop takes a step that is not compared.
func (c *Comparer) drop(r *Rank, s *digest.Step, why Reason) {
	c.sink.Dropped(r, why)
	c.sink.Calls(r, MissingRank, len(s.Calls))
}

// at is the gathering of a seq.
func (l *lane) at(seq int64, now time.Time) *gathering {
	i, ok := slices.BinarySearchFunc(l.waiting, seq, func(g *gathering, seq int64) int { return cmp.Compare(g.seq, seq) })
	if !ok {
		l.waiting = slices.Insert(l.waiting, i, &gathering{seq: seq, first: now})
	}
	return l.waiting[i]
}

// Tick settles what has waited long enough, and forgets runs that have ended.
func (c *Comparer) Tick(now time.Time) {
	for name, run := range c.runs {
		for number, l := range run.lanes {
			c.settleReady(run, number, l, now)
		}
		if now.Sub(run.heard) > forgetAfter+c.set.Wait {
			c.forget(name)
		}
	}
}

// Flush settles all that waits.
func (c *Comparer) Flush() {
	for _, run := range c.Runs() {
		for _, number := range run.numbers() {
			for l := run.lanes[number]; len(l.waiting) > 0; {
				c.settleFirst(run, l)
			}
		}
	}
}

// numbers are those of the lanes, ascending.
func (r *Run) numbers() (all []int64) {
	for n := range r.lanes {
		all = append(all, n)
	}
	slices.Sort(all)
	return all
}

func (c *Comparer) forgetOldest() {
	var oldest *Run
	for _, r := range c.runs {
		if oldest == nil || r.heard.Before(oldest.heard) {
			oldest = r
		}
	}
	c.forget(oldest.Name)
}

func (c *Comparer) forget(name string) {
	run := c.runs[name]
	for _, l := range run.lanes {
		for len(l.waiting) > 0 {
			c.settleFirst(run, l)
		}
	}
	delete(c.runs, name)
}

// settleReady settles the first steps of a lane as far as they need not wait.
func (c *Comparer) settleReady(run *Run, number int64, l *lane, now time.Time) {
	for len(l.waiting) > 0 && (now.Sub(l.waiting[0].first) >= c.set.Wait || c.whole(run, number, l.waiting[0], now)) {
		c.settleFirst(run, l)
	}
}

// whole reports whether no rank that is heard has a step to come.
func (c *Comparer) whole(run *Run, number int64, g *gathering, now time.Time) bool {
	if now.Sub(run.joined) < joinDelay {
		return false
	}
	if len(g.steps) >= len(run.order) {
		return true
	}
	for _, r := range run.order {
		if newest, ok := r.newest[number]; (!ok || newest < g.seq+window) && now.Sub(r.heard) <= 3*c.set.Wait && !g.has(r) {
			return false
		}
	}
	return true
}

func (g *gathering) has(r *Rank) bool {
	return r.recent[uint64(g.seq)%uint64(len(r.recent))] == g.seq+1
}

// settleOldest settles the first steps of the lane that waits longest; false: none waits.
func (c *Comparer) settleOldest() bool {
	var run *Run
	var oldest *lane
	for _, r := range c.runs {
		for _, l := range r.lanes {
			if len(l.waiting) > 0 && (oldest == nil || l.waiting[0].first.Before(oldest.waiting[0].first)) {
				run, oldest = r, l
			}
		}
	}
	if oldest == nil {
		return false
	}
	c.settleFirst(run, oldest)
	return true
}

// settleFirst settles the first seq of a lane.
func (c *Comparer) settleFirst(run *Run, l *lane) {
	g := l.waiting[0]
	l.waiting[0] = nil
	l.waiting = l.waiting[1:]
	l.settled, l.any = g.seq, true
	for _, e := range g.steps {
		c.steps--
		c.bytes -= e.step.Bytes()
	}
	slices.SortFunc(g.steps, func(a, b entry) int { return cmp.Compare(a.rank.ID, b.rank.ID) })
	c.settle(run, g)
}
