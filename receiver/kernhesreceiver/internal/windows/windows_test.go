package windows

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var settings = Settings{Every: 5 * time.Minute, Budget: 0.01, Shortest: 500 * time.Millisecond, Longest: 16 * time.Second, Closer: true}

// begin is 20 s after a multiple of five minutes.
var begin = time.Unix(1_800_000_000, 0).Add(20 * time.Second)

// traffic is the steps of a run of several ranks that compute the same batches: requests come and go, and their contexts grow.
type traffic struct {
	rng    *rand.Rand
	ranks  int
	device bool
	now    time.Time
	seqs   []int // context of each request
	c      *Controller
	orders []Order
	ticked time.Time
	// stretch is what a rank's steps take at a time, in terms of what they would.
	stretch func(rank int, at time.Time) float64
}

func newTraffic(seed uint64, set Settings) *traffic {
	return &traffic{
		rng: rand.New(rand.NewPCG(seed, 1)), ranks: 4, device: true, now: begin, c: New(set, 0),
		stretch: func(int, time.Time) float64 { return 1 },
	}
}

// step is a decode step of all ranks: 8 ms, and 20 µs a request, and 1 ms for each 100,000 tokens of context; noise of 2%, and one
// in a hundred takes up to three times as long.
func (f *traffic) step() {
	if f.rng.Float64() < 0.02 { // 1.5 requests a second
		f.seqs = append(f.seqs, 500+f.rng.IntN(4000))
	}
	kept := f.seqs[:0]
	total := 0
	for _, context := range f.seqs {
		if f.rng.Float64() > 1.0/2000 { // some 2,000 tokens a request
			kept = append(kept, context+1)
			total += context + 1
		}
	}
	f.seqs = kept
	n := int64(max(len(f.seqs), 1))
	base := 8e-3 + 20e-6*float64(n) + 1e-8*float64(total)
	longest := 0.0
	for rank := range f.ranks {
		took := base * math.Exp(0.02*f.rng.NormFloat64()) * f.stretch(rank, f.now)
		if f.rng.IntN(100) == 0 {
			took *= 1 + 2*f.rng.Float64()
		}
		traced := f.traced()
		if traced {
			took *= 1.25
		}
		longest = max(longest, took)
		if f.device {
			f.take(rank, n, int64(total)/n, took, true, traced)
		}
	}
	for rank := range f.ranks { // which wait for each other
		f.take(rank, n, int64(total)/n, longest, false, f.traced())
	}
	f.now = f.now.Add(time.Duration(longest * 1e9))
	if f.now.Sub(f.ticked) >= 500*time.Millisecond {
		f.ticked = f.now
		f.orders = append(f.orders, f.c.Tick(f.now, f.live())...)
	}
}

func (f *traffic) take(rank int, n, context int64, seconds float64, device, traced bool) {
	f.c.Take(Step{
		Session: uint64(rank + 1), Run: "r", Rank: int64(rank), Bucket: Bucket{"decode", bucket(n), "4096"}, Work: Work(n, context),
		Took: time.Duration(seconds * 1e9), Device: device, At: f.now, Traced: traced,
	})
}

// traced reports whether a window is open.
func (f *traffic) traced() bool {
	o := f.last()
	return !f.now.Before(o.Start) && f.now.Before(o.End)
}

func (f *traffic) last() Order {
	if len(f.orders) == 0 {
		return Order{}
	}
	return f.orders[len(f.orders)-1]
}

func (f *traffic) live() (ranks []Rank) {
	for i := range f.ranks {
		ranks = append(ranks, Rank{Session: uint64(i + 1), Run: "r", Ready: true, Left: 4000})
	}
	return ranks
}

func bucket(n int64) string {
	edge := int64(1)
	for edge < n {
		edge *= 2
	}
	return time.Duration(edge).String()
}

// run plays for a while.
func (f *traffic) run(d time.Duration) {
	for end := f.now.Add(d); f.now.Before(end); {
		f.step()
	}
}

// closer are the orders that are not by the clock.
func (f *traffic) closer() (orders []Order) {
	for _, o := range f.orders {
		if o.Why != "by the clock" {
			orders = append(orders, o)
		}
	}
	return orders
}

