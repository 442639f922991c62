// Package seq turns the numbers that step ranges give into numbers that no two steps of a rank share.
//
//	below 2^61             as the range gives it
//	2^61 + o<<48 + number  the step is occurrence o (1 to 8191) of a number below 2^48
//	from 2^62              the step pairs with no other rank's
package seq

import "slices"

// Bounds of numbers.
const (
	Repeated = 1 << 61 // from here: an occurrence after the first
	Unpaired = 1 << 62 // from here: pairs with no other rank's

	MaxOccurrence = 1<<13 - 1
	maxRepeated   = 1 << 48 // numbers below this can be repeated
	occurrenceBit = 48
)

// maxSpans bounds what a Numbers remembers, over all ranks and occurrences; a span takes 16 bytes.
const maxSpans = 1 << 15

// maxGaps bounds the gaps that are remembered of one rank and occurrence. Below the lowest of them, numbers count as seen.
const maxGaps = 1024

// maxOf bounds the ranks and threads of one session.
const maxOf = 4096

// Numbers knows which numbers the steps of one session have had. The zero Numbers are ready for use.
type Numbers struct {
	of    map[Of]*laps
	spans int
}

// An Of is whose numbers are counted: a rank's, on one thread or over all.
type Of struct {
	Rank   int64
	Thread uint32
}

// laps are the numbers of one Of: laps[0] those that occurred, laps[1] those that occurred again, and so on.
type laps struct{ seen []spans }

// A span is the numbers from first to last.
type span struct{ first, last uint64 }

// spans are disjoint, ascending, and do not touch each other.
type spans []span

// Next takes a step with a number. It returns how often the number came before; false: that is not known, since
// too much would have to be remembered.
//
// Memory is bounded. Where it ends, an old number that was never seen may count as seen. So two steps never share a number
// and an occurrence.
func (n *Numbers) Next(of Of, number uint64) (occurrence uint32, ok bool) {
	l := n.of[of]
	if l == nil {
		if len(n.of) >= maxOf {
			return 0, false
		}
		if n.of == nil {
			n.of = map[Of]*laps{}
		}
		l = &laps{}
		n.of[of] = l
	}
	// What occurred again has occurred before, so the laps can be searched.
	lap, _ := slices.BinarySearchFunc(l.seen, number, func(s spans, number uint64) int {
		if s.has(number) {
			return -1
		}
		return 1
	})
	if lap > MaxOccurrence || n.spans >= maxSpans && !(lap < len(l.seen) && l.seen[lap].touches(number)) {
		return 0, false
	}
	if lap == len(l.seen) {
		l.seen = append(l.seen, nil)
	}
	before := len(l.seen[lap])
	l.seen[lap] = l.seen[lap].with(number)
	n.spans += len(l.seen[lap]) - before
	return uint32(lap), true
}

// Number is the number that a step gets; false: it cannot be told apart from others, or taken for one of other forms.
func Number(number uint64, occurrence uint32) (seq uint64, ok bool) {
	switch {
	case occurrence == 0:
		return number, number < Repeated
	case number < maxRepeated && occurrence <= MaxOccurrence:
		return Repeated | uint64(occurrence)<<occurrenceBit | number, true
	}
	return 0, false
}

// OfSession is the number of a step that pairs with no other: it holds the session, the step's place among the session's, and
// the device.
func OfSession(session uint64, place int64, device uint16) uint64 {
	const mask = Unpaired - 1
	return Unpaired | (session<<20+uint64(place)^uint64(device)<<46)&mask
}

// find is the index of the first span that ends at or after a number.
func (s spans) find(number uint64) int {
	i, _ := slices.BinarySearchFunc(s, number, func(one span, number uint64) int {
		if one.last < number {
			return -1
		}
		return 1
	})
	return i
}

func (s spans) has(number uint64) bool {
	i := s.find(number)
	return i < len(s) && s[i].first <= number
}

// touches reports whether a number that s lacks adds to a span that it has.
func (s spans) touches(number uint64) bool {
	i := s.find(number)
	return i > 0 && s[i-1].last+1 == number || i < len(s) && s[i].first == number+1
}

// with adds a number that s lacks.
func (s spans) with(number uint64) spans {
	i := s.find(number)
	after := i < len(s) && s[i].first == number+1
	if i > 0 && s[i-1].last+1 == number {
		s[i-1].last = number
		if after {
			s[i-1].last = s[i].last
			s = slices.Delete(s, i, i+1)
		}
		return s
	}
	if after {
		s[i].first = number
		return s
	}
	s = slices.Insert(s, i, span{number, number})
	if len(s) > maxGaps {
		s[1].first = s[0].first
		s = s[1:]
	}
	return s
}
