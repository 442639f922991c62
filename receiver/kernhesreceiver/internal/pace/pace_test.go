package pace

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/wall"
)

var decode = Key{"decode", "1", "1024"}

func only(t *testing.T, p *Pace, key Key) Series {
	t.Helper()
	for _, s := range p.Series() {
		if s.Key == key {
			return s
		}
	}
	t.Fatalf("no series %v", key)
	return Series{}
}

// TestAnEngineThatRunsAhead pushes a range of 2 ms each 10 ms, and waits for a request before every tenth.
func TestAnEngineThatRunsAhead(t *testing.T) {
	p := New(wall.Fixed, 10)
	const ms = 1_000_000
	now := uint64(1000 * ms)
	for i := range uint64(40) {
		require.EqualValues(t, 1, p.Push(i, 7, decode, now))
		p.Pop(i, now+2*ms)
		if now += 10 * ms; i%10 == 9 {
			now += 500 * ms
		}
	}
	s := only(t, p, decode)
	require.EqualValues(t, 40, s.Pushed)
	require.EqualValues(t, 40, s.Range.N)
	require.EqualValues(t, 80*ms, s.Range.NS)
	require.EqualValues(t, 3, s.Arrivals, "after each tenth, but for the last, which nothing follows")
	require.EqualValues(t, 36, s.Interval.N)
	require.EqualValues(t, 360*ms, s.Interval.NS)
	require.EqualValues(t, 36, s.Interval.Counts.Fixed[16], "up to 10 ms")
}

// TestFewGapsAreJudgedAtTheEnd: what a step's gap is cannot be known from a few.
func TestFewGapsAreJudgedAtTheEnd(t *testing.T) {
	p := New(wall.Fixed, 10)
	for i, at := range []uint64{100, 200, 300, 900, 1000} {
		p.Push(uint64(i), 7, decode, at)
		p.Pop(uint64(i), at+50)
	}
	require.Zero(t, only(t, p, decode).Interval.N+only(t, p, decode).Arrivals)
	p.Finish()
	s := only(t, p, decode)
	require.EqualValues(t, 3, s.Interval.N)
	require.EqualValues(t, 300, s.Interval.NS)
	require.EqualValues(t, 1, s.Arrivals, "after a gap of 550 where 50 is usual")
}

// TestThreadsAndLevelsStandForThemselves: a step within a step is followed by the next one within it.
func TestThreadsAndLevelsStandForThemselves(t *testing.T) {
	p := New(wall.Fixed, 10)
	outer, inner, other := Key{Program: "outer"}, Key{Program: "inner"}, Key{Program: "other"}
	require.EqualValues(t, 1, p.Push(1, 7, outer, 100))
	require.EqualValues(t, 2, p.Push(2, 7, inner, 110))
	require.EqualValues(t, 1, p.Push(3, 8, other, 111))
	p.Pop(2, 120)
	p.Push(4, 7, inner, 130)
	p.Pop(4, 140)
	p.Pop(1, 150)
	p.Push(5, 7, outer, 160)
	p.Push(6, 7, inner, 170)
	p.Pop(6, 180)
	p.Pop(5, 190)
	p.Pop(3, 211)
	p.Finish()
	require.EqualValues(t, 20, only(t, p, inner).Interval.NS, "130 less 110; the last of the first step has none")
	require.EqualValues(t, 60, only(t, p, outer).Interval.NS)
	require.EqualValues(t, 80, only(t, p, outer).Range.NS)
	require.Zero(t, only(t, p, other).Interval.N)
	require.EqualValues(t, 100, only(t, p, other).Range.NS)
}

// TestLostEventsGiveNoTimes: a pop that was not seen, events that are missing, a clock that was set back.
func TestLostEventsGiveNoTimes(t *testing.T) {
	p := New(wall.Fixed, 10)
	p.Push(1, 7, decode, 100)
	p.Pop(1, 0)
	p.Push(2, 7, decode, 200)
	p.Pop(2, 150)
	p.Pop(2, 250)
	p.Pop(99, 250)
	p.Push(3, 7, decode, 300)
	p.Pop(3, 310)
	p.Broken()
	p.Push(4, 7, decode, 400)
	p.Finish()
	s := only(t, p, decode)
	require.EqualValues(t, 4, s.Pushed)
	require.EqualValues(t, 1, s.Range.N)
	require.EqualValues(t, 10, s.Range.NS)
	require.Zero(t, s.Interval.N+s.Arrivals)
}

// TestBounds of series, threads and open ranges.
func TestBounds(t *testing.T) {
	p := New(nil, 2)
	for i := range uint64(3 * maxThreads) {
		p.Push(i, uint32(i), Key{Program: string(rune('a' + i%4))}, i+1)
		if i < 2*maxThreads {
			p.Pop(i, i+2)
		}
	}
	require.Len(t, p.series, 3)
	require.EqualValues(t, 6*maxThreads/4, p.Overflowed)
	require.EqualValues(t, p.Overflowed, only(t, p, overflow).Pushed)
	require.LessOrEqual(t, len(p.open), maxOpen)
	for i := range uint32(1000) {
		p.Push(1<<32+uint64(i), 1<<31, decode, 1)
	}
	require.LessOrEqual(t, len(p.threads), 2*maxThreads)
	require.LessOrEqual(t, len(p.threads[1<<31].last), maxLevels)
}
