package history

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var begin = time.Unix(1_800_000_000, 0) // a whole minute

// decode is the set of most steps here.
var decode = Set{"decode", "64", "4096"}

// A player reads ranks once a tick, each of which does in a second what its rates say.
type player struct {
	h     *History
	now   time.Time
	ranks []*Reading
}

func newPlayer(ranks int) *player {
	p := &player{h: New(), now: begin}
	for n := range ranks {
		p.ranks = append(p.ranks, &Reading{
			Key: Key{"r", int64(n)}, PID: "7", Tracing: true, Mode: "software", LastStep: uint64(begin.UnixNano()), Sets: map[Set]Sums{},
		})
	}
	p.h.Observe(p.now, p.readings())
	return p
}

func (p *player) readings() (all []Reading) {
	for _, r := range p.ranks {
		all = append(all, *r)
	}
	return all
}

// play goes on for a time, with 10 steps of 100 ms a second on each rank: 40 ms compute, 50 ms comm, 10 ms idle.
func (p *player) play(d time.Duration, change func(*Reading)) {
	for end := p.now.Add(d); p.now.Before(end); {
		p.now = p.now.Add(Tick)
		for _, r := range p.ranks {
			n := uint64(Tick / time.Second)
			r.Counters.Compute += n * 400e6
			r.Counters.Comm += n * 500e6
			r.Counters.Idle += n * 100e6
			r.Counters.Steps += 10 * n
			s := r.Sets[decode]
			r.Sets[decode] = Sums{s.Steps + 10*n, s.Wall + n*1e9, s.Compute + n*400e6}
			if change != nil {
				change(r)
			}
		}
		p.h.Observe(p.now, p.readings())
	}
}

func TestAStripHasTheLast15Minutes(t *testing.T) {
	p := newPlayer(1)
	p.play(20*time.Minute, nil)
	v := p.h.At(p.now)
	require.Len(t, v.Runs, 1)
	r := v.Runs[0].Ranks[0]
	require.Len(t, r.Strip, 180)
	for i, s := range r.Strip {
		assert.InDelta(t, 0.4, s.Compute, 1e-9, i)
		assert.InDelta(t, 0.5, s.Comm, 1e-9, i)
		assert.InDelta(t, 0.1, s.Idle, 1e-9, i)
	}
	assert.InDelta(t, 10, r.Steps, 1e-9)
	assert.InDelta(t, 0.1, r.Mean, 1e-9)
	assert.Equal(t, 1.0, r.Ratio)
	assert.Empty(t, v.Verdicts)

	// A minute in which nothing is heard has no share.
	v = p.h.At(p.now.Add(time.Minute))
	assert.Equal(t, Share{}, v.Runs[0].Ranks[0].Strip[179])
	assert.InDelta(t, 0.4, v.Runs[0].Ranks[0].Strip[179-12].Compute, 1e-9)
}

func TestASlowRankIsNamedWithHowItIsSlow(t *testing.T) {
	p := newPlayer(4)
	p.play(2*time.Minute, func(r *Reading) {
		if r.Rank == 2 { // a fifth more compute
			s := r.Sets[decode]
			s.Compute += uint64(Tick/time.Second) * 80e6
			r.Sets[decode] = s
		}
	})
	v := p.h.At(p.now)
	assert.InDelta(t, 1.2, v.Runs[0].Ranks[2].Ratio, 1e-9)
	assert.InDelta(t, 1.0, v.Runs[0].Ranks[1].Ratio, 1e-9)
	require.Len(t, v.Verdicts, 1)
	assert.Equal(t, "KernSlowRank", v.Verdicts[0].Alert)
	assert.Equal(t, "Rank 2 of run r is slow (compute): it computes 20% longer than the fastest rank for equal batches.", v.Verdicts[0].Text)

	p = newPlayer(4)
	p.play(2*time.Minute, func(r *Reading) {
		if r.Rank == 3 { // 50 ms a second of another program
			r.Counters.Foreign += uint64(Tick/time.Second) * 50e6
		}
	})
	v = p.h.At(p.now)
	assert.InDelta(t, 1.125, v.Runs[0].Ranks[3].RatioAll, 1e-9, "450 ms over 400 ms")
	assert.InDelta(t, 1.0, v.Runs[0].Ranks[3].Ratio, 1e-9)
	require.Len(t, v.Verdicts, 1)
	assert.Equal(t, "Rank 3 of run r is slow (foreign): other work computes on its GPU 5% of the time.", v.Verdicts[0].Text)
}

