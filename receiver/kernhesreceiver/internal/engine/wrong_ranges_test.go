package engine

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/wire"
)

// TestARangeAroundAWholeLoopIsNoStep: it is given up, and said to be open.
func TestARangeAroundAWholeLoopIsNoStep(t *testing.T) {
	s := archivedScript(t, "mode", "off")
	s.Push(0, "step:loop tokens=1")
	s.Flushed(9 * second)
	require.Zero(t, s.report().Untraced)
	s.Flushed(11 * second)
	s.Pop(12 * second)
	s.bye()
	r := s.report()
	require.EqualValues(t, 1, r.Overlong)
	require.EqualValues(t, 1, r.Untraced)
	require.Zero(t, r.Pace[0].Range.N)
	one := s.steps()["step:loop tokens=1"]
	require.True(t, one.Untraced)
	require.Equal(t, "range_open", one.Reason)
	require.Zero(t, one.Issued.Pop)
}

// TestRangesInADomainOfTheirOwnAreShown: no pattern is of that domain.
func TestRangesInADomainOfTheirOwnAreShown(t *testing.T) {
	s := archivedScript(t, "mode", "off")
	s.Event(wire.EventDomain, 1, 0, u32(5, 3), "own")
	for i := range uint64(3) {
		text := fmt.Sprintf("step:decode seq=%d", i)
		s.Event(wire.EventPush, 1, 100*i, u32(5, 0, uint32(len(text)), 1), text)
		s.Event(wire.EventPop, 1, 100*i+50, u32(5, 0), "")
	}
	s.bye()
	r := s.report()
	require.Zero(t, r.StepRanges)
	require.Equal(t, "step:decode seq=#", r.Ranges.Unmatched[0].Text)
	require.Equal(t, "own", r.Ranges.Unmatched[0].Domain)
	require.EqualValues(t, 3, r.Ranges.Unmatched[0].Ranges)
}

// TestStepsThatAreNeverPoppedHaveNoTimes, and no place.
func TestStepsThatAreNeverPoppedHaveNoTimes(t *testing.T) {
	s := archivedScript(t, "mode", "off")
	for i := range uint64(100) {
		text := fmt.Sprintf("step:decode seq=%d", i)
		s.Event(wire.EventPush, 1, 1000*i, u32(0, 0, uint32(len(text)), uint32(i)+1), text)
	}
	s.Flushed(20 * second)
	r := s.report()
	require.EqualValues(t, 100, r.Overlong)
	require.Empty(t, r.Places)
	require.Zero(t, r.Pace[0].Range.N+r.Pace[0].Interval.N)
	require.True(t, r.Ranges.Leaks[0].Leaking)
}

// TestStepsOfAnotherThreadThanTheLaunches have their ranges, and no kernel: they are counted as empty.
func TestStepsOfAnotherThreadThanTheLaunches(t *testing.T) {
	s := archivedScript(t, "mode", "hes")
	for i := range uint64(5) {
		s.Push(1000*i, "step:decode tokens=1")
		s.Event(wire.EventLaunch, 2, 1000*i+1, u32(uint32(i)+1, 0), "")
		s.Pop(1000*i + 100)
		s.Ran(uint32(i)+1, 1000*i+10, 1000*i+30)
	}
	s.Flushed(10_000)
	s.bye()
	r := s.report()
	require.EqualValues(t, 5, r.Empty)
	require.EqualValues(t, 5, r.StepRanges)
	require.EqualValues(t, 5, r.Became.Outside)
	require.EqualValues(t, 500_000, r.Pace[0].Range.NS)
	require.EqualValues(t, 4_000_000, r.Pace[0].Interval.NS)
}
