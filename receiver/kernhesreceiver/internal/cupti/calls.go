package cupti

import (
	"slices"
	"sort"
)

// maxCallSpans bounds the spans that a Joiner remembers; a step whose launches no others interleave takes one.
const maxCallSpans = 1 << 13

// A callSpan is launches of one owner in a row, by correlation id. Each API call of the process has an id of its own, and
// they ascend modulo 2^32, so a call between two launches of a step is in that step unless another thread made it.
type callSpan struct {
	first, last uint32
	owner       uint64
}

// callSpans are in order of their ids.
type callSpans []callSpan

// after reports whether an id came after another.
func after(a, b uint32) bool { return int32(a-b) > 0 }

// find is the index of the first span that begins after an id.
func (c callSpans) find(id uint32) int {
	if n := len(c); n == 0 || !after(c[n-1].first, id) {
		return n
	}
	return sort.Search(len(c), func(i int) bool { return after(c[i].first, id) })
}

// add takes a launch.
func (c callSpans) add(id uint32, owner uint64) callSpans {
	at := c.find(id) // where it goes
	if at > 0 {
		before := &c[at-1]
		beyond := after(id, before.last)
		switch {
		case before.owner == owner:
			if beyond {
				before.last = id
			}
			return c
		case !beyond && before.last != id: // it came late: another thread's, amid those of an owner
			rest := callSpan{id + 1, before.last, before.owner}
			before.last = id - 1
			c = slices.Insert(c, at, callSpan{id, id, owner}, rest)
			return c.bound()
		}
	}
	return slices.Insert(c, at, callSpan{id, id, owner}).bound()
}

// bound forgets the oldest half when there are too many.
func (c callSpans) bound() callSpans {
	if len(c) > maxCallSpans {
		return slices.Delete(c, 0, len(c)/2)
	}
	return c
}

// CallOwner is the step in which an API call was made, by its correlation id: that of the launch which the call is, or of
// the launches before and after it; 0: none, or they differ. known is false while no launch after it has come.
func (j *Joiner) CallOwner(id uint32) (owner uint64, known bool) {
	at := j.calls.find(id)
	switch {
	case at == 0:
		return 0, len(j.calls) > 0
	case !after(id, j.calls[at-1].last):
		return j.calls[at-1].owner, true
	}
	return 0, at < len(j.calls)
}
