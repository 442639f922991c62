// Package coverage sums how much of a device's kernel time is known for what it is: classed by a manifest, by a rule or by
// default, with a call, in a step.
package coverage

import (
	"slices"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

// A Position is one kernel of a shape.
type Position struct {
	Name     string // of the kernel
	By       span.By
	Labelled bool // it has a call
}

// A Plan says which positions of a shape count alike. It is made once and does not change.
type Plan struct {
	runs   []run // of all positions, in order
	groups []group
}

// A run is positions in a row of one group: nearly all of a step whose kernels are known.
type run struct{ group, n uint32 }

// A group is positions that count alike. It has a name where that is of interest: of what is defaulted or unlabelled.
type group struct {
	Position
	kernels uint64 // of one step
}

// NewPlan makes the plan of a shape from its n positions.
func NewPlan(n int, at func(i int) Position) *Plan {
	p := &Plan{}
	index := map[Position]uint32{}
	for i := range n {
		pos := at(i)
		if pos.By != span.ByDefault && pos.Labelled {
			pos.Name = ""
		}
		g, ok := index[pos]
		if !ok {
			g = uint32(len(p.groups))
			index[pos] = g
			p.groups = append(p.groups, group{Position: pos})
		}
		p.groups[g].kernels++
		if last := len(p.runs) - 1; last >= 0 && p.runs[last].group == g {
			p.runs[last].n++
		} else {
			p.runs = append(p.runs, run{g, 1})
		}
	}
	return p
}

// A Time is kernels and their durations, which may overlap: so it is more than device time where they do.
type Time struct{ NS, Kernels uint64 }

func (t *Time) join(o Time) { t.NS += o.NS; t.Kernels += o.Kernels }

// An Account sums the kernels of one device. Whoever owns the device owns it.
//
//	a step: one addition a kernel ──▶ tallies ──a report, or too many──▶ totals and names
type Account struct {
	tallies    map[*Plan]*tally
	order      []*tally // those of tallies, oldest first: which names are kept must not depend on the map's order
	totals     Totals
	defaulted  top
	unlabelled top
}

// A tally is the steps of one plan that are not in the totals yet.
type tally struct {
	plan  *Plan
	steps uint64
	ns    []uint64 // by group
}

// maxTallies bounds the tallies, and with them the plans that are kept alive.
const maxTallies = 256

// Totals are sums since the account began.
type Totals struct {
	By       [len(span.ByNames)]Time // all kernels
	InStep   Time                    // those of steps
	Labelled Time                    // those of steps that have a call
}

// All is all kernels.
func (t *Totals) All() (all Time) {
	for _, by := range t.By {
		all.join(by)
	}
	return all
}

// Step takes the kernels of a step of the plan's shape, one for each position.
func (a *Account) Step(p *Plan, spans []span.Span) {
	t := a.tallies[p]
	if t == nil {
		t = a.tally(p)
	}
	t.steps++
	for _, r := range p.runs {
		var ns uint64
		for _, s := range spans[:r.n] {
			ns += s.End() - s.Start
		}
		t.ns[r.group] += ns
		spans = spans[r.n:]
	}
}

// tally begins the tally of a plan.
func (a *Account) tally(p *Plan) *tally {
	if len(a.tallies) >= maxTallies {
		a.fold()
		clear(a.tallies)
		clear(a.order)
		a.order = a.order[:0]
	}
	if a.tallies == nil {
		a.tallies = map[*Plan]*tally{}
	}
	t := &tally{plan: p, ns: make([]uint64, len(p.groups))}
	a.tallies[p] = t
	a.order = append(a.order, t)
	return t
}

// fold adds the tallies to the totals, and lets go of those of plans that had no step since the last time.
func (a *Account) fold() {
	a.order = slices.DeleteFunc(a.order, func(t *tally) bool {
		if t.steps == 0 {
			delete(a.tallies, t.plan)
			return true
		}
		for i := range t.plan.groups {
			g := &t.plan.groups[i]
			a.add(g, Time{t.ns[i], t.steps * g.kernels})
		}
		t.steps = 0
		clear(t.ns)
		return false
	})
}

// add adds kernels of steps.
func (a *Account) add(g *group, time Time) {
	a.totals.By[g.By].join(time)
	a.totals.InStep.join(time)
	if g.By == span.ByDefault {
		a.defaulted.add(g.Name, time)
	}
	if g.Labelled {
		a.totals.Labelled.join(time)
	} else {
		a.unlabelled.add(g.Name, time)
	}
}

// Outside takes a kernel of no step.
func (a *Account) Outside(name string, by span.By, ns uint64) {
	a.totals.By[by].join(Time{ns, 1})
	if by == span.ByDefault {
		a.defaulted.add(name, Time{ns, 1})
	}
}

// A Report is a copy of an account.
type Report struct {
	Totals
	Defaulted  []Named // most time first
	Unlabelled []Named // in steps
}

// Report copies the sums, and of the names those that took the most time.
func (a *Account) Report(names int) Report {
	a.fold()
	return Report{a.totals, a.defaulted.most(names), a.unlabelled.most(names)}
}
