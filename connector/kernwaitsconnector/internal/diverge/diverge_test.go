package diverge

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/pairing"
	"github.com/kernhes/kernhes/internal/digest"
)

// shapeOf is calls by label; those that begin with "ar" communicate.
func shapeOf(calls string) *digest.Shape {
	s := &digest.Shape{Work: uint64(len(calls))<<32 | uint64(strings.Count(calls, "b"))}
	g := digest.Group{Name: "tp"}
	for i, call := range strings.Fields(calls) {
		comm := strings.HasPrefix(call, "ar")
		s.Positions = append(s.Positions, digest.Position{Call: call, Name: "kernel", Comm: comm})
		if comm {
			g.Sites = append(g.Sites, len(s.Sites))
			s.Sites = append(s.Sites, digest.Site{Call: call, Group: "tp", Position: i})
		}
	}
	s.Groups = []digest.Group{g}
	return s
}

var usual = shapeOf("a ar1 b ar2 c")

func seat(rank *pairing.Rank, seq int64, shape *digest.Shape, graph bool) pairing.Seat {
	return pairing.Seat{Rank: rank, Step: &digest.Step{Seq: seq, Program: "decode", Tokens: 8, Graph: graph, Shape: shape}, Sites: shape.Groups[0].Sites}
}

func TestTheRankThatDiffersIsNamed(t *testing.T) {
	ranks := []*pairing.Rank{{ID: 0}, {ID: 1}, {ID: 2}}
	group := &pairing.Group{Name: "tp"}
	check := func(what string, want []Found, shapes ...*digest.Shape) {
		t.Helper()
		var seats []pairing.Seat
		for i, s := range shapes {
			seats = append(seats, seat(ranks[i], 5, s, true))
		}
		var got []Found
		New().Together(group, seats, func(f Found) { got = append(got, f) })
		require.Equal(t, want, got, what)
	}
	found := func(rank int, call string, d Difference) []Found {
		return []Found{{Rank: ranks[rank], Seq: 5, Program: "decode", Call: call, Difference: d}}
	}
	check("all do the same", nil, usual, usual, usual)
	check("one has a kernel more", found(1, "extra", Shape), usual, shapeOf("a ar1 b extra ar2 c"), usual)
	check("one lacks a kernel", found(0, "b", Shape), shapeOf("a ar1 ar2 c"), usual, usual)
	check("one skips a collective", found(2, "ar2", Collectives), usual, usual, shapeOf("a ar1 b c"))
}

// Of two ranks, the one that changes is named; a difference that stays is counted for a while only.
func TestOfTwoTheOneThatChangesIsNamed(t *testing.T) {
	zero, one := &pairing.Rank{ID: 0}, &pairing.Rank{ID: 1}
	group := &pairing.Group{Name: "tp"}
	f := New()
	var got []Found
	step := func(seq int64, a, b *digest.Shape, graph bool) {
		f.Together(group, []pairing.Seat{seat(zero, seq, a, graph), seat(one, seq, b, true)}, func(x Found) { got = append(got, x) })
	}
	step(1, usual, usual, true)
	require.Empty(t, got)
	other := shapeOf("a ar1 b extra ar2 c")
	for seq := int64(2); seq < 102; seq++ {
		step(seq, other, usual, true)
	}
	require.Len(t, got, 100)
	counted := 0
	for _, x := range got {
		require.Same(t, zero, x.Rank)
		require.Equal(t, "extra", x.Call)
		if !x.Standing {
			counted++
		}
	}
	require.Equal(t, standing, counted)
}

// Ranks with other programs need only have as many calls.
func TestOtherProgramsHaveAsManyCalls(t *testing.T) {
	ranks := []*pairing.Rank{{ID: 0}, {ID: 1}, {ID: 2}}
	group := &pairing.Group{Name: "ep"}
	prefill := seat(ranks[1], 5, shapeOf("p ar1 q ar2 r s t u"), false)
	prefill.Step.Program, prefill.Step.Tokens = "prefill", 512
	var got []Found
	New().Together(group, []pairing.Seat{seat(ranks[0], 5, usual, true), prefill, seat(ranks[2], 5, usual, true)}, func(x Found) { got = append(got, x) })
	require.Empty(t, got)
	prefill.Sites = prefill.Sites[:1]
	New().Together(group, []pairing.Seat{seat(ranks[0], 5, usual, true), prefill, seat(ranks[2], 5, usual, true)}, func(x Found) { got = append(got, x) })
	require.Equal(t, []Found{{Rank: ranks[1], Seq: 5, Program: "prefill", Call: "ar2", Difference: Collectives}}, got)
}
