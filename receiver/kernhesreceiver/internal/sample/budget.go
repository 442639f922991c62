package sample

import "time"

// A budget is spans that may be written: so many a second, and at most a second's at once. A step that needs more goes
// into debt, which is paid before the next trace is admitted; so the mean holds whatever comes.
type budget struct {
	rate float64 // spans a second
	left float64
	at   time.Time
}

// debt is how far other ranks of an admitted trace may go into it, and how large a step may be at all, in seconds: a
// prefill of 30,000 kernels on one rank is 6 s at the default of 10,000.
const debt = 10

func newBudget(rate int) budget { return budget{rate: float64(rate), left: float64(rate)} }

// take takes n spans, and reports whether they were to be had. admitted says that their trace has been begun.
func (b *budget) take(n int, admitted bool, now time.Time) bool {
	if d := now.Sub(b.at); d > 0 {
		if !b.at.IsZero() {
			b.left = min(b.rate, b.left+b.rate*d.Seconds())
		}
		b.at = now
	}
	need := float64(n)
	switch {
	case need > debt*b.rate:
		return false
	case admitted && b.left-need < -debt*b.rate:
		return false
	case !admitted && b.left < min(need, b.rate):
		return false
	}
	b.left -= need
	return true
}