// Rank 0 launches late: the others wait 0.6 s a second for it, together. Rank 1 prefills, and they wait for that too.
func TestARankThatOthersWaitForIsNamed(t *testing.T) {
	p := newPlayer(4)
	p.play(2*time.Minute, func(r *Reading) {
		if r.Waits == nil {
			r.Waits = map[string]Wait{}
		}
		add := func(cause string, wait, blame uint64) {
			n := uint64(Tick / time.Second)
			r.Waits[cause] = Wait{r.Waits[cause].Wait + n*wait, r.Waits[cause].Blame + n*blame}
			r.Counters.Wait, r.Counters.Blame = r.Counters.Wait+n*wait, r.Counters.Blame+n*blame
		}
		switch r.Rank {
		case 0:
			add("host", 0, 600e6)
		case 1:
			add("peer_prefill", 0, 900e6)
			add("host", 200e6, 0)
		default:
			add("host", 200e6, 0)
			add("peer_prefill", 450e6, 0)
		}
	})
	v := p.h.At(p.now)
	require.Len(t, v.Verdicts, 1)
	assert.Equal(t, Verdict{"KernRankWaitedFor", "r", 0, "Rank 0 of run r keeps the others waiting: they lose 15% of their time."}, v.Verdicts[0])
	require.Len(t, v.Runs[0].Waits, 2)
	assert.Equal(t, "peer_prefill", v.Runs[0].Waits[0].Cause)
	assert.InDelta(t, 0.9/4, v.Runs[0].Waits[0].Share, 1e-9)
	assert.InDelta(t, 0.6/4, v.Runs[0].Waits[1].Share, 1e-9)
	assert.InDelta(t, 0.65, v.Runs[0].Ranks[2].Wait, 1e-9)
	assert.InDelta(t, 0.6, v.Runs[0].Ranks[0].Blame, 1e-9)
}

// Work outside steps that all ranks do, as sampling of tokens, is no fault.
func TestWhatAllRanksDoIsNoFault(t *testing.T) {
	p := newPlayer(4)
	p.play(2*time.Minute, func(r *Reading) { r.Counters.Foreign += uint64(Tick/time.Second) * 50e6 })
	assert.Empty(t, p.h.At(p.now).Verdicts)
}

func TestEnginesThatEndAreNamed(t *testing.T) {
	for down, alert := range map[string]string{"gone": "KernEngineGone", "hung": "KernHang", "silent": "KernHang", "ended": ""} {
		p := newPlayer(1)
		p.play(time.Minute, nil)
		p.ranks[0].Down = down
		p.h.Observe(p.now, p.readings())
		v := p.h.At(p.now)
		if alert == "" {
			assert.Empty(t, v.Verdicts, down)
			continue
		}
		require.Len(t, v.Verdicts, 1, down)
		assert.Equal(t, alert, v.Verdicts[0].Alert)
	}
}

