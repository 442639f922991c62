package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/wire"
)

// TestStepTimesOfWindows: each step's interval to the next push of its thread, with what was traced of it; a wait for requests is
// no step's time, nor is a step within another.
func TestStepTimesOfWindows(t *testing.T) {
	var got []StepTime
	set := testSettings(func(s *Settings) { s.StepTimes = func(one StepTime) { got = append(got, one) } })
	s := scriptFor(t, begin(set, wire.Hello{Version: 1, Session: 7, Info: map[string]string{"run": "r", "rank": "3", "mode": "windows"}}))
	s.tracingOn(0, 1)
	s.oneStep(10, 1) // settles what the process is
	s.tracingOff(100, 1, wire.TracingOrdered)
	s.Flushed(200)
	s.Flushed(20 * second)
	at := uint64(20 * second)
	for range 20 {
		s.Push(at, "step:decode seqs=4,tokens=4,kv=4000")
		s.Pop(at + 8000)
		at += 10_000
	}
	got = nil
	at = 30 * second // the last of them waited
	step := func(took uint64) {
		s.Push(at, "step:decode seqs=4,tokens=4,kv=4000")
		s.Pop(at + took)
	}
	step(8000)
	at += 10_000
	step(8000) // 10 ms after the one before
	s.pushOn(1, at+8100, "step:inner tokens=1")
	at += 11_000
	s.Event(wire.EventPop, 1, at-1, u32(0, wire.DepthUnknown), "")
	at += second
	s.Push(at, "step:decode seqs=4,tokens=4,kv=4000") // a second later: a wait
	s.tracingOn(at+1, 2)
	s.Pop(at + 8000)
	at += 9000
	s.Push(at, "step:decode seqs=4,tokens=4,kv=4000")
	s.Pop(at + 8000)
	at += 9000
	s.Push(at, "step:decode seqs=4,tokens=4,kv=4000")
	require.Len(t, got, 4, "%+v", got)
	first := got[0]
	require.Equal(t, StepTime{
		Session: 7, Run: "r", Rank: 3, Program: "decode", Batch: "4", KV: "1024", Tokens: 4, Context: 1000, NS: uint64(10 * time.Millisecond), At: us(30 * second),
	}, first)
	require.EqualValues(t, 8_100_000, got[1].NS, "to the push of another step")
	require.True(t, got[2].Cut)
	require.Equal(t, [3]any{uint64(9_000_000), true, false}, [3]any{got[3].NS, got[3].Traced, got[3].Cut})
}

// TestDeviceTimesOfWindows: a mark says it of a step that ended before, and whether that was traced is as it was then.
func TestDeviceTimesOfWindows(t *testing.T) {
	var got []StepTime
	set := testSettings(func(s *Settings) { s.StepTimes = func(one StepTime) { got = append(got, one) } })
	s := scriptFor(t, begin(set, wire.Hello{Version: 1, Session: 7, Info: map[string]string{"run": "r", "rank": "3", "mode": "windows"}}))
	s.tracingOn(0, 1)
	s.oneStep(10, 1)
	s.tracingOff(100, 1, wire.TracingOrdered)
	s.Flushed(200)
	s.Flushed(20 * second)
	const at = 30 * second
	s.Push(at, "step:decode tokens=4")
	id := s.p.times.threads[1].id
	s.Pop(at + 100)
	s.tracingOn(at+200, 2)
	s.Push(at+300, "step:decode tokens=4")
	s.p.stepMeasured(id, 77)
	require.Len(t, got, 1)
	require.Equal(t, [5]any{uint64(77), true, false, false, us(at)}, [5]any{got[0].NS, got[0].Device, got[0].Traced, got[0].Cut, got[0].At})
	s.p.stepMeasured(id+99, 5)
	require.Len(t, got, 1, "of no step that is known")
}
