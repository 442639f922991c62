package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/model"
	"github.com/kernhes/kernhes/internal/wire"
)

func TestSilenceIsNotTheEndOfAReplay(t *testing.T) {
	for name, between := range map[string]func(*script){
		"nothing happens": func(*script) {},
		"a later launch on another stream ends": func(s *script) {
			s.Launch(1100, 3)
			s.RanOn(13, 3, 1110, second/2)
		},
		"a later launch on its stream waits": func(s *script) { s.Launch(1100, 3) },
	} {
		t.Run(name, func(t *testing.T) {
			s := uncounted(t, func(s *script) {
				between(s)
				for at := uint64(1); at < 6; at++ {
					s.Flushed(at * second / 2)
					require.EqualValues(t, 1, s.report().Complete)
					require.LessOrEqual(t, s.report().IdleNS+s.report().UnknownNS, uint64(980_000), "nothing after the second step began")
				}
			})
			if name == "a later launch on its stream waits" {
				s.Ran(3, 3*second+10, 3*second+20)
			}
			s.oneStep(4*second, 4) // on its stream
			s.Flushed(5 * second)
			r := s.report()
			require.EqualValues(t, 3, r.Complete)
			require.EqualValues(t, (3*second-1010)*1000, s.lines[1].ComputeNS)
			require.EqualValues(t, 1, r.Launches.Unchecked)
			require.Empty(t, r.Incomplete)
			require.Zero(t, r.UnknownNS)
		})
	}
}

func TestAReplayThatNothingShowsToHaveEndedIsIncomplete(t *testing.T) {
	for name, end := range map[string]func(s *script){
		"bye":     func(s *script) { s.bye() },
		"timeout": func(s *script) { s.Flushed(62 * second) },
		"a kernel of a timeout later": func(s *script) {
			s.Launch(12*second, 5)
			s.RanOn(13, 5, 12*second+10, 12*second+20)
			s.Flushed(13 * second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := uncounted(t, func(*script) {})
			s.Flushed(4 * second)
			require.EqualValues(t, 1, s.report().Complete)
			end(s)
			r := s.report()
			require.EqualValues(t, 1, r.Complete)
			require.Equal(t, map[string]uint64{"end_unknown": 1}, r.Incomplete)
			require.EqualValues(t, 1, r.Launches.Unfulfilled)
			require.Zero(t, r.Missing, "no record is missing for sure")
			require.LessOrEqual(t, r.IdleNS, uint64(980_000), "between the steps at most")
			require.EqualValues(t, s.Number, s.p.Acknowledgeable())
		})
	}
	s := uncounted(t, func(*script) {})
	s.end(true)
	require.Equal(t, map[string]uint64{"engine_gone": 1}, s.report().Incomplete)
}

func TestACopyOnItsStreamShowsThatAReplayHasEnded(t *testing.T) {
	s := uncounted(t, func(*script) {})
	s.CopyOn(7, 3, 3*second+10, 3*second+20)
	s.Flushed(4 * second)
	require.EqualValues(t, 2, s.report().Complete)
	s.bye()
	require.Empty(t, s.report().Incomplete)
}

func TestAReplayThatLacksANodeIsIncomplete(t *testing.T) {
	s := newScript(t)
	for node := range uint64(3) {
		s.Node(0, 5<<32|node)
		s.Clone(0, 5<<32|node, 6<<32|node)
	}
	for i := range uint64(3) {
		at := 1000 + i*11*second
		s.Push(at, "step:decode tokens=1")
		s.GraphLaunch(at+1, uint32(1+i))
		s.Pop(at + 2)
		s.RanNode(uint32(1+i), 6<<32, at+10, at+20)
		if i != 1 { // nothing says that the record is lost
			s.RanNode(uint32(1+i), 6<<32|1, at+20, at+30)
		}
		s.RanNode(uint32(1+i), 6<<32|2, at+30, at+40)
		s.Flushed(at + second)
	}
	r := s.report()
	require.Empty(t, r.Dropped)
	require.EqualValues(t, 1, r.Missing)
	require.EqualValues(t, 1, r.Launches.Unfulfilled)
	require.Zero(t, r.Launches.Unchecked)
	require.EqualValues(t, 2, r.Complete)
	require.Equal(t, map[string]uint64{"missing_records": 1}, r.Incomplete)
	require.Equal(t, "missing_records", s.lines[1].Reason, "its step is marked")
}

