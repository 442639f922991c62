package sample

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/median"
)

// A bench offers steps to a Sampler; each item is the step's name.
type bench struct {
	*Sampler[string]
	now time.Time
}

func newBench(cfg Config) *bench {
	if cfg.Spans == 0 {
		cfg.Spans = 10_000
	}
	if cfg.Keep == 0 {
		cfg.Keep, cfg.KeepBytes = 2*time.Second, 1<<20
	}
	return &bench{New[string](cfg), time.Unix(1000, 0)}
}

// id is a trace id that no ratio above 1 chooses.
func id(seq uint64) (id [16]byte) {
	binary.BigEndian.PutUint64(id[:], seq)
	return id
}

func candidate(name string, seq uint64, rank int64, wall uint64) Candidate[string] {
	return Candidate[string]{
		Trace: id(seq), Series: 1, Seq: seq, Rank: rank, Wall: wall, Kernels: 99, Bytes: 1000, Item: name,
	}
}

// offer returns the names and reasons of what is picked.
func (b *bench) offer(c Candidate[string]) (names []string) {
	return named(b.Offer(c, b.now, nil))
}

func named(picks []Pick[string]) (names []string) {
	for _, p := range picks {
		names = append(names, p.Item+" "+string(p.Why))
	}
	return names
}

// settle shows a series' usual wall time, 1 ms.
func (b *bench) settle() {
	for range settled {
		b.offer(candidate("usual", 1<<40, 0, 1e6))
	}
	b.now = b.now.Add(time.Minute)
}

func TestRatioChoosesByTraceAlone(t *testing.T) {
	const n, oneIn = 200_000, 100
	random := rand.New(rand.NewPCG(1, 2))
	a, b := newBench(Config{OneIn: oneIn, Spans: 1 << 30}), newBench(Config{OneIn: oneIn, Spans: 1 << 30})
	chosen := 0
	for range n {
		c := candidate("step", 0, 0, 0)
		binary.BigEndian.PutUint64(c.Trace[:], random.Uint64())
		binary.BigEndian.PutUint64(c.Trace[8:], random.Uint64())
		other := c
		other.Rank, other.Kernels, other.Series = 1, 5, 7
		got := a.offer(c)
		require.Equal(t, got, b.offer(other), "another collector, another rank: the same verdict")
		chosen += len(got)
	}
	assert.InDelta(t, n/oneIn, chosen, 5*45, "5 standard deviations") // √2000 = 45

	all := newBench(Config{OneIn: 1})
	assert.Equal(t, []string{"step ratio"}, all.offer(candidate("step", 0, 0, 0)))
	assert.Empty(t, newBench(Config{}).offer(candidate("step", 0, 0, 0)))
}

func TestSlowIsAboveTheMedianOfItsSeries(t *testing.T) {
	b := newBench(Config{Slow: 1.5})
	assert.Empty(t, b.offer(candidate("first", 1, 0, 1e9)), "no step is slow before there is a median")
	b.settle()
	assert.Empty(t, b.offer(candidate("bound", 2, 0, 15e5)))
	assert.Equal(t, []string{"above slow"}, b.offer(candidate("above", 3, 0, 15e5+1)))
	assert.Empty(t, b.offer(candidate("incomplete", 4, 0, 0)))
	other := candidate("other", 5, 0, 15e5+1)
	other.Series = 2
	assert.Empty(t, b.offer(other))

	// What was slow becomes usual.
	for seq := range uint64(median.Window) {
		b.offer(candidate("new", 100+seq, 0, 3e6))
	}
	b.now = b.now.Add(time.Minute)
	assert.Empty(t, b.offer(candidate("usual now", 6, 0, 4e6)))
}

func TestOtherRanksOfASlowTraceArePicked(t *testing.T) {
	b := newBench(Config{Slow: 1.5})
	b.settle()
	assert.Empty(t, b.offer(candidate("rank 0 before", 7, 0, 1e6)))
	assert.Empty(t, b.offer(candidate("rank 0 another", 8, 0, 1e6)))
	b.now = b.now.Add(1900 * time.Millisecond)
	assert.Equal(t, []string{"rank 1 slow", "rank 0 before slow"}, b.offer(candidate("rank 1", 7, 1, 9e6)))
	b.now = b.now.Add(5 * time.Second)
	assert.Equal(t, []string{"rank 2 after slow"}, b.offer(candidate("rank 2 after", 7, 2, 1e6)))
	b.now = b.now.Add(remembered)
	assert.Empty(t, b.offer(candidate("rank 3 too late", 7, 3, 1e6)))

	b.now = b.now.Add(2001 * time.Millisecond)
	assert.Equal(t, []string{"rank 1 slow"}, b.offer(candidate("rank 1", 8, 1, 9e6)), "rank 0's is forgotten after 2 s")
	assert.Zero(t, b.Counts())
}

