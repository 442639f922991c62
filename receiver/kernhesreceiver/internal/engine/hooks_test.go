package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/wire"
)

const hookDomain = 3

// mark sends a mark of the hooks.
func (s *script) mark(at uint64, schema uint64, payload []byte) {
	size := uint32(len(payload))
	head := append(u64(0), u32(hookDomain, wire.DepthUnknown)...)
	head = append(append(head, u64(schema)...), u32(size, size, uint32(wire.SiteMark), 0)...)
	s.Event(wire.EventPayload, 1, at, head, string(payload))
}

// stepDevice is a payload of kernhes.step_device.v1.
func stepDevice(seq, ns uint64, flags uint32) []byte {
	return append(u64(seq, ns, 0, 0, 0), u32(0, 0, wire.GraphsUnknown, flags)...)
}

// stepRequests is a payload of kernhes.step_requests.v1: number, tokens, cached of each.
func stepRequests(seq uint64, rows ...uint32) []byte {
	n := uint32(len(rows) / 3)
	return append(append(u64(seq), u32(n, 0, n, 0)...), u32(rows...)...)
}

func hooked(t *testing.T, pairs ...string) *script {
	s := archivedScript(t, pairs...)
	s.Event(wire.EventDomain, 1, 0, u32(hookDomain, uint32(len(wire.HookDomain))), wire.HookDomain)
	return s
}

// TestTheDeviceTimeOfAStepComesWithALaterOne: a step waits for it for a while, and is in the archive with it.
func TestTheDeviceTimeOfAStepComesWithALaterOne(t *testing.T) {
	for _, mode := range []string{"off", "hes"} {
		t.Run(mode, func(t *testing.T) {
			s := hooked(t, "mode", mode)
			step := func(at uint64, text string) {
				s.Push(at, text)
				if mode == "hes" {
					s.Launch(at+1, uint32(at))
				}
				s.Pop(at + 2)
				if mode == "hes" {
					s.Ran(uint32(at), at+10, at+30)
				}
			}
			step(1000, "step:decode seq=7,tokens=1")
			step(2000, "step:decode seq=8,tokens=1")
			s.mark(2100, wire.SchemaStepDevice, stepDevice(7, 20_000, 0))
			s.mark(2101, wire.SchemaStepDevice, stepDevice(8, 0, 1)) // nobody measured it
			step(3000, "step:decode seq=9,tokens=1")
			s.Flushed(100_000)
			require.Len(t, s.lines, 2, "the time of the third is still to come")
			s.mark(100_001, wire.SchemaStepDevice, stepDevice(9, 21_000, 0))
			s.Flushed(100_100)
			require.Len(t, s.lines, 3)
			step(200_000, "step:decode seq=10,tokens=1")
			s.Flushed(3 * second)
			require.Len(t, s.lines, 4, "two seconds are enough")
			s.mark(3*second+1, wire.SchemaStepDevice, stepDevice(10, 22_000, 0)) // in the metric all the same
			s.mark(3*second+2, wire.SchemaStepDevice, stepDevice(10, 22_000, 0)) // twice: counts once
			s.mark(3*second+3, wire.SchemaStepDevice, stepDevice(99, 1, 0))      // of no step
			s.mark(3*second+4, wire.SchemaStepDevice, u64(1))                    // too short
			s.bye()
			r := s.report()
			require.EqualValues(t, 3, r.Pace[0].Device.N)
			require.EqualValues(t, 63_000, r.Pace[0].Device.NS)
			require.EqualValues(t, 1, s.p.hooks.Counts.Strange)
			require.EqualValues(t, 1, s.p.hooks.Counts.Unread)
			steps := s.steps()
			for text, want := range map[string]uint64{"seq=7": 20_000, "seq=8": 0, "seq=9": 21_000, "seq=10": 0} {
				one, ok := steps["step:decode "+text+",tokens=1"]
				require.True(t, ok, text)
				require.Equal(t, want, one.Issued.Device, text)
				require.Equal(t, mode == "off", one.Untraced)
				if mode == "hes" {
					require.EqualValues(t, 20_000, one.Compute)
				}
			}
		})
	}
}

// TestRequestsOfAStep are in the archive by their ids; a number that was not told stands for itself.
func TestRequestsOfAStep(t *testing.T) {
	s := hooked(t, "mode", "off")
	trace := append(u64(0x0af7651916cd43dd), u64(0x8448eb211c80319c)...)
	s.Push(1000, "step:decode seq=7,tokens=3")
	s.mark(1001, wire.SchemaRequest, append(append(u32(2, 6), trace...), "cmpl-b"...))
	s.mark(1002, wire.SchemaRequest, append(append(u32(5, 3), u64(0, 0)...), "r-5"...))
	s.mark(1003, wire.SchemaStepRequests, stepRequests(7, 2, 1, 640, 5, 2, 0))
	s.mark(1004, wire.SchemaStepRequests, stepRequests(7, 9, 3, 4))
	s.mark(1005, wire.SchemaStepRequests, stepRequests(8, 2, 1, 641)) // of a step that is not open
	s.Pop(1010)
	s.Flushed(5000)
	s.bye()
	require.Equal(t, []chunk.Request{
		{ID: "cmpl-b", Trace: "0af7651916cd43dd8448eb211c80319c", Tokens: 1, Cached: 640}, {ID: "r-5", Tokens: 2}, {ID: "#9", Tokens: 3, Cached: 4},
	}, s.steps()["step:decode seq=7,tokens=3"].Requests)
}

// TestAStepHasNoMoreRequestsThanFit, whatever an engine says.
func TestAStepHasNoMoreRequestsThanFit(t *testing.T) {
	s := hooked(t, "mode", "off")
	s.Push(1000, "step:decode seq=7,tokens=3")
	rows := make([]uint32, 3*30)
	for at := range uint64(200) {
		s.mark(1001+at, wire.SchemaStepRequests, stepRequests(7, rows...))
	}
	s.Pop(2000)
	s.Flushed(5000)
	s.bye()
	require.Len(t, s.steps()["step:decode seq=7,tokens=3"].Requests, 4096)
	require.EqualValues(t, 200*30-4096, s.p.hooks.Counts.Refused)
}
