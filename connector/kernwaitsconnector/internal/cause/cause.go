// Package cause says why the last rank of a meeting came late.
//
// Two ranks that left a meeting together have gone the same time until the next one but for what one waits for the other. So
// the cause is where their time since then differs most: compute, launches that came late, or other communication. All times
// are durations of one rank's own clock.
package cause

import (
	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/pairing"
	"github.com/kernhes/kernhes/internal/digest"
)

// A Cause is why a rank came late.
type Cause uint8

// Causes.
const (
	PeerPrefill Cause = iota // it ran another program, or another bucket of batch or kv
	Slow                     // it took longer for the same work
	Foreign                  // compute that is not the step's was on its GPU
	Host                     // its kernels were launched late
	Link                     // its other communication took longer
	IdlePeer                 // it had no request, and was launched late
	Causes                   // how many there are
)

// Names are the causes as metrics have them.
var Names = [Causes]string{"peer_prefill", "slow", "foreign", "host", "link", "idle_peer"}

// A Teller says causes. It is told of all steps and meetings, in the order in which pairing has them.
type Teller struct {
	Edges Edges
	of    map[*pairing.Rank]*history
	norms map[*pairing.Run]norms
	rooms map[*pairing.Group]*room
	spans []span
}

// A room is the ranks of a group in one seq, which has many meetings.
type room struct {
	seq   int64
	ranks []*pairing.Rank
	of    []*history
	marks []*mark
}

// room is that of a meeting.
func (t *Teller) room(m *pairing.Meeting) *room {
	at := t.rooms[m.Group]
	if at == nil {
		at = &room{}
		t.rooms[m.Group] = at
	}
	if at.seq == m.Seq && m.Nth > 0 && len(at.of) == len(m.Seats) && at.ranks[0] == m.Seats[0].Rank {
		return at
	}
	at.seq, at.ranks, at.of, at.marks = m.Seq, at.ranks[:0], at.of[:0], at.marks[:0]
	for i := range m.Seats {
		r := m.Seats[i].Rank
		h := t.of[r]
		mk := h.marks[m.Group]
		if mk == nil {
			mk = &mark{}
			h.marks[m.Group] = mk
		}
		at.ranks, at.of, at.marks = append(at.ranks, r), append(at.of, h), append(at.marks, mk)
	}
	return at
}

// New returns a Teller that knows no rank.
func New(edges Edges) *Teller {
	return &Teller{Edges: edges, of: map[*pairing.Rank]*history{}, norms: map[*pairing.Run]norms{}, rooms: map[*pairing.Group]*room{}}
}

// A history is what a rank did so far.
type history struct {
	step    *digest.Step
	sums    sums   // up to the last call that was passed, but for compute: of all steps before the open one
	passed  int    // calls of the step
	idle    uint64 // ns: before the step, since the end of the one before
	ended   uint64 // unix ns: the end of the step before
	before  int64  // seq of the step before; -1: there was none
	foreign uint64 // ns: of the step, that no wait was put down to
	marks   map[*pairing.Group]*mark
}

// sums grow over the life of a rank.
type sums struct {
	compute uint64 // ns
	link    uint64 // ns: transfers, and calls that were not compared
	waits   [Causes]uint64
}

// A mark is where a rank left a meeting.
type mark struct {
	set  bool
	seq  int64
	nth  int
	end  uint64
	sums sums
}

// A span is what a rank did since it left the meeting before.
type span struct {
	known   bool // it left it together with the others
	seq     int64
	nth     int
	length  int64 // ns
	compute int64
	link    int64
	idle    int64 // before the step
	waits   [Causes]int64
	foreign int64
}

// Forget drops the ranks of a run.
func (t *Teller) Forget(run *pairing.Run) {
	for _, r := range run.Ranks() {
		if h := t.of[r]; h != nil {
			for g := range h.marks {
				delete(t.rooms, g)
			}
		}
		delete(t.of, r)
	}
	delete(t.norms, run)
}

// Step takes the next step of a rank.
func (t *Teller) Step(r *pairing.Rank, s *digest.Step) {
	h := t.of[r]
	if h == nil {
		h = &history{before: -1, marks: map[*pairing.Group]*mark{}}
		t.of[r] = h
	}
	if h.step != nil {
		h.pass(len(h.step.Calls))
		h.sums.compute += h.step.Compute
		h.ended, h.before = h.step.End, h.step.Seq
	}
	h.idle = 0
	if h.ended != 0 && s.Start > h.ended {
		h.idle = s.Start - h.ended
	}
	h.step, h.passed, h.foreign = s, 0, s.Foreign
	n := t.norms[r.Run]
	if n == nil {
		n = norms{}
		t.norms[r.Run] = n
	}
	n.take(s)
}

