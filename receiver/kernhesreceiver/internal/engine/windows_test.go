package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/device"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/step"
)

// windowed writes for a process in the mode windows, between two of them.
func windowed(t *testing.T) *script {
	return newScript(t, "mode", "windows", "window_state", "detached")
}

func (s *script) tracingOn(at, id uint64) {
	s.Event(wire.EventTracingOn, 1, at, append(u64(id), u32(wire.TracingOrdered, 0)...), "")
}

func (s *script) tracingOff(at, id uint64, reason uint32) {
	s.Event(wire.EventTracingOff, 1, at, append(u64(id), u32(reason, 0)...), "")
}

// pushOn begins a range of a thread.
func (s *script) pushOn(thread uint32, at uint64, text string) {
	s.Event(wire.EventPush, thread, at, u32(0, 0, uint32(len(text)), wire.DepthUnknown), text)
}

func (s *script) launchOn(thread uint32, at uint64, c uint32) {
	s.Event(wire.EventLaunch, thread, at, u32(c, 0), "")
}

// A step of each kind around two windows. Device time is known from the first kernel of a window to the last, and unknown between.
func TestOnlyWindowsAreTraced(t *testing.T) {
	s := windowed(t)
	s.Push(0, "step:decode tokens=1") // between windows nothing is launched, as far as is heard
	s.Pop(5)
	s.Flushed(1 * second)
	require.False(t, s.p.Reports()[0].Tracing)

	const one = 10 * second
	s.pushOn(2, one-5, "step:prefill tokens=9") // open at the edge
	s.tracingOn(one, 71)
	require.True(t, s.p.Reports()[0].Tracing)
	s.launchOn(2, one+1, 9)
	s.Event(wire.EventPop, 2, one+5, u32(0, wire.DepthUnknown), "")
	s.Ran(9, one+6, one+9)
	s.oneStep(one+10, 10)                        // from 20 to 40
	s.Flushed(one + 30)                          // in the middle of a kernel
	s.oneStep(one+40, 11)                        // from 50 to 70
	s.pushOn(2, one+90, "step:prefill tokens=9") // open at the edge
	s.launchOn(2, one+95, 12)                    // without a record
	s.launchOn(3, one+96, 13)                    // outside any step, likewise
	s.tracingOff(one+100, 71, wire.TracingOrdered)
	s.Flushed(one + 99) // began before
	require.Empty(t, s.report().Incomplete[step.MissingRecords])
	_, _, waits := s.p.names.Oldest()
	require.True(t, waits)
	s.Flushed(one + 200)
	_, _, waits = s.p.names.Oldest()
	require.False(t, waits, "no record comes any more")
	s.Event(wire.EventPop, 2, one+300, u32(0, wire.DepthUnknown), "")
	s.Flushed(15 * second)

	const two = 30 * second
	s.Flushed(two - 1)
	s.tracingOn(two, 72)
	s.oneStep(two+10, 10) // ids begin anew; from 20 to 40
	s.tracingOff(two+50, 72, wire.TracingCancelled)
	s.Flushed(two + 80)
	s.Flushed(two + second)
	s.bye()

	r := s.report()
	require.EqualValues(t, 3, r.Complete)
	require.Equal(t, map[string]uint64{step.NotTraced: 2}, r.Incomplete, "the steps that were open at an edge")
	require.Zero(t, r.Missing)
	require.EqualValues(t, 0, r.Launches.All-r.Kernels-2, "6 launches, 4 kernels")
	require.EqualValues(t, 3000+3*20_000, r.ComputeNS)
	require.EqualValues(t, 11_000+10_000, r.IdleNS, "9 to 20 and 40 to 50")
	between := uint64((two + 20) - (one + 70))
	require.Equal(t, [device.Whys]uint64{device.OutsideWindow: between * 1000}, r.UnknownByNS)
	require.EqualValues(t, 84_000, r.TracedNS())
	require.Equal(t, map[string]uint64{"complete": 1, "cancelled": 1, "yielded": 0, "overdue": 0, "failed": 0}, r.Windows.Outcomes)
	for reason, n := range r.Dropped {
		require.Zero(t, n, reason)
	}
}