func TestLossesUnknownTimeAndCostAreNamed(t *testing.T) {
	p := newPlayer(1)
	p.play(2*time.Minute, func(r *Reading) {
		r.Counters.Dropped += 2
		r.Counters.Unknown += uint64(Tick/time.Second) * 100e6 // 1/11 of the time
		r.Counters.Cost += uint64(Tick/time.Second) * 100e6    // a tenth of the steps' time
	})
	var alerts []string
	for _, v := range p.h.At(p.now).Verdicts {
		alerts = append(alerts, v.Alert+": "+v.Text)
	}
	assert.Equal(t, []string{
		"KernLosses: Rank 0 of run r lost 48 records in the last 15 minutes.", // 24 ticks
		"KernUnknownHigh: Rank 0 of run r has 9% of its time unknown.",
		"KernTraceCostHigh: Rank 0 of run r pays 10% of its step time for tracing.",
	}, alerts)
}

// Prefill steps of a second become more: the mean step grows, but no step takes longer.
func TestAChangeOfTheMixIsNoChangeInside(t *testing.T) {
	prefill := Set{"prefill", "32768", "4096"}
	p := newPlayer(1)
	also := func(a uint64) func(*Reading) {
		return func(r *Reading) {
			s := r.Sets[prefill]
			r.Sets[prefill] = Sums{s.Steps + a, s.Wall + a*1e9, s.Compute + a*1e9}
		}
	}
	p.play(3*time.Minute, also(5)) // of 55 steps a tick, 5 take 1 s: (50*0.1 + 5)/55
	p.play(13*time.Minute, also(10))
	c := p.h.At(p.now).Runs[0].Changed
	require.NotNil(t, c)
	assert.InDelta(t, 10.0/55, c.Before, 1e-9)
	assert.InDelta(t, 15.0/60, c.Now, 1e-9)
	assert.InDelta(t, 0, c.Inside, 1e-9)
	assert.InDelta(t, c.Now-c.Before, c.Mix, 1e-9)
}

// TestAChangeInsideAndOfTheMixAddUp: 15 minutes ago each second had 10 decode steps of 100 ms and no other. Now it has 10 of
// 160 ms and 10 prefill steps of 200 ms.
func TestAChangeInsideAndOfTheMixAddUp(t *testing.T) {
	p := newPlayer(1)
	p.play(2*time.Minute, nil)
	p.play(14*time.Minute, func(r *Reading) {
		n := uint64(Tick / time.Second)
		s := r.Sets[decode]
		r.Sets[decode] = Sums{s.Steps, s.Wall + 10*n*60e6, s.Compute}
		prefill := Set{"prefill", "1", "0"}
		s = r.Sets[prefill]
		r.Sets[prefill] = Sums{s.Steps + 10*n, s.Wall + 10*n*200e6, s.Compute}
	})
	c := p.h.At(p.now).Runs[0].Changed
	require.NotNil(t, c)
	assert.InDelta(t, 0.100, c.Before, 1e-9)
	assert.InDelta(t, 0.180, c.Now, 1e-9)
	assert.InDelta(t, 0.060*(1+0.5)/2, c.Inside, 1e-9, "decode takes 60 ms longer; it was all steps and is half")
	assert.InDelta(t, 0.180-0.100-0.045, c.Mix, 1e-9)
}

func TestARestartOfTheEngineBeginsAnew(t *testing.T) {
	p := newPlayer(1)
	p.play(time.Minute, nil)
	p.ranks[0].PID, p.ranks[0].Counters, p.ranks[0].Sets = "8", Counters{}, map[Set]Sums{}
	p.h.Observe(p.now, p.readings())
	p.play(time.Minute, nil)
	assert.InDelta(t, 10, p.h.At(p.now).Runs[0].Ranks[0].Steps, 1e-9)
}

func TestRunsAreForgottenAndBounded(t *testing.T) {
	h := New()
	for i := range 40 {
		h.Observe(begin.Add(time.Duration(i)*time.Second), []Reading{{Key: Key{string(rune('A' + i)), 0}}})
	}
	assert.Len(t, h.At(begin).Runs, maxRuns)
	h.Observe(begin.Add(Span+time.Minute), nil)
	assert.Empty(t, h.At(begin).Runs)

	var many []Reading
	for n := range int64(300) {
		many = append(many, Reading{Key: Key{"r", n}})
	}
	h.Observe(begin, many)
	v := h.At(begin).Runs[0]
	assert.Len(t, v.Ranks, maxRank)
	assert.EqualValues(t, 300-maxRank, v.Beyond)
}

