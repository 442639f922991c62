package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/internal/model"
	"github.com/kernhes/kernhes/internal/wire"
)

func TestALossMakesIdleUnknownUpToTheNextFlush(t *testing.T) {
	s := newScript(t)
	s.oneStep(0, 1)
	s.Flushed(1000)
	s.oneStep(10_000, 2)
	s.Lost(1, wire.LostKernels, 3, 1000, 11_000)
	s.Flushed(20_000)
	s.oneStep(30_000, 3)
	s.Flushed(40_000)
	s.bye()
	r := s.report()
	require.EqualValues(t, 60_000, r.ComputeNS)
	require.EqualValues(t, (30_010-20_000)*1000, r.IdleNS)
	require.EqualValues(t, (20_000-30-20)*1000, r.UnknownNS, "from the first kernel's end, less the second kernel")
	require.Equal(t, map[string]uint64{"cupti_dropped": 3}, r.Dropped)
}

// While tracing is off idle is unknown, and steps whose range is open then, and that launched, are incomplete.
func TestTracingThatIsOffForAWhile(t *testing.T) {
	mode := func(s *script, mode string) { s.Frame(wire.KindInfo, wire.AppendPair(nil, "mode", mode)) }
	s := newScript(t, "mode", "software")
	s.oneStep(0, 1)
	s.Flushed(1000)
	s.Push(1100, "step:decode tokens=2")
	s.Launch(1101, 2)
	mode(s, "off")
	s.Pop(1200)
	s.Ran(2, 1110, 1130)
	s.Push(2000, "step:decode tokens=3") // nobody sees its launches
	s.Pop(2010)
	s.Flushed(5000)
	s.Push(6000, "step:decode tokens=4")
	mode(s, "software")
	s.Launch(6001, 3)
	s.Pop(6002)
	s.Ran(3, 6010, 6030)
	s.Flushed(7000)
	s.oneStep(8000, 4)
	s.Flushed(9000)
	s.bye()
	r := s.report()
	require.EqualValues(t, 4*20_000, r.ComputeNS)
	require.EqualValues(t, 2, r.Complete)
	require.Equal(t, map[string]uint64{"not_traced": 2}, r.Incomplete)
	require.EqualValues(t, 5, r.StepRanges)
	require.EqualValues(t, (8010-7000)*1000, r.IdleNS, "what follows the flush after it was on again")
	require.EqualValues(t, (7000-30-20-20)*1000, r.UnknownNS)
	require.Empty(t, r.Dropped)

	s = newScript(t, "mode", "off") // a collector that comes while it is off
	s.Push(0, "step:decode tokens=1")
	mode(s, "hes")
	s.Launch(1, 1)
	s.Pop(2)
	s.Ran(1, 10, 30)
	s.bye()
	require.Equal(t, map[string]uint64{"not_traced": 1}, s.report().Incomplete)
}

func TestTimeAfterTheLastKernelIsHeldBackForAWhile(t *testing.T) {
	s := newScript(t)
	s.oneStep(0, 1)
	s.Flushed(5 * second)
	require.Zero(t, s.report().IdleNS)
	require.EqualValues(t, us(30), s.report().WatermarkNS)
	s.Flushed(11 * second)
	require.EqualValues(t, (11*second-100-30)*1000, s.report().IdleNS, "a card that stays idle is seen to")
	s.bye()
	require.EqualValues(t, (11*second-100-30)*1000, s.report().IdleNS)

	s = newScript(t)
	s.oneStep(0, 1)
	s.Flushed(9 * second)
	s.bye()
	require.Zero(t, s.report().IdleNS)
	require.EqualValues(t, us(30), s.report().WatermarkNS)
}

func TestALaunchWithoutItsRecordIsGivenUpAfterATimeout(t *testing.T) {
	s := newScript(t)
	s.oneStep(0, 1)
	s.Push(1000, "step:decode tokens=1")
	s.Launch(1001, 2) // its record never comes
	s.Pop(1002)
	s.oneStep(2000, 3)
	s.Flushed(9 * second)
	require.EqualValues(t, 1, s.report().Complete, "the third step ended after the watermark")
	require.EqualValues(t, 2, s.report().Pending+s.report().Complete)
	before := s.p.Acknowledgeable()
	s.Flushed(12 * second)
	require.EqualValues(t, 1, s.report().Complete, "nothing started later than a timeout after it: it may still be running")
	s.oneStep(12*second, 4)
	s.Flushed(13 * second)
	r := s.report()
	require.EqualValues(t, 3, r.Complete)
	require.Equal(t, map[string]uint64{"missing_records": 1}, r.Incomplete)
	require.EqualValues(t, 1, r.Launches.Unfulfilled)
	require.EqualValues(t, 1, r.Missing)
	require.NotZero(t, r.UnknownNS)
	require.Greater(t, s.p.Acknowledgeable(), before)
	s.Ran(2, 1010, 1020) // it comes after all
	require.EqualValues(t, 1, s.report().Became.Late)
}