// TestALossInAWindow: a launch of a step that lies in the window must have its record; what cannot be missing makes no loss.
func TestALossInAWindow(t *testing.T) {
	s := windowed(t)
	s.tracingOn(10, 1)
	s.oneStep(20, 1) // from 30 to 50
	s.Push(60, "step:decode tokens=1")
	s.Launch(61, 2)
	s.Pop(62)
	s.oneStep(80, 3) // from 90 to 110
	s.tracingOff(200, 1, wire.TracingOrdered)
	s.Flushed(300)
	s.Flushed(20 * second)
	r := s.report()
	require.EqualValues(t, 2, r.Complete)
	require.Equal(t, map[string]uint64{step.MissingRecords: 1}, r.Incomplete)
	require.EqualValues(t, 1, r.Missing)
	require.EqualValues(t, 40_000, r.UnknownByNS[device.Loss], "50 to 90: it may have run there")
	require.Zero(t, r.IdleNS)
}

// TestAWindowThatIsCut: after a fault of CUPTI nothing that is missing was lost by the collector.
func TestAWindowThatIsCut(t *testing.T) {
	s := windowed(t)
	s.tracingOn(10, 1)
	s.oneStep(20, 1)
	s.Push(60, "step:decode tokens=1")
	s.Launch(61, 2)
	s.Pop(62)
	s.tracingOff(200, 1, wire.TracingFailed)
	s.Flushed(300)
	r := s.report()
	require.EqualValues(t, 1, r.Complete)
	require.Zero(t, r.Missing)
	require.EqualValues(t, 1, r.Windows.Outcomes["failed"])
}

// TestAReplayOfAGraphThatNobodyHeardIsWholeAtTheEnd: the GPU was idle, so later work on its stream need not show it.
func TestAReplayOfAGraphThatNobodyHeardIsWholeAtTheEnd(t *testing.T) {
	s := windowed(t)
	s.tracingOn(10, 1)
	s.Push(20, "step:decode tokens=1")
	s.GraphLaunch(21, 1)
	s.Pop(22)
	s.RanNode(1, 5<<32|1, 30, 40)
	s.RanNode(1, 5<<32|2, 40, 50)
	s.tracingOff(100, 1, wire.TracingOrdered)
	s.Flushed(200)
	s.Flushed(20 * second)
	r := s.report()
	require.EqualValues(t, 1, r.Complete)
	require.Empty(t, r.Incomplete)
}

// TestACollectorThatComesInAWindow reads it from the snapshot. One whose TRACING_OFF was dropped learns from INFO that it is over.
func TestACollectorThatComesInAWindow(t *testing.T) {
	s := newScript(t, "mode", "windows", "window_state", "tracing")
	s.Pinned = true
	s.Base(100, 20)
	require.True(t, s.p.Reports()[0].Tracing)
	s.Push(1000, "step:decode tokens=1")
	s.Launch(1001, 21)
	s.Pop(1002)
	s.Ran(21, 1010, 1030)
	s.Number += 2
	s.Frame(wire.KindInfo, wire.AppendPair(nil, "window_state", "detached"))
	require.False(t, s.p.Reports()[0].Tracing)
	s.Flushed(5000)
	s.Flushed(20 * second)
	r := s.report()
	require.EqualValues(t, 1, r.Complete)
	require.EqualValues(t, 1, r.Windows.Outcomes["other"])
	require.Equal(t, "detached", r.Windows.State)
}

// TestAYieldInAWindow: what is unknown then is so for another reason.
func TestAYieldInAWindow(t *testing.T) {
	s := windowed(t)
	s.tracingOn(10, 1)
	s.oneStep(20, 1)
	s.tracingOff(100, 1, wire.TracingYielded)
	s.Flushed(200)
	info := func(mode, reason string) {
		s.Frame(wire.KindInfo, wire.AppendPair(wire.AppendPair(nil, "mode", mode), "mode_reason", reason))
	}
	info("off", "yielded to another user of CUPTI, as the collector asked")
	s.Flushed(30 * second)
	info("windows", "")
	s.Flushed(30*second + 10)
	s.tracingOn(40*second, 2)
	s.oneStep(40*second+10, 5)
	s.Flushed(40*second + 100)
	s.Flushed(60 * second)
	by := s.report().UnknownByNS
	require.EqualValues(t, (40*second+20-50)*1000, by[device.OutsideWindow]+by[device.Yielded], "from the last kernel of the first window to the first of the second")
	require.NotZero(t, by[device.Yielded])
	require.NotZero(t, by[device.OutsideWindow], "10 s after the yield")
	require.Zero(t, by[device.Loss])
}