// TestARankThatBecomesSlowerIsLookedAt: from some time on one rank's steps take 10% more. Within five seconds a window is open on all.
func TestARankThatBecomesSlowerIsLookedAt(t *testing.T) {
	for seed := range uint64(5) {
		f := newTraffic(seed, settings)
		change := begin.Add(12 * time.Minute)
		f.stretch = func(rank int, at time.Time) float64 {
			if rank == 2 && !at.Before(change) {
				return 1.10
			}
			return 1
		}
		f.run(12*time.Minute + 10*time.Second)
		orders := f.closer()
		require.Len(t, orders, 1, "seed %d", seed)
		o := orders[0]
		assert.True(t, o.Start.After(change) && o.Start.Before(change.Add(5*time.Second)), "seed %d: open %v after the change", seed, o.Start.Sub(change))
		assert.Equal(t, []uint64{1, 2, 3, 4}, o.Sessions)
		assert.Contains(t, o.Why, "the device time of steps of decode on rank 2 rose by ", "seed %d", seed)
	}
}

// TestIntervalsAreLookedAtWithoutDeviceTime: ranks wait for each other, so it is the interval of all that rises.
func TestIntervalsAreLookedAtWithoutDeviceTime(t *testing.T) {
	f := newTraffic(11, settings)
	f.device = false
	change := begin.Add(12 * time.Minute)
	f.stretch = func(rank int, at time.Time) float64 {
		return map[bool]float64{true: 1.10, false: 1}[rank == 2 && !at.Before(change)]
	}
	f.run(12*time.Minute + 10*time.Second)
	orders := f.closer()
	require.Len(t, orders, 1)
	assert.True(t, orders[0].Start.After(change) && orders[0].Start.Before(change.Add(5*time.Second)), "open %v after the change", orders[0].Start.Sub(change))
	assert.Contains(t, orders[0].Why, "the interval between steps of decode on rank")
}

// TestQuietTrafficIsNotLookedAt: an hour in which batches change, and nothing becomes slower.
func TestQuietTrafficIsNotLookedAt(t *testing.T) {
	f := newTraffic(7, settings)
	f.run(time.Hour)
	assert.LessOrEqual(t, len(f.closer()), 1, "%v", f.closer())
	byClock := 0
	for _, o := range f.orders {
		if strings.Contains(o.Why, "clock") {
			byClock++
			assert.Zero(t, o.Start.UnixNano()%int64(5*time.Minute), "at a multiple of five minutes")
		}
	}
	assert.Equal(t, 12, byClock)
	cost := f.c.State("r").Cost
	require.True(t, cost.Measured)
	assert.InDelta(t, 0.25, cost.Slowdown, 0.02, "as the traffic has it")
	assert.Less(t, cost.Share, 0.01, "the budget")
}

// TestNothingIsLookedAtIfItIsOff.
func TestNothingIsLookedAtIfItIsOff(t *testing.T) {
	off := settings
	off.Closer = false
	f := newTraffic(1, off)
	f.stretch = func(_ int, at time.Time) float64 {
		return map[bool]float64{true: 1.5, false: 1}[at.After(begin.Add(time.Minute))]
	}
	f.run(2 * time.Minute)
	assert.Empty(t, f.orders)
}

// TestLookingCloserHasABudget: steps that rise again and again open two windows, and then what 0.2% of the time pays for.
func TestLookingCloserHasABudget(t *testing.T) {
	f := newTraffic(3, settings)
	f.ranks = 1
	f.stretch = func(_ int, at time.Time) float64 { return math.Pow(1.3, math.Floor(at.Sub(begin).Minutes()/2)) }
	f.run(20 * time.Minute)
	// 9 rises; 20 minutes × 1% × 0.2 = 2.4 s of engine time, and 2 windows saved. A window costs 2 s × 0.25.
	n := len(f.closer())
	assert.GreaterOrEqual(t, n, 2)
	assert.LessOrEqual(t, n, 2+4+1)
}

