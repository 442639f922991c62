package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/books"
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