func TestAKernelThatHangsLosesNothing(t *testing.T) {
	s := newScript(t)
	s.oneStep(0, 1)
	s.Push(1000, "step:decode tokens=1")
	s.Launch(1001, 2)
	s.Launch(1002, 3)
	s.Pop(1003)
	for at := uint64(1); at < 40; at++ {
		s.Flushed(at * second)
	}
	s.Ran(2, 1010, 39*second)
	s.Ran(3, 39*second, 39*second+5)
	s.Flushed(40 * second)
	s.bye()
	r := s.report()
	require.EqualValues(t, 2, r.Complete)
	require.Zero(t, r.UnknownNS)
	require.Zero(t, r.Launches.Unfulfilled)
	require.EqualValues(t, 20_000+(39*second+5-1010)*1000, r.ComputeNS)
}

func TestAStepWhoseRangeNeverEndsTimesOut(t *testing.T) {
	s := newScript(t)
	s.Push(0, "step:decode tokens=1")
	s.Launch(1, 1)
	s.Ran(1, 10, 30)
	s.Flushed(9 * second)
	require.Empty(t, s.report().Incomplete)
	s.Flushed(11 * second)
	require.Equal(t, map[string]uint64{"range_open": 1}, s.report().Incomplete)
	s.Launch(11*second+1, 2)
	s.Ran(2, 11*second+10, 11*second+20)
	s.Flushed(12 * second)
	r := s.report()
	require.EqualValues(t, 1, r.Became.Outside, "launches in a step that was given up are outside")
	require.EqualValues(t, 1, r.Became.InSteps)
	require.EqualValues(t, s.Number, s.p.Acknowledgeable())
}

func TestRecordsThatComeTwice(t *testing.T) {
	s := newScript(t)
	s.oneStep(0, 1)
	s.Ran(1, 10, 30)
	s.Node(40, 5<<32)
	s.Node(40, 5<<32|1)
	s.Clone(41, 5<<32, 6<<32)
	s.Clone(41, 5<<32|1, 6<<32|1)
	s.Push(50, "step:decode tokens=1")
	s.GraphLaunch(51, 2)
	s.Pop(52)
	s.RanNode(2, 6<<32, 60, 70)
	s.RanNode(2, 6<<32, 60, 70)
	s.RanNode(2, 6<<32|1, 70, 80)
	s.RanNode(2, 6<<32|1, 70, 80)
	s.Flushed(1000)
	r := s.report()
	require.EqualValues(t, 3, r.Became.Duplicate)
	require.EqualValues(t, 3, r.Became.InSteps)
	require.EqualValues(t, 2, r.Complete)
	require.EqualValues(t, 40_000, r.ComputeNS)
}

// uncounted plays a replay of a graph whose capture was not seen: two kernels, and after two seconds a third, which waited for
// another rank for three. between is what else happens meanwhile.
func uncounted(t *testing.T, between func(s *script)) *script {
	s := newScript(t)
	s.oneStep(0, 1)
	s.Push(1000, "step:decode tokens=1")
	s.GraphLaunch(1001, 2)
	s.Pop(1002)
	s.RanNode(2, 9<<32, 1010, 1020)
	s.RanNode(2, 9<<32|1, 1020, 1030)
	between(s)
	s.RanNode(2, 9<<32|2, 1030, 3*second)
	return s
}

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

func TestAnEngineThatIsGone(t *testing.T) {
	s := newScript(t)
	s.oneStep(0, 1)
	s.Push(1000, "step:decode tokens=1")
	s.Launch(1001, 2)
	s.Launch(1002, 3)
	s.Ran(2, 1010, 1020)
	s.end(true)
	r := s.report()
	require.Equal(t, map[string]uint64{"engine_gone": 1}, r.Dropped)
	require.Equal(t, map[string]uint64{"engine_gone": 1}, r.Incomplete)
	require.EqualValues(t, 1, r.Complete)
	require.EqualValues(t, 1, r.Launches.Unfulfilled)
}

// TestWhatAByeLeavesOpenIsNotLostAgain: at a bye nothing says why a launch lacks its records, and LOST may have told of them.
func TestWhatAByeLeavesOpenIsNotLostAgain(t *testing.T) {
	s := newScript(t)
	s.oneStep(0, 1)
	s.Push(1000, "step:decode tokens=1")
	s.Launch(1001, 2)
	s.Launch(1002, 3) // this one failed in CUDA, who knows
	s.Pop(1003)
	s.Lost(1, wire.LostRecords, 1, 1000, 1100)
	s.bye()
	r := s.report()
	require.Equal(t, map[string]uint64{"cupti_dropped": 1}, r.Dropped)
	require.Equal(t, map[string]uint64{"missing_records": 1}, r.Incomplete)
	require.EqualValues(t, 2, r.Missing)
	require.EqualValues(t, 2, r.Launches.Unfulfilled)
}