func TestAReplayThatLacksACopyIsIncomplete(t *testing.T) {
	s := newScript(t)
	const copied = 6<<32 | 1
	for node := range uint64(2) {
		s.Event(wire.EventNodeCreated, 1, 0, append(u64(5<<32|node), u32(uint32(1-node), 0)...), "") // the second is no launch's
		s.Clone(0, 5<<32|node, 6<<32|node)
	}
	for i := range uint64(4) {
		at := 1000 + i*11*second
		s.Push(at, "step:decode tokens=1")
		s.GraphLaunch(at+1, uint32(1+i))
		s.Pop(at + 2)
		s.RanNode(uint32(1+i), 6<<32, at+10, at+20)
		if i != 2 { // nothing says that the record is lost
			b := make([]byte, 64)
			copy(b, u64(us(at+20), us(at+30), copied))
			copy(b[32:], u32(uint32(1+i)))
			b[42] = wire.CopyMemset
			s.Frame(wire.KindCopies, b)
		}
		s.Flushed(at + second)
	}
	r := s.report()
	require.Empty(t, r.Dropped)
	require.EqualValues(t, 1, r.Missing)
	require.Zero(t, r.Launches.Unchecked)
	require.EqualValues(t, 3, r.Complete)
	require.Equal(t, map[string]uint64{"missing_records": 1}, r.Incomplete)
	require.Equal(t, "missing_records", s.lines[2].Reason, "its step is marked")
}

func TestASessionWithoutStepsHasItsGraphLaunchesAsSteps(t *testing.T) {
	s := newScript(t)
	s.Node(0, 5<<32)
	s.Clone(0, 5<<32, 6<<32)
	c := uint32(0)
	replay := func(at uint64) {
		c++
		s.GraphLaunch(at, c)
		s.RanNode(c, 6<<32, at+10, at+20)
	}
	for range 1000 {
		replay(uint64(c) * 20_000)
	}
	s.Flushed(21 * second)
	require.EqualValues(t, 0, s.report().Complete)
	replay(22 * second)
	s.Flushed(23 * second)
	require.EqualValues(t, 1, s.report().Complete)
	require.Equal(t, "graph", s.lines[0].Program)
	require.Equal(t, "unknown", s.report().Series[0].Batch)
	s.Push(24*second, "step:decode tokens=1") // from now on ranges are steps
	s.Pop(24*second + 1)
	replay(25 * second)
	s.Flushed(26 * second)
	require.EqualValues(t, 1, s.report().Complete)
	require.EqualValues(t, 1001, s.report().Became.Outside)
}

func TestSeqIsOfTheTextElseCountedElsePairsWithNothing(t *testing.T) {
	s := newScript(t)
	s.oneStep(0, 1)
	s.oneStep(1000, 2)
	s.Push(2000, "step:decode seq=41,tokens=1")
	s.Launch(2001, 3)
	s.Pop(2002)
	s.Ran(3, 2010, 2020)
	s.Lost(5, wire.LostEvents, 1, 2000, 3000)
	s.oneStep(4000, 4)
	s.Flushed(5000)
	require.Len(t, s.lines, 4)
	for i, want := range []struct {
		seq   uint64
		pairs bool
	}{{1, true}, {2, true}, {41, true}} {
		require.Equal(t, want.seq, s.lines[i].Seq)
		require.Equal(t, want.pairs, s.lines[i].Pairs)
	}
	require.False(t, s.lines[3].Pairs)
	require.Greater(t, s.lines[3].Seq, uint64(1)<<62)
}

func TestACollectorThatStartsAnewIsGivenWhatIsOpen(t *testing.T) {
	s := newScript(t)
	s.Pinned = true
	s.Event(wire.EventPush, wire.ThreadLabels, 0, u32(0, 0, 10, 1), "decode.mlp")
	s.Event(wire.EventNodeCreated, wire.ThreadLabels, 0, append(u64(6<<32), u32(1, 0)...), "")
	s.Event(wire.EventPop, wire.ThreadLabels, 0, u32(0, 0), "")
	s.Push(1, "step:decode seq=5,tokens=1")
	s.Base(100, 20)
	s.Ran(19, 5, 10) // its launch was acknowledged before
	s.GraphLaunch(12, 21)
	s.Pop(13)
	s.RanNode(21, 6<<32, 20, 30)
	s.Ran(30, 40, 50) // its launch was never seen
	s.Flushed(1000)
	s.bye()
	r := s.report()
	require.EqualValues(t, 1, r.Became.InSteps)
	require.EqualValues(t, 1, r.Became.Outside)
	require.EqualValues(t, 1, r.Became.Duplicate, "an earlier collector settled it")
	require.EqualValues(t, 1, r.Called, "the label of the pinned node")
	require.Len(t, s.lines, 1)
	require.Equal(t, "step:decode seq=5,tokens=1", s.lines[0].Text)
	require.Equal(t, "joined_late", s.lines[0].Reason, "its first launches were not heard")
	require.Equal(t, Unattributed{Settled: model.Settled{Outside: 1}}, s.p.Unattributed(), "what was settled before is not counted again")
}