// pass goes on to a call; what lies before it was not compared.
func (h *history) pass(to int) {
	for ; h.passed < to; h.passed++ {
		h.sums.link += h.step.Calls[h.passed].Dur
	}
}

// since is what a rank did since its group's meeting before.
func (h *history) since(m *mark, call *digest.Call) span {
	// What lies between is known where no step is left out.
	if !m.set || m.seq != h.step.Seq && m.seq != h.before {
		return span{foreign: int64(h.foreign)}
	}
	s := span{known: true, seq: m.seq, nth: m.nth, foreign: int64(h.foreign)}
	s.length = int64(call.Start - m.end)
	s.compute = int64(h.sums.compute + call.Before - m.sums.compute)
	s.link = int64(h.sums.link - m.sums.link)
	for i := range s.waits {
		s.waits[i] = int64(h.sums.waits[i] - m.sums.waits[i])
	}
	if m.seq != h.step.Seq {
		s.idle = int64(h.idle)
	}
	return s
}

// begun is what a rank did since its step began: of ranks that did not leave a meeting together nothing more is known.
func (h *history) begun(call *digest.Call) span {
	return span{length: int64(call.Start - h.step.Start), compute: int64(call.Before), foreign: int64(h.foreign)}
}

// Meeting calls to with the cause of each wait of a meeting.
func (t *Teller) Meeting(m *pairing.Meeting, to func(seat int, c Cause, wait uint64)) {
	t.spans = t.spans[:0]
	at := t.room(m)
	for i := range m.Seats {
		s := &m.Seats[i]
		at.of[i].pass(s.Sites[m.Nth])
		t.spans = append(t.spans, at.of[i].since(at.marks[i], s.Call(m.Nth)))
	}
	last := &m.Seats[m.Last]
	foreign := uint64(0)
	for i := range m.Seats {
		s := &m.Seats[i]
		wait := m.Wait(i)
		h := at.of[i]
		if i != m.Last && wait > 0 {
			late, other := t.spans[m.Last], t.spans[i]
			if !late.known || !other.known || late.seq != other.seq || late.nth != other.nth {
				late, other = at.of[m.Last].begun(last.Call(m.Nth)), h.begun(s.Call(m.Nth))
				late.idle = int64(wait) - (late.length - other.length) // the rest of the lag was there when the step began
				late.length += late.idle
			}
			c := t.why(last.Rank.Run, &late, &other, int64(wait), last.Step, s.Step)
			if c == Foreign {
				foreign = max(foreign, wait)
			}
			h.sums.waits[c] += wait
			to(i, c, wait)
		}
		h.sums.link += m.Shortest
		h.passed++
	}
	late := at.of[m.Last]
	late.foreign -= min(late.foreign, foreign)
	for i := range m.Seats {
		s := &m.Seats[i]
		h, call := at.of[i], s.Call(m.Nth)
		*at.marks[i] = mark{set: true, seq: m.Seq, nth: m.Nth, end: call.End(), sums: h.sums}
		at.marks[i].sums.compute += call.Until
	}
}

// why is where the time of the last rank differs most from another's.
func (t *Teller) why(run *pairing.Run, late, other *span, wait int64, last, step *digest.Step) Cause {
	compute := late.compute - other.compute
	idle := late.idle - other.idle
	gaps := (late.length - late.compute - late.link - late.all()) - (other.length - other.compute - other.link - other.all())
	foreign := late.foreign - other.foreign
	// Foreign compute delays the launch of the next kernel, or takes a part of the GPU away from those that run.
	if foreign >= wait/2 && foreign > 0 && (gaps >= wait/2 || compute+gaps >= wait/2 && wait >= foreign/8) {
		return Foreign
	}
	hosts := Host
	if last.Seqs == 0 && last.Tokens == 0 && (step.Seqs != 0 || step.Tokens != 0) {
		hosts = IdlePeer
	}
	slow, more := compute, int64(0)
	if t.Edges.more(last, step) {
		n := t.norms[run]
		slow = int64(n.slow(last)*float64(late.compute) - n.slow(step)*float64(other.compute))
		usual := min(n.usualIdle(last), max(0, gaps-idle)) // a program has gaps of its own
		more = compute - slow + usual
		gaps -= usual
	}
	cause, most := hosts, gaps
	if slow >= most {
		cause, most = Slow, slow
	}
	if more >= most {
		cause, most = PeerPrefill, more
	}
	if link := late.link - other.link; link > most {
		cause, most = Link, link
	}
	for c := range late.waits {
		if w := late.waits[c] - other.waits[c]; w > most { // it waited in another group, for one that had this cause
			cause, most = Cause(c), w
		}
	}
	return cause
}

func (s *span) all() (sum int64) {
	for _, w := range s.waits {
		sum += w
	}
	return sum
}