// A thousand steps of 1 to 10 ms in equal distances: quantiles are known, to 1%.
func TestQuantilesAreExactTo1Percent(t *testing.T) {
	h := New()
	for i := range 1000 {
		wall := uint64(1e6 + 9e3*float64(i))
		h.Take(begin, &Step{Key: Key{"r", 0}, Set: decode, Seq: 1, Start: 1e15, End: 1e15 + wall}, func() []Kernel { return nil })
	}
	s := h.At(begin).Runs[0].Sets[0]
	assert.EqualValues(t, 1000, s.Steps)
	assert.InEpsilon(t, 5.4955e-3, s.P50, 0.0105)
	assert.InEpsilon(t, 9.91e-3, s.P99, 0.0105)
	for _, wall := range []uint64{0, 1, 10_000, 10_001, 123_456_789, 5e12, math.MaxUint64} {
		b := bucketOf(wall)
		assert.True(t, b >= 0 && b < maxBuckets, wall)
		if wall > smallest && wall < 1e12 {
			assert.InEpsilon(t, float64(wall), middle(b), 0.0101)
		}
	}
}

func TestIncompleteStepsCountInNoQuantile(t *testing.T) {
	h := New()
	h.Take(begin, &Step{Key: Key{"r", 0}, Set: decode, Reason: "engine_gone", End: 5e9}, func() []Kernel { return nil })
	assert.Empty(t, h.At(begin).Runs[0].Sets)
	assert.Len(t, h.Steps(Key{"r", 0}), 1)
}

func TestTheSameStepsAreKeptOnAllRanks(t *testing.T) {
	h := New()
	asked := 0
	for seq := range uint64(2000) {
		now := begin.Add(time.Duration(seq) * 33 * time.Millisecond)
		for rank := range int64(2) {
			start := uint64(now.UnixNano())
			h.Take(now, &Step{Key: Key{"r", rank}, Set: decode, Seq: seq, Start: start, End: start + 20e6, Kernels: 2}, func() []Kernel {
				asked++
				return []Kernel{{Call: fmt.Sprintf("layers.%d.a", seq), Start: start, Dur: 10e6}, {Call: "b", Comm: true, Start: start + 10e6, Dur: 5e6 * uint64(rank+1)}}
			})
		}
	}
	assert.Less(t, asked, 2*(2000/128+8), "one step in 128, the slowest of each minute, and one each 15 s")
	assert.Len(t, h.Steps(Key{"r", 1}), keptSteps)
	assert.EqualValues(t, 1999, h.Steps(Key{"r", 1})[keptSteps-1].Seq)
	both := h.Detailed("r", 1920) // 15 * 128
	require.Len(t, both, 2)
	assert.EqualValues(t, 1, both[1].Rank)
	assert.True(t, h.Kept(Key{"r", 0})[1920])
	assert.False(t, h.Kept(Key{"r", 0})[1921])

	calls := h.At(begin.Add(66 * time.Second)).Runs[0].Calls
	require.Len(t, calls, 2)
	assert.Equal(t, CallView{Program: "decode", Call: "layers.*.a", Seconds: 0.010, Share: 20.0 / 35, Slowest: 0, Ratio: 1}, calls[0])
	assert.Equal(t, "b", calls[1].Call)
	assert.InDelta(t, 0.0075, calls[1].Seconds, 1e-9, "5 ms and 10 ms")
	assert.EqualValues(t, 1, calls[1].Slowest)
	assert.InDelta(t, 2, calls[1].Ratio, 1e-9)
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	h := New()
	for i := range 200 {
		h.Take(begin, &Step{Key: Key{"r", 0}, Set: Set{string(rune('A' + i)), "", ""}, End: 5e9, Kernels: maxKernels + 1}, func() []Kernel {
			t.Error("the kernels of a step with too many")
			return nil
		})
	}
	assert.LessOrEqual(t, len(h.runs["r"].sets), maxSets+1)
	assert.EqualValues(t, 200-maxSets, h.runs["r"].sets[other].minutes[begin.Unix()/60%minutes].counts[bucketOf(5e9)-h.runs["r"].sets[other].minutes[begin.Unix()/60%minutes].low])
}

