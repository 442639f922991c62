package sim

import (
	"bytes"
	"hash/fnv"
	"strings"
	"testing"
	"time"

	"github.com/kernhes/kernhes/internal/sim/clock"
	"github.com/kernhes/kernhes/internal/sim/fault"
	"github.com/kernhes/kernhes/internal/sim/program"
)

// run simulates into memory, and returns the truth and a hash of all frames.
func run(t *testing.T, change func(*Config)) (string, uint64, Result) {
	t.Helper()
	c := Defaults()
	c.Start, c.Steps, c.Load.Rate, c.Load.Prompt = time.Unix(1_700_000_000, 0), 20, 200, 500
	var truth bytes.Buffer
	h := fnv.New64a()
	c.Truth = &truth
	c.Emit = func(int, uint64) func(uint64, []byte) { return func(_ uint64, f []byte) { h.Write(f) } }
	change(&c)
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return truth.String(), h.Sum64(), r
}

// One seed gives one course, to the byte, another another.
func TestTheSeedDecides(t *testing.T) {
	truth, frames, r := run(t, func(*Config) {})
	again, same, _ := run(t, func(*Config) {})
	if truth != again || frames != same {
		t.Error("one seed gave two courses")
	}
	if other, _, _ := run(t, func(c *Config) { c.Seed = 2 }); other == truth {
		t.Error("two seeds gave one course")
	}
	if r.Steps != 20*4 || r.Kernels == 0 || r.Ended != "bye" {
		t.Errorf("%+v", r)
	}
}

// A restart is another run, whose seq begins anew; its first step comes after the last of the one
// before.
func TestARestart(t *testing.T) {
	restart := mustParse(t, "restart:at=60ms")
	truth, _, _ := run(t, func(c *Config) { c.Schedule = append(c.Schedule, restart); c.Steps = 6 })
	first, second, ok := strings.Cut(truth, `{"kind":"run","run":"sim-2"`)
	if !ok || strings.Count(first, `"kind":"rank"`) != 4 || strings.Count(second, `"kind":"rank"`) != 4 {
		t.Fatalf("no second run of four ranks:\n%s", truth)
	}
	if !strings.Contains(second, `"run":"sim-2","rank":0,"seq":0,`) || strings.Contains(second, `"run":"sim",`) {
		t.Error("the second run does not begin with seq 0")
	}
}

func TestValidate(t *testing.T) {
	c := Defaults()
	c.Duration, c.Flush, c.Bound, c.Load.Rate = 0, 0, 0, -1
	c.Schedule = append(c.Schedule, mustParse(t, "hang:rank=4"))
	err := c.Validate()
	for _, want := range []string{"duration", "flush", "bound", "rate", "rank 4 of 4"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

// Clocks of GPUs differ by up to 20 µs from the true time, in whole ticks, and drift by at most a
// tick in 10 ms.
func TestClocks(t *testing.T) {
	differ := false
	for rank := range 8 {
		c := clock.New(1, rank)
		var least, most int64
		for at := int64(0); at < 200e9; at += 10e6 {
			o := c.Offset(at)
			if o%program.Tick != 0 || o > clock.Most || o < -clock.Most {
				t.Fatalf("rank %d at %d: %d ns", rank, at, o)
			}
			if d := o - c.Offset(at+10e6); d > 32 || d < -32 {
				t.Fatalf("rank %d at %d: drifts by %d ns", rank, at, d)
			}
			least, most = min(least, o), max(most, o)
		}
		if most-least < 8_000 {
			t.Errorf("rank %d drifts from %d to %d only", rank, least, most)
		}
		differ = differ || c.Offset(0) != clock.New(1, 0).Offset(0)
	}
	if !differ {
		t.Error("all clocks are one")
	}
}

func mustParse(t *testing.T, text string) *fault.Event {
	t.Helper()
	e, err := fault.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