// TestPlan, by hand: 1% of 5 minutes is 3 s.
func TestPlan(t *testing.T) {
	check := func(name string, slowdown float64, held time.Duration, before plan, length time.Duration, apart int64) {
		t.Helper()
		assert.Equal(t, plan{length, apart}, settings.planned(slowdown, held, before), name)
	}
	check("the first: 12 s are paid for", 0.25, 0, plan{}, 8*time.Second, 1)
	check("an engine that runs ahead: the longest", 0.04, 20*time.Millisecond, plan{}, 16*time.Second, 1)
	check("at most twice the one before", 0.04, 0, plan{length: 2 * time.Second}, 4*time.Second, 1)
	check("at least half", 3, 0, plan{length: 8 * time.Second}, 4*time.Second, 1)
	check("holds count: 3 s - 2.5 s = 0.5 s pay for 2 s", 0.25, 2500*time.Millisecond, plan{}, 2*time.Second, 1)
	check("holds of 10 s: every fourth", 0.25, 10*time.Second, plan{}, 8*time.Second, 4)
}

// TestCostIsOfEqualWork: prefills inside windows are no cost, and one bucket with steps on one side only says nothing.
func TestCostIsOfEqualWork(t *testing.T) {
	var c cost
	add := func(program string, n int, took time.Duration, traced bool) {
		for range n {
			c.step(&Step{Rank: 1, Bucket: Bucket{Program: program}, Took: took, At: begin, Traced: traced})
		}
	}
	add("decode", 100, 10*time.Millisecond, false)
	add("decode", 10, 11*time.Millisecond, true)
	add("prefill", 10, 400*time.Millisecond, true)
	got := c.sum()
	require.True(t, got.Measured)
	assert.InDelta(t, 0.10, got.Slowdown, 1e-9)
	c.hold(begin, 2, 60*time.Millisecond)
	assert.Equal(t, 30*time.Millisecond, c.sum().Held)
	// 10 decodes cost 10 ms; 10 prefills of 400 ms that are taken to be slower by a tenth cost 4 s / 11; and the holds.
	assert.InDelta(t, (0.110*0.1/1.1+4*0.1/1.1+0.060)/(1+0.110+4), c.sum().Share, 1e-9)
	c.step(&Step{Rank: 1, Took: 1, At: begin.Add(61 * time.Minute)})
	assert.False(t, c.sum().Measured, "an hour later")
}

// TestWindowsAreSpacedAsTheyRunOut, and none is ordered twice.
func TestWindowsAreSpacedAsTheyRunOut(t *testing.T) {
	starts := func(left uint64) (all []int64) {
		c := New(settings, 0)
		for at := begin; at.Before(begin.Add(6 * time.Hour)); at = at.Add(time.Second) {
			for _, o := range c.Tick(at, []Rank{{Session: 1, Run: "r", Ready: true, Windows: 4000 - left, Left: left}}) {
				all = append(all, o.Start.Unix())
			}
		}
		return all
	}
	assert.Len(t, starts(4000), 6*12)
	assert.Len(t, starts(900), 6*3)
	assert.Len(t, starts(50), 1, "every 320 minutes")
}

// TestOpen: who asks gets the window that is open, longer if need be.
func TestOpen(t *testing.T) {
	c := New(settings, 40)
	ranks := []Rank{{Session: 1, Run: "r", Ready: true}, {Session: 2, Run: "r"}}
	o, fresh := c.Open(begin, "r", ranks, 5*time.Second, "someone asked")
	require.True(t, fresh)
	assert.Equal(t, Order{41, "r", []uint64{1}, begin.Add(500 * time.Millisecond), begin.Add(5500 * time.Millisecond), "someone asked"}, o)
	_, fresh = c.Open(begin.Add(time.Second), "r", ranks, 2*time.Second, "another")
	assert.False(t, fresh, "it is open for longer")
	o, fresh = c.Open(begin.Add(2*time.Second), "r", ranks, 8*time.Second, "another")
	assert.True(t, fresh)
	assert.EqualValues(t, 41, o.ID)
	assert.Equal(t, begin.Add(10*time.Second), o.End)
}
