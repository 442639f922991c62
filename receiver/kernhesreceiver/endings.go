package kernhesreceiver

import (
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"

	"cmp"
	"slices"
)

// maxEndings bounds the runs and ranks by which ended sessions are counted; those that ended first are counted together.
const maxEndings = 256

// otherRun and otherRank are the run and rank of the sessions that are counted together.
const (
	otherRun  = "other"
	otherRank = -1
)

// An ending is how many sessions of a run and rank ended in each way.
type ending struct {
	run        string
	rank       int64
	bye, gone  uint64
	order      uint64 // of the last one that ended; 0: none has
	liveAt     uint64 // the export at which one was last live
	firstShown bool   // it was exported
}

// endings counts ended sessions by run and rank. A rank that is live is counted from the start, at 0: a counter that begins at 1
// shows no increase. Whoever holds exporting has it.
type endings struct {
	all     []*ending
	other   ending
	exports uint64
	last    uint64
}

func (e *endings) of(r *engine.Report) *ending {
	run, rank := r.Info["run"], r.Rank
	for _, one := range e.all {
		if one.run == run && one.rank == rank {
			return one
		}
	}
	one := &ending{run: run, rank: rank}
	e.all = append(e.all, one)
	return one
}

// live takes a session that has not ended, by its first rank.
func (e *endings) live(r *engine.Report) {
	if !r.Unplaced {
		e.of(r).liveAt = e.exports + 1
	}
}

// add counts an ended session, by its first rank.
func (e *endings) add(r *engine.Report, gone bool) {
	one := e.of(r)
	e.last++
	one.order = e.last
	if gone {
		one.gone++
	} else {
		one.bye++
	}
}

// An endingReport is what is exported of endings: counts, and the run and rank of those that are no longer counted apart.
type endingReport struct {
	counts []ending
	folded []ending
}

// take returns the counts, after as many as needed were counted together.
func (e *endings) take() (r endingReport) {
	e.exports++
	slices.SortFunc(e.all, func(a, b *ending) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.run, b.run), cmp.Compare(a.rank, b.rank))
	})
	ended := len(e.all)
	e.all = slices.DeleteFunc(e.all, func(one *ending) bool {
		ended--
		switch live := one.liveAt == e.exports; {
		case live, one.order != 0 && ended < maxEndings:
			r.counts = append(r.counts, *one)
			one.firstShown = true
			return false
		}
		e.other.bye += one.bye
		e.other.gone += one.gone
		if one.firstShown {
			r.folded = append(r.folded, *one)
		}
		return true
	})
	if e.other.bye+e.other.gone > 0 {
		other := e.other
		other.run, other.rank = otherRun, otherRank
		r.counts = append(r.counts, other)
	}
	return r
}