// 64 ranks for 15 minutes with 30 label sets, steps of 700 kernels: all that the page may remember.
func TestMemoryOf64Ranks(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	h := New()
	sets := make([]Set, 30)
	for i := range sets {
		sets[i] = Set{"decode", fmt.Sprint(i), "4096"}
	}
	sums := map[Set]Sums{}
	for tick := range Bins {
		now := begin.Add(time.Duration(tick) * Tick)
		for _, s := range sets {
			sums[s] = Sums{Steps: uint64(tick)}
		}
		var readings []Reading
		for n := range int64(64) {
			readings = append(readings, Reading{Key: Key{"r", n}, Sets: sums})
			for i := range uint64(8) {
				step := Step{Key: Key{"r", n}, Set: sets[i], Seq: 128 * (uint64(tick)*8 + i), Start: 1e15, End: 1e15 + 1e6*(uint64(tick)+i), Kernels: 700}
				h.Take(now, &step, func() []Kernel { return make([]Kernel, 700) })
			}
		}
		h.Observe(now, readings)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(h)
	assert.Less(t, after.HeapAlloc-before.HeapAlloc, uint64(20<<20), "bytes")
	t.Log(after.HeapAlloc-before.HeapAlloc, "bytes")
}

// TestSharesAreOfTracedTime: 97 of 100 s lay outside windows; of the other three two were compute, and a tenth of one was lost.
func TestSharesAreOfTracedTime(t *testing.T) {
	got := share(Counters{Compute: 2e9, Idle: 0.9e9, Unknown: 97.1e9, Untraced: 97e9})
	require.InDelta(t, 2.0/3, got.Compute, 1e-9)
	require.InDelta(t, 0.3, got.Idle, 1e-9)
	require.InDelta(t, 0.1/3, got.Unknown, 1e-9)
	require.InDelta(t, 0.03, got.Traced, 1e-9)
	require.Equal(t, Share{}, share(Counters{Unknown: 5, Untraced: 5}), "nothing was traced")
}

// What the page costs while nobody looks: 33 steps a second of a rank, and a look at 64 ranks each 5 s.
func BenchmarkTake(b *testing.B) {
	h := New()
	kernels := make([]Kernel, 700)
	for i := 0; b.Loop(); i++ {
		h.Take(begin, &Step{Key: Key{"r", 0}, Set: decode, Seq: uint64(i), Start: 1e15, End: 1e15 + 7e6, Kernels: 700}, func() []Kernel {
			return slices.Clone(kernels)
		})
	}
}

func BenchmarkObserve64Ranks(b *testing.B) {
	sums := map[Set]Sums{}
	for i := range 30 {
		sums[Set{"decode", fmt.Sprint(i), "4096"}] = Sums{Steps: 1}
	}
	var readings []Reading
	for n := range int64(64) {
		readings = append(readings, Reading{Key: Key{"r", n}, Sets: sums})
	}
	h := New()
	for i := 0; b.Loop(); i++ {
		h.Observe(begin.Add(time.Duration(i)*Tick), readings)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{7}, 7}, {[]float64{9, 1}, 5}, {[]float64{30, 1, 2}, 2}, {[]float64{9, 100, 1, 5}, 7}, {[]float64{5, 4, 3, 2, 1}, 3}} {
		for range 20 { // a map has no order
			of := map[int64]float64{}
			for i, v := range c.values {
				of[int64(i)] = v
			}
			assert.Equal(t, c.want, median(of), c.values)
		}
	}
}
