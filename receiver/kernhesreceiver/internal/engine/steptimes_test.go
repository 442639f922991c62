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
