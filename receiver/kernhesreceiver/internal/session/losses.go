package session

import (
	"slices"
	"time"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
)

// Left is what the sessions of a receiver leave for those of the next one in this process.
type Left struct {
	bye, gone uint64
	losses    map[uint64]*losses
}

// Leave returns what was counted. Nothing may run any more that changes sessions.
func (t *Sessions) Leave(now time.Time) Left {
	l := Left{losses: map[uint64]*losses{}}
	for id, one := range t.left {
		if now.Sub(one.left) < t.set.ReconnectTimeout { // it may come back yet
			l.losses[id] = one
		}
	}
	l.bye, l.gone = t.Ended()
	for _, s := range t.all() {
		s.mu.Lock()
		l.losses[s.id] = &losses{left: now, frame: s.engine.Received(), was: onlyLosses(s.reports())}
		s.mu.Unlock()
	}
	return l
}

// TakeOver goes on from what the sessions before left.
func (t *Sessions) TakeOver(from Left) {
	t.left = from.losses
	t.bye, t.gone = from.bye, from.gone
}

// claim gives what was counted of a session before, if it was. Whoever has the table's lock calls it.
func (t *Sessions) claim(session uint64) *losses {
	l := t.left[session]
	delete(t.left, session)
	return l
}

// losses are what was lost of a session, as the receiver before counted it. What the engine sends again, up to the last frame
// that receiver had, is counted in it already.
type losses struct {
	left  time.Time
	frame uint64          // the last one that was received
	was   []engine.Report // what was counted then
	again []engine.Report // of it, what this receiver has counted anew
	past  bool            // all of that has come
}

// onlyLosses are reports without what is not needed here.
func onlyLosses(reports []engine.Report) (only []engine.Report) {
	for i := range reports {
		r := &reports[i]
		only = append(only, engine.Report{
			Whole: r.Whole, Device: r.Device, SinceNS: r.SinceNS, LossSinceNS: r.LossSinceNS,
			Dropped: r.Dropped, Incomplete: r.Incomplete, Limited: r.Limited, Missing: r.Missing,
		})
	}
	return only
}

// next tells which frame the engine takes next; 0: that is not known, or it has no number.
func (l *losses) next(number uint64, e Account) {
	if l != nil && !l.past && (e.Received() >= l.frame || number > l.frame) {
		l.past, l.again = true, onlyLosses(e.Reports())
	}
}

// add adds what was lost before to reports of now.
func (l *losses) add(reports []engine.Report) {
	if l == nil {
		return
	}
	again := l.again
	if !l.past {
		again = slices.Clone(reports)
	}
	for i := range reports {
		r := &reports[i]
		same := func(o *engine.Report) bool { return r.Whole == o.Whole && (r.Whole || r.Device == o.Device) }
		before, counted := find(l.was, func(o *engine.Report) bool { return o.Device == r.Device }), find(again, same)
		r.LossSinceNS = l.was[0].LossSince()
		r.Dropped = goOn(before.Dropped, counted.Dropped, r.Dropped)
		r.Incomplete = goOn(before.Incomplete, counted.Incomplete, r.Incomplete)
		if r.Whole {
			whole := find(l.was, func(o *engine.Report) bool { return o.Whole })
			r.Limited = goOn(whole.Limited, counted.Limited, r.Limited)
			r.Missing += whole.Missing - counted.Missing
		}
	}
}

// goOn is counts of before, and what was counted now beyond what came again.
func goOn(before, again, now map[string]uint64) map[string]uint64 {
	sum := map[string]uint64{}
	for key, n := range before {
		sum[key] = n
	}
	for key, n := range now {
		if more := n - min(n, again[key]); more > 0 {
			sum[key] += more
		}
	}
	return sum
}

// find is the first report that is wanted, or an empty one.
func find(reports []engine.Report, wanted func(*engine.Report) bool) *engine.Report {
	for i := range reports {
		if wanted(&reports[i]) {
			return &reports[i]
		}
	}
	return &engine.Report{}
}
