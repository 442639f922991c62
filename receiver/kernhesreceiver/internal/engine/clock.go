package engine

import "github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/cupti"

// A hostClock is the time of the engine's host, as far as its frames tell it.
type hostClock struct {
	since     uint64 // unix ns by the collector's clock: when the account began
	now       uint64 // engine's clock, unix ns; 0: nothing has told it
	active    uint64 // when the engine last did something, or a record came: engine's clock, unix ns
	stuck     bool   // a launch was given up since then
	monotonic uint64
}

// clock is the engine's time, for judging timestamps by.
func (c *hostClock) clock() uint64 {
	if c.now == 0 {
		return c.since
	}
	return c.now
}

// present is the clock by which the records of a frame are checked.
func (c *hostClock) present() cupti.Clock { return cupti.Clock{Now: c.clock()} }

// acted takes note that the engine does something.
func (c *hostClock) acted() { c.active, c.stuck = c.now, false }

// idle is how long the engine did nothing, ns.
func (c *hostClock) idle() uint64 { return max(c.now, c.active) - c.active }
