package device

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/cupti"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

// A card is a device's time, ns by ns, kept beside the account under test. Nothing in it is worked out from anything else: idle
// is a nanosecond in which it saw no kernel.
type card struct {
	first     uint64
	watermark uint64
	ends      []span.Span // kernels that came in time
	runs      [200][4]bool
	unknown   [200][Whys]bool
}

// took notes a span that came.
func (c *card) took(s span.Span) {
	for at := max(s.Start, c.watermark); at < s.End(); at++ {
		c.runs[at][s.Class()] = true
	}
	if s.Class() != span.Copy {
		c.ends = append(c.ends, s)
	}
}

// lost has idle from what is accounted up to t be unknown for a reason.
func (c *card) lost(t uint64, why Why) {
	for at := c.watermark; at < t; at++ {
		c.unknown[at][why] = true
	}
}

// advance moves the watermark by the rule of Advance.
func (c *card) advance(watermark, hold uint64) {
	end := uint64(0)
	for _, s := range c.ends {
		if s.Start < watermark {
			if c.first == 0 || s.Start < c.first {
				c.first = s.Start
			}
			if s.Class() != span.Spin {
				end = max(end, s.End())
			}
		}
	}
	if c.first == 0 {
		return
	}
	c.watermark = max(c.watermark, c.first)
	if watermark > end && watermark-end <= hold {
		watermark = end
	}
	c.watermark = max(c.watermark, watermark)
}

func (c *card) time() (t Time) {
	t.First, t.Watermark = c.first, c.watermark
	for at := c.first; at < c.watermark; at++ {
		r := c.runs[at]
		switch {
		case r[span.Compute]:
			t.Compute++
			if r[span.Comm] {
				t.Overlapped++
			}
		case r[span.Comm]:
			t.Comm++
		default:
			if r[span.Copy] {
				t.Copy++
			}
			switch u := c.unknown[at]; {
			case u[OutsideWindow]:
				t.UnknownBy[OutsideWindow]++
			case u[Yielded]:
				t.UnknownBy[Yielded]++
			case u[Off]:
				t.UnknownBy[Off]++
			case u[Loss]:
				t.UnknownBy[Loss]++
			default:
				t.Idle++
			}
		}
	}
	for _, ns := range t.UnknownBy {
		t.Unknown += ns
	}
	return t
}

// TestDeviceTimeAgreesWithCountingEachNanosecond gives random spans in random order, as a watermark allows: none starts before it.
func TestDeviceTimeAgreesWithCountingEachNanosecond(t *testing.T) {
	for seed := range uint64(4000) {
		rng := rand.New(rand.NewPCG(seed, 6))
		var waiting []span.Span
		for range 1 + rng.IntN(25) {
			start := 1 + rng.Uint64N(140)
			waiting = append(waiting, span.Make(start, start+rng.Uint64N(20), span.Class(rng.IntN(4))))
		}
		if rng.IntN(3) == 0 {
			span.Sort(waiting)
		}
		var a Account
		var c card
		var late uint64
		var columns *cupti.Columns
		hold := rng.Uint64N(60)
		log := fmt.Sprint("seed ", seed)
		for at := uint64(0); at < 199; at += 1 + rng.Uint64N(40) {
			// What starts before the next watermark comes, and some of the rest.
			waiting = slices.DeleteFunc(waiting, func(s span.Span) bool {
				if s.Start >= at && rng.IntN(3) > 0 {
					return false
				}
				if columns == nil || rng.IntN(4) == 0 {
					columns = &cupti.Columns{}
				}
				from := len(columns.Spans)
				columns.Add(s, 0)
				late += a.Add(uint64(rng.IntN(3)), columns.Since(from))
				c.took(s)
				log += fmt.Sprintf("; %s %d-%d", s.Class(), s.Start, s.End())
				return true
			})
			if rng.IntN(4) == 0 {
				until, why := rng.Uint64N(190), Why(rng.IntN(int(Whys)))
				a.Lost(until, why)
				c.lost(until, why)
				log += fmt.Sprintf("; %s %d", WhyNames[why], until)
			}
			a.Advance(at, hold)
			c.advance(at, hold)
			log += fmt.Sprintf("; advance %d hold %d", at, hold)
			if got, want := a.Time(), c.time(); got != want {
				t.Fatalf("%s\n got %+v\nwant %+v", log, got, want)
			}
		}
		if late != 0 {
			t.Fatalf("%s: %d late", log, late)
		}
		end := uint64(0)
		for _, s := range c.ends {
			if s.Class() != span.Spin {
				end = max(end, s.End())
			}
		}
		a.Finish()
		c.watermark = max(c.watermark, end)
		if got, want := a.Time(), c.time(); got != want {
			t.Fatalf("%s; finish\n got %+v\nwant %+v", log, got, want)
		}
	}
}
