package engine

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/shimscript"
)

// TestAQuotaIsShared: whoever takes all gets nothing more, and another gets its share all the same.
func TestAQuotaIsShared(t *testing.T) {
	q := NewQuota(100, 5)
	for range 100 {
		require.True(t, q.Take("greedy", 1))
	}
	require.False(t, q.Take("greedy", 1))
	for range 50 {
		require.True(t, q.Take("good", 1), "half of it, since there are two")
	}
	require.False(t, q.Take("good", 1))
	assert.Equal(t, 150, q.Total())
	q.Add("greedy", -100)
	for range 50 {
		require.True(t, q.Take("good", 1))
	}
	for i := range 1000 {
		user := fmt.Sprint("crowd ", i)
		require.True(t, q.Take(user, 5), "each has the least")
		if i >= 20 {
			require.False(t, q.Take(user, 1), "a share of so many is less")
		}
	}
	assert.True(t, q.Add("good", 0), "it has more than a thousandth now")
	assert.False(t, NewQuota(0, 0).Add("any", 1<<40))
	assert.True(t, NewQuota(0, 0).Take("any", 1<<40))
}

// sessionOf begins a process with its own pid among those of engines.
func sessionOf(t *testing.T, engines *Engines, session uint64, pid string) *script {
	t.Helper()
	s := newScript(t)
	s.p = engines.Begin(wire.Hello{Session: session, Info: map[string]string{"run": "r" + pid, "rank": "0", "pid": pid}})
	return s
}

// TestSeriesOfAllSessionsAreBounded: a process with label sets without end gets no more than the bound, and a good one beside it counts
// each of its steps in series of its own. When the first has gone, there is room again.
func TestSeriesOfAllSessionsAreBounded(t *testing.T) {
	engines := NewEngines(testSettings(archived, func(c *Settings) { c.MaxTotalSeries = 200 }))
	hostile := sessionOf(t, engines, 1, "7")
	step := func(s *script, i int, program string) {
		at := uint64(i) * 1000
		s.Push(at, "step:"+program)
		s.Launch(at+1, uint32(i+1))
		s.Pop(at + 2)
		s.Ran(uint32(i+1), at+10, at+30)
	}
	for i := range 1000 {
		step(hostile, i, fmt.Sprint("program", i))
	}
	hostile.Flushed(100_000_000)
	r := hostile.report()
	assert.LessOrEqual(t, len(r.Series)+placesOfPace*len(r.Pace), 200+1+placesOfPace)
	assert.Positive(t, len(r.Pace))
	assert.Positive(t, r.Limited["max_total_series"])
	good := sessionOf(t, engines, 2, "8")
	for i := range 30 {
		step(good, i, fmt.Sprint("program", i))
	}
	good.Flushed(100_000_000)
	g := good.report()
	assert.Len(t, g.Series, 30, "a share of 100: 4 of its rank, 3 of each label set")
	assert.Empty(t, g.Limited)
	hostile.p.End(true)
	good.p.End(true)
	assert.Zero(t, engines.common.places.Total())
	assert.Zero(t, engines.Memory())
}

// TestMemoryOfAllSessionsIsBounded: the process that takes most gives up what is open; the other loses nothing.
func TestMemoryOfAllSessionsIsBounded(t *testing.T) {
	engines := NewEngines(testSettings(archived, func(c *Settings) { c.MaxTotalBytes, c.MaxSessionBytes = 16<<20, 256<<10*checks }))
	hostile, good := sessionOf(t, engines, 1, "7"), sessionOf(t, engines, 2, "8")
	good.Push(1, "step:decode")
	good.Launch(2, 1)
	body := make([]byte, 1<<20)
	for i := range uint32(40) {
		for k := range uint32(len(body) / 64) {
			at := us(uint64(i*16384 + k))
			copy(body[k*64:], u64(at, at+500))
			copy(body[k*64+24:], u32(i*16384+k+1, 0, 7))
		}
		hostile.Frame(wire.KindKernels, body)
		require.Less(t, engines.Memory(), 2*16<<20)
	}
	assert.Positive(t, hostile.report().Limited["max_total_bytes"])
	good.Ran(1, 10, 20)
	good.Pop(30)
	good.Flushed(1_000_000)
	assert.EqualValues(t, 1, good.report().Complete)
	assert.Empty(t, good.report().Limited)
}

// TestALaunchFromTheFuturePinsNothing: it is given up like any other, and what came after it is acknowledged.
func TestALaunchFromTheFuturePinsNothing(t *testing.T) {
	s := newScript(t)
	s.Launch((1<<62-shimscript.Epoch)/1000, 1)
	for at := uint64(1000); at < 200*second; at += second {
		s.Flushed(at)
	}
	frame, by := s.p.Holds()
	assert.Equal(t, s.p.Received(), frame, by)
}
