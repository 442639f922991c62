// Package coverage sums how much of a device's kernel time is known for what it is: classed by a manifest, by a rule or by
// default, with a call, in a step.
package coverage

import "github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"

// By is what gave a kernel its class.
type By uint8

// Classes come from these; the order is that of ByNames.
const (
	Default  By = 0 // nothing knew its name: it counts as compute
	Rule     By = 1 // the name table
	Manifest By = 2 // the engine's
)

// ByNames are the values of the label by.
var ByNames = [...]string{"default", "rule", "manifest"}

// A Position is one kernel of a shape.
type Position struct {
	Name     string // of the kernel
	By       By
	Labelled bool // it has a call
}

// A Plan is what Account.Step has to know of a shape, worked out once.
type Plan struct {
	marks []mark
	names []string // of those that are defaulted or unlabelled
}

// A mark says of a position by what it is classed, and which of the plan's names it has: -1 if it is of no interest.
type mark struct {
	name     int32
	by       By
	labelled bool
}

// NewPlan makes the plan of a shape's positions.
func NewPlan(positions []Position) *Plan {
	p := &Plan{marks: make([]mark, len(positions))}
	index := map[string]int32{}
	for i, pos := range positions {
		m := mark{-1, pos.By, pos.Labelled}
		if pos.By == Default || !pos.Labelled {
			n, ok := index[pos.Name]
			if !ok {
				n = int32(len(p.names))
				index[pos.Name] = n
				p.names = append(p.names, pos.Name)
			}
			m.name = n
		}
		p.marks[i] = m
	}
	return p
}

// A Time is kernels and their durations, which may overlap: so it is more than device time where they do.
type Time struct{ NS, Kernels uint64 }

func (t *Time) add(ns uint64) { t.NS += ns; t.Kernels++ }

func (t *Time) join(o Time) { t.NS += o.NS; t.Kernels += o.Kernels }

// An Account sums the kernels of one device. Whoever owns the device owns it.
type Account struct {
	totals     Totals
	defaulted  top
	unlabelled top
	buffer     []work
}

// work is what one step adds to a name.
type work struct{ defaulted, unlabelled Time }

// Totals are sums since the account began.
type Totals struct {
	By       [len(ByNames)]Time // all kernels
	InStep   Time               // those of steps
	Labelled Time               // those of steps that have a call
}

// All is all kernels.
func (t *Totals) All() (all Time) {
	for _, by := range t.By {
		all.join(by)
	}
	return all
}

// Step takes the kernels of a step of the plan's shape.
func (a *Account) Step(p *Plan, spans []span.Span) {
	if cap(a.buffer) < len(p.names) {
		a.buffer = make([]work, len(p.names))
	}
	names := a.buffer[:len(p.names)]
	clear(names)
	for i, m := range p.marks[:min(len(p.marks), len(spans))] {
		ns := spans[i].End() - spans[i].Start
		a.totals.By[m.by].add(ns)
		a.totals.InStep.add(ns)
		if m.labelled {
			a.totals.Labelled.add(ns)
		}
		if m.name < 0 {
			continue
		}
		if m.by == Default {
			names[m.name].defaulted.add(ns)
		}
		if !m.labelled {
			names[m.name].unlabelled.add(ns)
		}
	}
	for i := range names {
		a.defaulted.add(p.names[i], names[i].defaulted)
		a.unlabelled.add(p.names[i], names[i].unlabelled)
	}
}

// Outside takes a kernel of no step.
func (a *Account) Outside(name string, by By, ns uint64) {
	a.totals.By[by].add(ns)
	if by == Default {
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
	return Report{a.totals, a.defaulted.most(names), a.unlabelled.most(names)}
}
