package step

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/coverage"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/cupti"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/ranges"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

// TestMessagesAreSummedByGroupAndBytes, in the order of their first; kernels of neither are left out.
func TestMessagesAreSummedByGroupAndBytes(t *testing.T) {
	at := func(group string, bytes uint64) Position {
		return Position{Group: group, Bytes: bytes}
	}
	require.Empty(t, messages([]Position{at("", 0)}))
	require.Equal(t, []Message{{"tp", 8, 2}, {"tp", 16, 1}, {"", 8, 2}, {"dp", 0, 1}, {"dp", 8, 1}},
		messages([]Position{at("tp", 8), at("", 0), at("tp", 16), at("", 8), at("dp", 0), at("tp", 8), at("dp", 8), at("", 8)}))

	var many []Position
	for i := range maxMessages + 5 {
		many = append(many, at(fmt.Sprint("group ", i), 1))
	}
	many = append(many, many...)
	got := messages(many)
	require.Len(t, got, 64)
	for i, m := range got {
		require.Equal(t, Message{fmt.Sprint("group ", i), 1, 2}, m, "the first are told apart, and counted on")
	}
}

// TestAShapeKnowsWhatItsKernelsCountAs: by rule or by default, with a call or without.
func TestAShapeKnowsWhatItsKernelsCountAs(t *testing.T) {
	s := newShape([]Position{{Name: "a", Call: "call"}, {Name: "b"}}, []Kernel{{By: span.ByRule}, {By: span.ByDefault}})
	var a coverage.Account
	a.Step(s.Cover, []span.Span{span.Make(100, 107, span.Compute), span.Make(200, 211, span.Compute)})
	r := a.Report(5)
	require.Equal(t, coverage.Time{NS: 7, Kernels: 1}, r.By[span.ByRule])
	require.Equal(t, coverage.Time{NS: 11, Kernels: 1}, r.By[span.ByDefault])
	require.Equal(t, coverage.Time{NS: 7, Kernels: 1}, r.Labelled)
	require.Equal(t, "b", r.Unlabelled[0].Name)
}

// TestTheLowestFrameOfOpenStepsIsHeld, in whatever order they opened: a step can be told of again.
func TestTheLowestFrameOfOpenStepsIsHeld(t *testing.T) {
	b := newBench(t, 10)
	for id, frame := range []uint64{7, 4, 9} {
		b.Open(ranges.ID(id+1), ranges.Step{Text: "step:decode", Program: "decode"}, 1, 100, frame, true)
	}
	held, ok := b.Held()
	require.True(t, ok)
	require.EqualValues(t, 4, held)
}

// TestStepsAndLaunchesAreNumberedInTheirOrder: steps from 1 in the session, launches from 0 in each step.
func TestStepsAndLaunchesAreNumberedInTheirOrder(t *testing.T) {
	b := newBench(t, 10)
	for id := ranges.ID(1); id <= 3; id++ {
		require.EqualValues(t, id, b.Open(id, ranges.Step{Text: "step:decode", Program: "decode"}, 1, 100, 1, true))
		for n := range uint32(3) {
			ordinal, ok := b.Launched(id, 100)
			require.True(t, ok)
			require.Equal(t, n, ordinal)
		}
	}
	_, ok := b.Launched(9, 100)
	require.False(t, ok, "no such step")
}

// TestWhatALaunchCommunicatesIsInItsPosition, and what communicates nothing has no group.
func TestWhatALaunchCommunicatesIsInItsPosition(t *testing.T) {
	b := newBench(t, 10)
	b.open(1, 100)
	for n, comm := range []uint32{0, 5} {
		ordinal, _ := b.Launched(1, 100)
		b.joiner.Launch(cupti.Launch{Time: 100, Correlation: uint32(n + 1), Owner: 1, Ordinal: ordinal, Comm: comm})
		b.ran(uint32(n+1), reduce, 0, 0, 200+100*uint64(n), 210+100*uint64(n))
	}
	b.Ended(1)
	s := b.closed(400)[1]
	require.NotNil(t, s)
	got := s.Shape.Positions
	require.Equal(t, []string{"", "group5"}, []string{got[0].Group, got[1].Group})
	require.Equal(t, []uint64{0, 5}, []uint64{got[0].Bytes, got[1].Bytes})
	require.Equal(t, []Message{{"group5", 5, 1}}, s.Shape.Messages)
}
