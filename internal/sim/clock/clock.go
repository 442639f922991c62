// Package clock gives a GPU's time as its own clock shows it: off the true time by up to 20 µs, and
// drifting.
package clock

import (
	"math"

	"github.com/kernhes/kernhes/internal/sim/program"
)

// Most is how far a clock is off, in ns.
const Most = 20_000

// A Clock is one GPU's. The zero Clock is true.
type Clock struct {
	amplitude float64 // ns
	period    float64 // ns
	phase     float64
}

// New is the clock of a rank.
func New(seed uint64, rank int) Clock {
	x := float64((seed*7919+uint64(rank)*104729)%1000) / 1000
	return Clock{amplitude: Most * (0.4 + 0.6*x), period: 60e9 * (1 + x), phase: 2 * math.Pi * (x + float64(rank)*0.37)}
}

// Offset is what the clock adds at a true time, in ns: whole ticks. It holds for a step, so that
// times within one are exact.
func (c Clock) Offset(t int64) int64 {
	if c.amplitude == 0 {
		return 0
	}
	return int64(c.amplitude*math.Sin(2*math.Pi*float64(t%int64(c.period))/c.period+c.phase)/program.Tick) * program.Tick
}
