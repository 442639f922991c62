package ranges

import (
	"cmp"
	"slices"
)

// Start takes the start of a range of the process.
func (t *Tracker) Start(r uint64, d Domain, text string, time uint64) (id ID, s Step) {
	t.order++
	if len(t.starts) >= MaxStarts {
		t.forgetStarts()
	}
	s, label, id := t.read(d, text, time, nil)
	one := started{step: id, order: t.order}
	if id != 0 {
		t.of[id] = nil
		t.started = append(t.started, id)
	} else {
		one.heard = t.hear(0, d, label)
	}
	t.starts[r] = one
	return id, s
}

// forgetStarts gives up the older half of the start ranges that are no open step's, or of all if each is.
func (t *Tracker) forgetStarts() {
	type old struct {
		id uint64
		started
	}
	var all []old
	for id, s := range t.starts {
		all = append(all, old{id, s})
	}
	slices.SortFunc(all, func(a, b old) int {
		if x, y := t.isOpen(a.step), t.isOpen(b.step); x != y {
			if x {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.order, b.order)
	})
	for _, s := range all[:MaxStarts/2] {
		if !t.isOpen(s.step) {
			delete(t.starts, s.id)
			t.Counts.Leaked++
		}
	}
	for _, s := range all {
		if len(t.starts) < MaxStarts {
			return
		}
		delete(t.starts, s.id) // its step closes by its timeout
		t.Counts.Leaked++
	}
}

// End takes the end of a range of the process, and returns the step that it ends, or 0.
func (t *Tracker) End(r uint64) ID {
	s, ok := t.starts[r]
	if !ok {
		t.Counts.Underflow++
		return 0
	}
	delete(t.starts, r)
	if s.step != 0 {
		t.drop(s.step)
	}
	return s.step
}
