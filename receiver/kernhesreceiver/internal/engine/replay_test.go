package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/wire"
)

// openReplay plays a step of 20 µs of compute and a step that replays a graph whose capture was not seen: 20 and 30 µs of
// compute, 10 µs apart. Nobody knows yet whether more kernels come, so the second step is open.
func (s *script) openReplay() {
	s.oneStep(0, 1)
	s.Flushed(1000)
	s.Push(2000, "step:decode tokens=2")
	s.GraphLaunch(2001, 2)
	s.Pop(2002)
	s.RanNode(2, 9<<32, 2010, 2030)
	s.RanNode(2, 9<<32|1, 2040, 2070)
	s.Flushed(3000)
}

// mode sends INFO with the mode.
func (s *script) mode(is string) { s.Frame(wire.KindInfo, wire.AppendPair(nil, "mode", is)) }

// TestAYieldWhileAReplayOfUnknownCountIsOpen: a flush while nothing is traced does not show that the replay is over. Later work
// on its stream does, once kernels are traced again, and the step is whole.
func TestAYieldWhileAReplayOfUnknownCountIsOpen(t *testing.T) {
	for name, back := range map[string]uint64{"shorter than the timeout": 5 * second, "longer than the timeout": 60 * second} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, "mode", "software")
			s.openReplay()
			held := s.p.Acknowledgeable()
			s.mode("off")
			for at := uint64(1); at*second < back; at++ {
				s.Flushed(at * second)
				require.EqualValues(t, 1, s.report().Complete)
				require.Empty(t, s.report().Incomplete)
				require.Equal(t, held, s.p.Acknowledgeable(), "the step's frames are still needed")
			}
			s.mode("software")
			s.Flushed(back)
			s.oneStep(back+1000, 3)
			s.Flushed(back + 2000)
			s.bye()
			r := s.report()
			require.EqualValues(t, 3, r.Complete)
			require.Empty(t, r.Incomplete)
			require.EqualValues(t, 2+1+1, r.Became.InSteps)
			require.EqualValues(t, 20_000+50_000+20_000, r.ComputeNS)
			require.EqualValues(t, 2, s.lines[1].Kernels)
			require.EqualValues(t, 60_000, s.lines[1].WallNS)
			require.EqualValues(t, 1000*(back+1030-10)-90_000, r.IdleNS+r.UnknownNS, "the rest")
			require.GreaterOrEqual(t, r.UnknownNS, 1000*(back-3000), "while nothing is traced")
		})
	}
}

// TestAYieldThatEndsTheProcessLeavesTheReplayUncertain: no later work comes, so the last step is not known to be whole.
func TestAYieldThatEndsTheProcessLeavesTheReplayUncertain(t *testing.T) {
	s := newScript(t, "mode", "software")
	s.openReplay()
	s.mode("off")
	s.Flushed(5 * second)
	s.bye()
	r := s.report()
	require.EqualValues(t, 1, r.Complete)
	require.Len(t, r.Incomplete, 1)
	require.EqualValues(t, 3, r.Became.InSteps)
	require.EqualValues(t, 70_000, r.ComputeNS)
	require.Zero(t, r.Missing, "no record is known to be missing")
}

// TestACollectorTakesOverWhileAReplayOfUnknownCountIsOpen: the first one acknowledges nothing of the open step, so the second is
// sent all of it, and has the step whole and once.
func TestACollectorTakesOverWhileAReplayOfUnknownCountIsOpen(t *testing.T) {
	var sent []wire.Frame
	first := newScript(t, "mode", "software")
	take := first.Out
	first.Out = func(f wire.Frame) { sent = append(sent, f); take(f) }
	first.openReplay()
	acknowledged := first.p.Acknowledgeable()
	require.EqualValues(t, 5, acknowledged, "the first step's four frames and its flush, and nothing of the second")
	require.Len(t, first.lines, 1)

	second := newScript(t, "mode", "software")
	second.Base(acknowledged, 1) // the last launch before it
	for _, f := range sent[acknowledged:] {
		require.NoError(t, second.p.Frame(f))
	}
	second.Number, second.Kernels = first.Number, first.Kernels
	require.Equal(t, acknowledged, second.p.Acknowledgeable())
	second.oneStep(4000, 3)
	second.Flushed(5000)
	second.bye()
	r := second.report()
	require.Empty(t, r.Incomplete)
	require.EqualValues(t, 2, r.Complete)
	require.EqualValues(t, 50_000+20_000, r.ComputeNS)
	require.EqualValues(t, []uint64{2, 1}, []uint64{uint64(second.lines[0].Kernels), uint64(second.lines[1].Kernels)})
	require.EqualValues(t, 60_000, second.lines[0].WallNS)
}
