// Package windows turns what the steps of a run take into orders: when all of its ranks are to be traced, and for how long.
//
//	steps ──▶ cost of windows (cost.go) ──▶ length of the next one (plan.go) ──┐
//	      └─▶ a rank that became slower (watch.go) ──▶ a window at once ───────┴─▶ orders (controller.go)
//
// Time comes in as an argument. Nothing here knows sessions, frames or a clock.
package windows

import (
	"math"
	"time"
)

// Settings say how much is traced.
type Settings struct {
	Every    time.Duration // windows begin at multiples of this in unix time; 0: none by the clock
	Budget   float64       // share of step time that windows may cost
	Shortest time.Duration
	Longest  time.Duration
	Closer   bool // a window opens when a rank becomes slower
}

// A Bucket is steps of equal work.
type Bucket struct{ Program, Batch, KV string }

// A Step is what one step of a rank took.
type Step struct {
	Session uint64
	Run     string
	Rank    int64
	Bucket  Bucket
	Work    uint64        // equal for steps of the same size within the bucket; 0: the bucket is all that is known
	Took    time.Duration // device time by the engine's own measure, or else from this step's push to the next one's
	Device  bool          // it is device time
	At      time.Time     // of its push
	Traced  bool          // all of it lies in a window
	Cut     bool          // an edge of a window lies in it: it says nothing
}

// Work is a number that is equal for steps of about the same size: of equal tokens, from 16 on to an eighth of a doubling, and of
// equal tokens of context a sequence to a quarter of a doubling.
func Work(tokens, kv int64) uint64 {
	size := uint64(max(tokens, 0))
	if tokens > 16 {
		size = 16 + uint64(8*math.Log2(float64(tokens)/16))
	}
	context := uint64(0)
	if kv > 0 {
		context = 1 + uint64(4*math.Log2(float64(kv)))
	}
	return 1 + size<<16 + context
}