func TestKeptStepsAreBounded(t *testing.T) {
	b := newBench(Config{Slow: 1.5})
	b.settle()
	for seq := range uint64(5000) {
		b.offer(candidate("kept", seq, 0, 1e6))
		assert.LessOrEqual(t, b.kept.bytes, 1<<20)
	}
	assert.EqualValues(t, 5000-1048, b.Counts().Forgotten, "1 MiB holds 1,048 steps of 1,000 bytes")
	assert.Len(t, b.offer(candidate("other", 5000-1048+1, 1, 9e6)), 2, "the oldest that is kept still")
	assert.Len(t, b.offer(candidate("other", 5000-1048-1, 1, 9e6)), 1, "and the one before is gone")

	large := candidate("large", 1<<20, 0, 1e6)
	large.Bytes = 1<<20 + 1
	b.offer(large)
	assert.EqualValues(t, 5000-1048+1, b.Counts().Forgotten)
	b.now = b.now.Add(time.Hour)
	b.offer(candidate("last", 1, 0, 1e6))
	assert.Equal(t, 1000, b.kept.bytes)
	assert.LessOrEqual(t, len(b.kept.steps)-b.kept.head, 2)
}

// TestBudgetHolds offers 250 slow steps a second on each of 8 ranks for a minute, some with levels beyond their kernels.
func TestBudgetHolds(t *testing.T) {
	const rate = 10_000
	seconds := 60
	if testing.Short() {
		seconds = 10
	}
	for _, one := range []struct {
		name          string
		kernels, more int
		seq           func(n uint64) uint64
	}{
		{"small steps", 99, 0, func(n uint64) uint64 { return n }},
		{"with levels", 600, 700, func(n uint64) uint64 { return n }},
		{"larger than a second's budget", 30_000, 30_000, func(n uint64) uint64 { return n }},
		{"one seq for all", 600, 0, func(uint64) uint64 { return 1 }},
	} {
		t.Run(one.name, func(t *testing.T) {
			b := newBench(Config{Slow: 1.5, Spans: rate})
			b.settle()
			var written, offered, picked uint64
			for n := range uint64(250 * seconds) {
				for rank := range int64(8) {
					for range 2 { // so that the median stays
						b.offer(candidate("usual", 1<<40, rank, 1e6))
					}
					c := candidate("slow", one.seq(n), rank, 2e6)
					c.Kernels = one.kernels
					offered += 3
					for _, p := range b.Offer(c, b.now, nil) {
						picked++
						written += uint64(p.Spans + one.more)
						b.Spent(one.more)
					}
				}
				b.now = b.now.Add(time.Second / 250)
			}
			// The last trace may be in debt: that is paid later, by what comes then.
			assert.LessOrEqual(t, written, uint64(rate*(seconds+1+debt)+8*one.more))
			assert.Greater(t, written, uint64(rate*seconds/2), "and it is used")
			assert.Equal(t, offered, picked+b.Counts().Away+forgottenOf(b), "each step is picked or counted")
		})
	}
}

// forgottenOf is the steps that were not chosen: kept, or let go.
func forgottenOf(b *bench) uint64 {
	n := uint64(0)
	for range b.kept.all {
		n++
	}
	return n + b.Counts().Forgotten
}

func TestATraceIsTurnedAwayWhole(t *testing.T) {
	b := newBench(Config{OneIn: 1, Spans: 100})
	assert.Len(t, b.offer(candidate("a0", 1, 0, 0)), 1)
	assert.Len(t, b.offer(candidate("a1", 1, 1, 0)), 1, "a begun trace may go into debt")
	assert.Empty(t, b.offer(candidate("b0", 2, 0, 0)))
	b.now = b.now.Add(5 * time.Second)
	assert.Empty(t, b.offer(candidate("b1", 2, 1, 0)), "half a trace is worth little")
	assert.Len(t, b.offer(candidate("c0", 3, 0, 0)), 1)
	assert.EqualValues(t, 2, b.Counts().Away)

	large := candidate("large", 4, 0, 0)
	large.Kernels = 100 * debt
	b.now = b.now.Add(time.Hour)
	assert.Empty(t, b.offer(large))
}

func ptr[T any](v T) *T { return &v }

