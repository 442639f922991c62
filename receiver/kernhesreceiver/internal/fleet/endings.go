package fleet

import (
	"cmp"
	"slices"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
)

// maxEndings bounds the runs and ranks by which ended sessions are counted; those that ended first are counted together.
const maxEndings = 256

// otherRun and otherRank are the run and rank of the sessions that are counted together.
const (
	otherRun  = "other"
	otherRank = -1
)

// An Ending is how many sessions of a run and rank ended in each way.
type Ending struct {
	Run        string
	Rank       int64
	Bye, Gone  uint64
	order      uint64 // of the last one that ended; 0: none has
	liveAt     uint64 // the export at which one was last live
	firstShown bool   // it was exported
}

// Endings counts ended sessions by run and rank. A rank that is live is counted from the start, at 0: a counter that begins at 1
// shows no increase. Whoever holds exporting has it.
type Endings struct {
	all     []*Ending
	other   Ending
	exports uint64
	last    uint64
}

func (e *Endings) of(r *engine.Report) *Ending {
	run, rank := r.Info["run"], r.Rank
	for _, one := range e.all {
		if one.Run == run && one.Rank == rank {
			return one
		}
	}
	one := &Ending{Run: run, Rank: rank}
	e.all = append(e.all, one)
	return one
}

// Live takes a session that has not ended, by its first rank.
func (e *Endings) Live(r *engine.Report) {
	if !r.Unplaced {
		e.of(r).liveAt = e.exports + 1
	}
}

// Add counts an ended session, by its first rank.
func (e *Endings) Add(r *engine.Report, gone bool) {
	one := e.of(r)
	e.last++
	one.order = e.last
	if gone {
		one.Gone++
	} else {
		one.Bye++
	}
}

// An EndingReport is what is exported of endings: counts, and the run and rank of those that are no longer counted apart.
type EndingReport struct {
	Counts []Ending
	Folded []Ending
}

// Take returns the counts, after as many as needed were counted together.
func (e *Endings) Take() (r EndingReport) {
	e.exports++
	slices.SortFunc(e.all, func(a, b *Ending) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.Run, b.Run), cmp.Compare(a.Rank, b.Rank))
	})
	ended := len(e.all)
	e.all = slices.DeleteFunc(e.all, func(one *Ending) bool {
		ended--
		switch live := one.liveAt == e.exports; {
		case live, one.order != 0 && ended < maxEndings:
			r.Counts = append(r.Counts, *one)
			one.firstShown = true
			return false
		}
		e.other.Bye += one.Bye
		e.other.Gone += one.Gone
		if one.firstShown {
			r.Folded = append(r.Folded, *one)
		}
		return true
	})
	if e.other.Bye+e.other.Gone > 0 {
		other := e.other
		other.Run, other.Rank = otherRun, otherRank
		r.Counts = append(r.Counts, other)
	}
	return r
}
