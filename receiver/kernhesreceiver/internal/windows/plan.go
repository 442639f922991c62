package windows

import (
	"math"
	"time"
)

// firstSlowdown is what windows are taken to cost before that was measured: software tracing of an engine that waits for each step.
const firstSlowdown = 0.25

// A plan is how the windows of a run are to be.
type plan struct {
	length time.Duration
	apart  int64 // every so many multiples of Settings.Every
}

// planned is the plan that keeps to the budget: a window costs its length × slowdown, and the time for which its edges hold the
// engine. Lengths are the shortest × 2^n, so that collectors that each see some ranks of a run mostly agree. The length is at most
// twice that of the plan before, and at least half, unless before is none.
func (s *Settings) planned(slowdown float64, held time.Duration, before plan) plan {
	slowdown = min(max(slowdown, 0.001), 10)
	afford := func(apart int64) time.Duration { // the length that the budget of so many multiples pays for
		most := float64(s.Longest)
		return time.Duration(min((s.Budget*float64(s.Every)*float64(apart)-float64(held))/slowdown, most, float64(s.Every)/2))
	}
	p := plan{apart: 1}
	for afford(p.apart) < s.Shortest && p.apart < maxApart {
		p.apart++
	}
	n := math.Floor(math.Log2(float64(max(afford(p.apart), s.Shortest)) / float64(s.Shortest)))
	p.length = s.Shortest << int(n)
	if before.length > 0 {
		p.length = min(max(p.length, before.length/2), before.length*2)
	}
	p.length = min(max(p.length, s.Shortest), s.Longest)
	return p
}

// maxApart bounds how rare windows get when they cost much: one in so many multiples.
const maxApart = 64

// spaced is how much rarer windows get as the process uses up those that it may open: CUPTI keeps memory for each.
func spaced(left uint64) int64 {
	switch {
	case left > 1000:
		return 1
	case left > 300:
		return 4
	case left > 100:
		return 16
	}
	return maxApart
}

// next is the first start of a window by the clock that is not before a time.
func (s *Settings) next(from time.Time, apart int64) time.Time {
	every := int64(s.Every) * apart
	n := (from.UnixNano() + every - 1) / every
	return time.Unix(0, n*every)
}