func TestDemand(t *testing.T) {
	b := newBench(Config{})
	r, picks, err := b.Ask(Ask{Steps: 2}, b.now, nil)
	require.NoError(t, err)
	assert.Empty(t, picks)
	assert.Equal(t, []string{"a0 demand"}, b.offer(candidate("a0", 1, 0, 1)))
	assert.Equal(t, []string{"b1 demand"}, b.offer(candidate("b1", 2, 1, 1)))
	assert.False(t, closed(r), "rank 0 may still have step 2")
	assert.Empty(t, b.offer(candidate("c0", 3, 0, 1)))
	require.True(t, closed(r), "it has not")
	got := b.End(r, b.now)
	assert.Equal(t, Got{Taken: []Taken{{id(1), 1, 0}, {id(2), 2, 1}}, Missing: []Taken{{id(1), 1, 1}, {id(2), 2, 0}}}, got)
	assert.Equal(t, []string{"a1 demand"}, b.offer(candidate("a1", 1, 1, 1)), "another rank's step comes after the end")
	assert.Empty(t, b.offer(candidate("d0", 4, 0, 1)))
}

func TestDemandOfSeqAndRank(t *testing.T) {
	b := newBench(Config{})
	for seq := range uint64(5) {
		for _, rank := range []int64{0, 1} {
			b.offer(candidate("kept", seq, rank, 1))
		}
	}
	r, picks, err := b.Ask(Ask{Steps: 3, Seq: ptr(uint64(3))}, b.now, nil)
	require.NoError(t, err)
	assert.Len(t, picks, 4, "seqs 3 and 4 of both ranks are kept")
	assert.Equal(t, []string{"5 demand"}, b.offer(candidate("5", 5, 0, 1)))
	assert.False(t, closed(r))
	assert.Len(t, b.offer(candidate("5", 5, 1, 1)), 1)
	require.True(t, closed(r))
	assert.Len(t, b.End(r, b.now).Taken, 6)
	assert.Empty(t, b.offer(candidate("6", 6, 0, 1)))

	r, picks, err = b.Ask(Ask{Steps: 1, Seq: ptr(uint64(2)), Rank: ptr(int64(1))}, b.now, nil)
	require.NoError(t, err)
	require.Len(t, picks, 1)
	require.True(t, closed(r))
	assert.Equal(t, []Taken{{id(2), 2, 1}}, b.End(r, b.now).Taken)
	assert.Empty(t, b.offer(candidate("2", 2, 0, 1)), "of another rank nothing was asked")
}

func TestDemandIsUnderTheBudget(t *testing.T) {
	b := newBench(Config{Spans: 100})
	r, _, err := b.Ask(Ask{Steps: MaxSteps}, b.now, nil)
	require.NoError(t, err)
	for seq := range uint64(50) {
		b.offer(candidate("step", seq, 0, 1))
	}
	got := b.End(r, b.now)
	assert.Len(t, got.Taken, 1)
	assert.Equal(t, 49, got.Away)
	assert.EqualValues(t, 49, b.Counts().Away)
}

func TestRequestsAreBounded(t *testing.T) {
	b := newBench(Config{})
	for range maxRequests {
		_, _, err := b.Ask(Ask{Steps: 1}, b.now, nil)
		require.NoError(t, err)
	}
	_, _, err := b.Ask(Ask{Steps: 1}, b.now, nil)
	require.ErrorIs(t, err, ErrBusy)
}

// TestStateIsBounded gives each step a series and a trace of its own.
func TestStateIsBounded(t *testing.T) {
	b := newBench(Config{OneIn: 1, Slow: 1.5, Spans: 1})
	for n := range uint64(3 * maxVerdicts) {
		c := candidate("step", n, 0, 1)
		c.Series = n
		b.offer(c)
	}
	assert.LessOrEqual(t, len(b.medians), maxSeries)
	assert.LessOrEqual(t, len(b.verdicts), maxVerdicts+1)
	assert.Len(t, b.order, len(b.verdicts))
}

// TestNothingSampledAllocatesNothing offers steps of which none is chosen.
func TestNothingSampledAllocatesNothing(t *testing.T) {
	b := newBench(Config{OneIn: 1000, Slow: 1.5})
	seq := uint64(0)
	offer := func() {
		seq++
		b.Offer(candidate("step", seq, 0, 1e6), b.now, nil)
		b.now = b.now.Add(4 * time.Millisecond)
	}
	for range 5000 {
		offer()
	}
	assert.Zero(t, testing.AllocsPerRun(5000, offer))
}

func BenchmarkOffer(b *testing.B) {
	s := newBench(Config{OneIn: 1000, Slow: 1.5})
	seq := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		seq++
		s.Offer(candidate("step", seq, 0, 1e6), s.now, nil)
		s.now = s.now.Add(4 * time.Millisecond)
	}
}