func TestRanksOfDevices(t *testing.T) {
	rank := func(pairs ...string) int64 {
		s := newScript(t, pairs...)
		s.oneStep(0, 1)
		s.Flushed(1000)
		return s.report().Rank
	}
	require.EqualValues(t, 3, rank("rank", "3"))
	require.EqualValues(t, 5, rank("rank", "", "visible_devices", "5,6"))
	require.EqualValues(t, 0, rank("rank", "", "visible_devices", "GPU-1234"))
}

func TestBuckets(t *testing.T) {
	cfg := testSettings()
	b := newBuckets(cfg.BatchEdges, cfg.KVEdges)
	for n, want := range map[int64]string{0: "unknown", 1: "1", 2: "2", 3: "4", 5: "8", 33: "48", 32768: "32768", 32769: "+Inf"} {
		require.Equal(t, want, b.batch.label(n), n)
	}
	for n, want := range map[int64]string{0: "unknown", 1: "1024", 1024: "1024", 1025: "4096", 2 << 20: "+Inf"} {
		require.Equal(t, want, b.kv.label(n), n)
	}
}

func TestSeriesAreCapped(t *testing.T) {
	s := newScript(t)
	s.p.set.maxSeries = 3
	for i := range uint64(10) {
		s.Push(i*100, "step:program"+string(rune('a'+i))+" tokens=1")
		s.Launch(i*100+1, uint32(i+1))
		s.Pop(i*100 + 2)
		s.Ran(uint32(i+1), i*100+10, i*100+20)
	}
	s.Flushed(10_000)
	r := s.report()
	require.Len(t, r.Series, 4)
	for _, x := range r.Series {
		if x.Program == "other" {
			require.EqualValues(t, 7, x.Steps)
		}
	}
}

func TestTooMuchMemoryEndsWhatIsOpen(t *testing.T) {
	s := newScript(t)
	s.p.set.maxBytes = 16 << 10
	s.oneStep(0, 1)
	s.Push(1000, "step:decode tokens=1")
	for i := range uint32(300) {
		s.Launch(1001+uint64(i), 10+i)
		s.Ran(10+i, 1010+uint64(i), 1011+uint64(i))
		s.p.Unattributed() // as the session does when it acknowledges
		require.LessOrEqual(t, s.p.bytes(), s.p.set.maxBytes*5/4)
	}
	s.Pop(2000)
	s.oneStep(3000, 1000)
	s.Flushed(4000)
	s.bye()
	r := s.report()
	require.EqualValues(t, 2, r.Complete)
	require.EqualValues(t, 1, r.Incomplete["too_large"])
	require.Zero(t, r.Dropped[books.SessionLimit], "each launch had its record")
	require.EqualValues(t, 302, r.Kernels)
	require.NotZero(t, r.Became.Outside, "launches in a step that was given up")
	require.Equal(t, map[string]uint64{"max_session_bytes": 1}, r.Limited)
}

func TestALaunchThatALimitGivesUpIsCounted(t *testing.T) {
	s := newScript(t)
	s.p.set.maxBytes = entryBytes + 24 // one kernel outside any step: device time has it, and the ledger
	s.Push(0, "step:decode tokens=1")
	for c := range uint32(5) {
		s.Launch(1+uint64(c), 1+c)
	}
	s.Ran(1, 10, 11)
	s.Ran(2, 11, 12)
	require.Equal(t, map[string]uint64{"session_limit": 3}, s.report().Dropped)
	s.Ran(3, 20, 30)
	require.Equal(t, map[string]uint64{"session_limit": 3, "late": 1}, s.report().Dropped, "it comes after all")
}

func TestAClockThatIsSetBackLeavesUnknownTime(t *testing.T) {
	s := newScript(t)
	s.oneStep(10*second, 1)
	s.Frame(wire.KindFlushed, append(u64(us(11*second), us(11*second), us(1*second)), u32(1, 0)...))
	s.Frame(wire.KindFlushed, append(u64(us(6*second), us(6*second), us(2*second)), u32(1, 0)...))
	s.oneStep(7*second, 2)
	s.oneStep(12*second, 3)
	s.Frame(wire.KindFlushed, append(u64(us(13*second), us(13*second), us(9*second)), u32(1, 0)...))
	s.bye()
	r := s.report()
	require.NotZero(t, r.UnknownNS)
	require.EqualValues(t, 3, r.Complete)
}

func TestWhatHoldsBackAnAcknowledgementIsSaid(t *testing.T) {
	s := newScript(t)
	holds := func(settled uint64, what string) {
		t.Helper()
		frame, by := s.p.Holds()
		require.Equal(t, what, by)
		require.Equal(t, settled, frame)
	}
	s.Flushed(0)
	holds(1, "")
	s.Launch(10, 1)
	holds(1, "a launch whose records have not come")
	s.Ran(1, 20, 30)
	holds(3, "")
	s.Push(40, "step:decode tokens=1")
	holds(3, "an open step")
	s.Launch(41, 2)
	s.Pop(42)
	s.Ran(2, 50, second)
	s.Frame(wire.KindFlushed, append(u64(us(second), us(second/2), us(second)), u32(1, 0)...)) // the flush took half a second
	holds(3, "a step that is not final")
	s.Flushed(2 * second)
	holds(9, "")
}
