package coverage

import (
	"cmp"
	"slices"
)

// maxNames bounds the names that are remembered; a process has some 50 to 500.
const maxNames = 256

// A Named is a kernel's name and its time. What may be too much of it is Over: the name took the place of another
// when there were too many.
type Named struct {
	Name string
	Time
	Over uint64 // ns
}

// A top is the names that took the most time, by the space-saving sketch: a new name takes the place of the least, and
// its time for its own. So a name that took more than 1/256 of all time is never missing.
type top struct {
	names map[string]int
	list  []Named
}

func (t *top) add(name string, time Time) {
	if time.Kernels == 0 {
		return
	}
	i, ok := t.names[name]
	switch {
	case ok:
	case len(t.list) < maxNames:
		if t.names == nil {
			t.names = map[string]int{}
		}
		i = len(t.list)
		t.list = append(t.list, Named{Name: name})
		t.names[name] = i
	default:
		i = t.least()
		delete(t.names, t.list[i].Name)
		t.list[i] = Named{Name: name, Time: t.list[i].Time, Over: t.list[i].NS}
		t.names[name] = i
	}
	t.list[i].join(time)
}

func (t *top) least() (least int) {
	for i := range t.list {
		if t.list[i].NS < t.list[least].NS {
			least = i
		}
	}
	return least
}

// most are the first n names by time.
func (t *top) most(n int) []Named {
	list := slices.Clone(t.list)
	slices.SortFunc(list, func(a, b Named) int { return cmp.Or(cmp.Compare(b.NS, a.NS), cmp.Compare(a.Name, b.Name)) })
	return list[:min(n, len(list))]
}
