package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/pace"
)

// archivedScript is a script whose chunks and lines are kept.
func archivedScript(t *testing.T, pairs ...string) *script {
	info := map[string]string{"run": "r", "rank": "3"}
	for i := 0; i < len(pairs); i += 2 {
		info[pairs[i]] = pairs[i+1]
	}
	set := testSettings(func(s *Settings) { s.Archive = true })
	return scriptFor(t, begin(set, wire.Hello{Version: 1, Session: 0xabc, Info: info}))
}

// steps are those in all chunks, by their texts.
func (s *script) steps() map[string]chunk.Step {
	s.t.Helper()
	all := map[string]chunk.Step{}
	for _, one := range takeChunks(s.p) {
		c, err := chunk.Unpack(one.Body)
		require.NoError(s.t, err)
		for _, one := range c.Steps {
			if !one.Outside {
				require.NotContains(s.t, all, one.Text)
				all[one.Text] = one
			}
		}
	}
	return all
}

// TestStepsOfAnEngineThatIsNotTraced: each range is in the metrics and in the archive with its times, as neither complete nor incomplete.
func TestStepsOfAnEngineThatIsNotTraced(t *testing.T) {
	s := archivedScript(t, "mode", "off")
	for i, text := range []string{"step:decode seq=7,tokens=1,kv=100", "step:decode seq=8,tokens=1,kv=101", "step:prefill seq=9,tokens=500"} {
		s.Push(uint64(1000*(i+1)), text)
		s.Pop(uint64(1000*(i+1) + 100*(i+1)))
	}
	require.Less(t, s.p.Acknowledgeable(), s.Number, "they are in no chunk")
	s.Flushed(5000)
	require.Len(t, s.lines, 3)
	s.bye()
	steps := s.steps()
	require.Len(t, steps, 3)
	for i, text := range []string{"step:decode seq=7,tokens=1,kv=100", "step:decode seq=8,tokens=1,kv=101", "step:prefill seq=9,tokens=500"} {
		one := steps[text]
		at := uint64(1000 * (i + 1))
		require.Equal(t, chunk.Issued{Push: us(at), Pop: us(at + 100*uint64(i+1)), Thread: one.Issued.Thread, Level: 1}, one.Issued, text)
		require.True(t, one.Untraced)
		require.True(t, one.Pairs, "seq means the same on other ranks")
		require.EqualValues(t, 7+i, one.Seq)
		require.False(t, one.Complete)
		require.Equal(t, "not_traced", one.Reason)
		require.Equal(t, us(at), one.Start)
	}
	r := s.report()
	require.EqualValues(t, 3, r.Rank)
	require.EqualValues(t, 3, r.Untraced)
	require.Zero(t, r.Complete)
	require.Empty(t, r.Incomplete)
	require.EqualValues(t, 3, r.StepRanges)
	require.Zero(t, r.Became.Sum())
	require.Len(t, r.Pace, 2)
	decode, prefill := r.Pace[0], r.Pace[1]
	require.Equal(t, pace.Key{Program: "decode", Batch: "1", KV: "1024"}, decode.Key)
	require.EqualValues(t, 2, decode.Range.N)
	require.EqualValues(t, 300_000, decode.Range.NS)
	require.EqualValues(t, 2, decode.Interval.N)
	require.EqualValues(t, 2_000_000, decode.Interval.NS)
	require.EqualValues(t, 300_000, prefill.Range.NS)
	require.Zero(t, prefill.Interval.N, "nothing follows it")
}

// TestTracedStepsHaveTheirRanges, too, and their figures are those of their kernels.
func TestTracedStepsHaveTheirRanges(t *testing.T) {
	s := archivedScript(t, "mode", "hes")
	s.oneStep(0, 1)
	s.Flushed(1000)
	s.bye()
	one := s.steps()["step:decode tokens=1"]
	require.False(t, one.Untraced)
	require.True(t, one.Complete)
	require.Equal(t, us(0), one.Issued.Push)
	require.Equal(t, us(2), one.Issued.Pop)
	require.Equal(t, us(10), one.Start)
	require.EqualValues(t, 20_000, one.Compute)
}

// TestWindowsOfTracing: between windows steps are not traced, within one they are.
func TestWindowsOfTracing(t *testing.T) {
	tracing := func(s *script, kind wire.EventKind, at uint64) {
		s.Event(kind, 1, at, append(u64(5), u32(1, 0)...), "")
	}
	s := archivedScript(t, "mode", "windows", "window_state", "detached")
	step := func(at uint64, text string) {
		s.Push(at, text)
		s.Pop(at + 2)
	}
	step(0, "step:decode seq=1,tokens=1")
	tracing(s, wire.EventTracingOn, 999)
	s.Push(1000, "step:decode seq=2,tokens=1")
	s.Launch(1001, 1)
	s.Pop(1002)
	tracing(s, wire.EventTracingOff, 1003)
	s.Ran(1, 1010, 1030)
	step(2000, "step:decode seq=3,tokens=1")
	s.Flushed(5000)
	s.bye()
	steps := s.steps()
	require.True(t, steps["step:decode seq=1,tokens=1"].Untraced)
	require.True(t, steps["step:decode seq=2,tokens=1"].Complete)
	require.True(t, steps["step:decode seq=3,tokens=1"].Untraced)
	r := s.report()
	require.EqualValues(t, 1, r.Complete)
	require.EqualValues(t, 2, r.Untraced)
	require.Empty(t, r.Incomplete)
}

// TestTheDeviceOfUntracedStepsIsTheFirstThatIsSeen: no rank of its own stays behind for a device that the process does not use.
func TestTheDeviceOfUntracedStepsIsTheFirstThatIsSeen(t *testing.T) {
	s := archivedScript(t, "mode", "off")
	s.Push(0, "step:decode seq=1,tokens=1")
	s.Pop(10)
	s.Flushed(5000)
	s.Frame(wire.KindInfo, wire.AppendPair(nil, "mode", "software"))
	s.Push(6000, "step:decode seq=2,tokens=1")
	s.Launch(6001, 1)
	s.Pop(6002)
	s.OnDevice(5, 1, 6010, 6030)
	s.Flushed(7000)
	s.bye()
	reports := s.p.Reports()
	require.Len(t, reports, 1)
	require.Equal(t, 5, reports[0].Device)
	require.EqualValues(t, 3, reports[0].Rank)
	steps := s.steps()
	require.True(t, steps["step:decode seq=1,tokens=1"].Pairs)
	require.True(t, steps["step:decode seq=2,tokens=1"].Pairs)
}

// TestPlaces are known from the third step in a row on, and again when they change.
func TestPlaces(t *testing.T) {
	var p places
	for range 2 {
		p.pushed(7, 0, 1)
	}
	require.Empty(t, p.all)
	p.pushed(7, 0, 1)
	require.Equal(t, []Place{{0, 7, 1}}, p.all)
	for depth := range uint32(20) { // a leak: each step is deeper
		p.pushed(7, 0, 2+depth)
	}
	require.Equal(t, 1, p.version)
	for range 5 {
		p.pushed(7, 4, 3)
		p.pushed(8, 4, 3)
		p.pushed(9, 0, 0xffffffff)
	}
	require.Equal(t, []Place{{4, 7, 3}, {4, 8, 3}}, p.all)
	for thread := range uint32(2000) {
		for range 3 {
			p.pushed(100+thread, 4, 3)
		}
	}
	require.Equal(t, []Place{{4, 0, 3}}, p.all, "of many threads: any")
	require.LessOrEqual(t, len(p.threads), maxPushers)
}
