package engine

import (
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/identity"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/ranges"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/seq"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/step"
)

// A rankOwner is the device whose steps have a rank; own says that the rank is this process's.
type rankOwner struct {
	device    uint16
	exclusive bool
}

// maxTextRanks bounds the ranks that the steps of one process may name.
const maxTextRanks = 1024

// holdsRank notes that the steps of a device have a rank, and returns whether no others have it.
func (w *who) holdsRank(rank int64, d *deviceState, own bool) bool {
	if one, ok := w.texts[rank]; ok {
		return one.exclusive && one.device == d.id
	}
	if len(w.texts) >= maxTextRanks {
		return false
	}
	w.texts[rank] = rankOwner{d.id, own}
	if !own {
		w.foreign++
	}
	return own
}

// ownRank reports whether the rank of a step is this process's and device's alone, so that run, rank and seq name the step.
func (p *Process) ownRank(d *deviceState, rank int64) bool {
	if one, ok := p.who.texts[rank]; ok {
		return one.exclusive && one.device == d.id
	}
	if len(p.who.texts) >= maxTextRanks {
		return false
	}
	_, own, err := p.set.starts.Own(p.session, identity.Want{Rank: rank})
	p.rememberFailed(err)
	return p.holdsRank(rank, d, own)
}

// occurred takes a step that opened, the nth of the session, and finds how often its number came before.
func (p *Process) occurred(id ranges.ID, s ranges.Step, thread uint32, nth int64) {
	n := uint64(nth)
	switch {
	case s.HasSeq:
		n = uint64(s.Seq)
	case p.unsure:
		return // it will be numbered as one of this session alone
	}
	rank, ok := parseRank(s.Rank)
	if !ok {
		rank = NoRank
	}
	// A process may drive several devices, each from a thread of its own: their numbers are alike.
	occurrence, _ := p.opened.Next(seq.Of{Rank: rank, Thread: thread}, n)
	p.steps.Occurred(id, occurrence)
}

// maxMeetings is how many steps may have had the number that a final one would get before it pairs with none.
const maxMeetings = 16

// numbered is a step's seq, and whether it is the same on other ranks.
type numbered struct {
	seq   uint64
	pairs bool
}

// numbered gives a final step its number: no other step of the run and rank has it.
func (p *Process) numbered(d *deviceState, s *step.Step) numbered {
	rank := d.stepRank(s)
	n := uint64(s.Number)
	if s.HasSeq {
		n = uint64(s.Seq)
	}
	own := (s.HasSeq || s.Sure) && p.ownRank(d, rank)
	// Two threads may run steps of one rank, and a text may give the rank that others have without.
	for tries := 0; own && tries < maxMeetings; tries++ {
		number, ok := seq.Number(n, s.Occurrence)
		if !ok {
			break
		}
		before, ok := p.given.Next(seq.Of{Rank: rank}, number)
		if !ok {
			break
		}
		if before == 0 {
			return numbered{number, true}
		}
		s.Occurrence++
	}
	return numbered{seq.OfSession(p.session, s.Number, d.id), false}
}
