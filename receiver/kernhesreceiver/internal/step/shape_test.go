package step

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/cupti"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/ranges"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

func positions(n int, name string) []Position {
	all := make([]Position, n)
	for i := range all {
		all[i].Name = name
	}
	return all
}

// TestShapesAreInternedByAllThatIsInThem: each field alone makes another shape, but for the context in Static.
func TestShapesAreInternedByAllThatIsInThem(t *testing.T) {
	table := NewTable(100)
	base := Position{Call: "a", Op: "b", Name: "c", Class: span.Compute, By: span.ByRule, Static: wire.Static{1<<32 | 7, 3, 4}, Launch: 5, Node: 6}
	of := func(p Position) *Shape {
		s, gone := table.intern([]Position{p})
		require.Zero(t, gone)
		return s
	}
	first := of(base)
	require.Same(t, first, of(base))
	seen := map[*Shape]bool{first: true}
	for name, change := range map[string]func(p *Position){
		"call": func(p *Position) { p.Call = "x" }, "op": func(p *Position) { p.Op = "x" }, "name": func(p *Position) { p.Name = "x" },
		"class": func(p *Position) { p.Class = span.Comm }, "by": func(p *Position) { p.By = span.ByManifest },
		"fused": func(p *Position) { p.Fused = true }, "stream": func(p *Position) { p.Static[0] = 2<<32 | 7 },
		"grid": func(p *Position) { p.Static[1] = 9 }, "block": func(p *Position) { p.Static[2] = 9 },
		"launch": func(p *Position) { p.Launch = 9 }, "node": func(p *Position) { p.Node = 9 }, "bytes": func(p *Position) { p.Bytes = 9 },
		"call and name": func(p *Position) { p.Call, p.Name = "ac", "" },
	} {
		p := base
		change(&p)
		s := of(p)
		require.False(t, seen[s], name)
		require.NotEqual(t, first.Hash, s.Hash, name)
		seen[s] = true
	}
	p := base
	p.Static[2] |= 77 << 48
	require.Same(t, first, of(p), "the context is another in each process")
	p = base
	p.Static[0] = 1<<32 | 99
	require.Same(t, first, of(p), "and so is the id of its name")
}

// TestTheOldestShapesGiveWay: when there are too many, and when a few are huge.
func TestTheOldestShapesGiveWay(t *testing.T) {
	table := NewTable(3)
	names := []string{"a", "b", "c", "d"}
	var shapes []*Shape
	for i, name := range names {
		s, gone := table.intern(positions(1, name))
		require.Equal(t, max(0, i-2), gone)
		shapes = append(shapes, s)
	}
	again, gone := table.intern(positions(1, "b"))
	require.Same(t, shapes[1], again)
	require.Zero(t, gone)
	again, gone = table.intern(positions(1, "a"))
	require.NotSame(t, shapes[0], again, "it went")
	require.Equal(t, 1, gone)

	const room = 3 * averageShape / 128 // positions
	table = NewTable(3)
	table.intern(positions(room/2, "a"))
	_, gone = table.intern(positions(room-room/2, "b"))
	require.Zero(t, gone, "they fit to the last byte")
	require.Equal(t, 3*averageShape, table.bytes)
	_, gone = table.intern(positions(1, "c"))
	require.Equal(t, 1, gone)
	_, gone = table.intern(positions(2*room, "d"))
	require.Equal(t, 2, gone, "one that is larger than all room is kept alone")
	require.Equal(t, 128*2*room, table.bytes)
	require.Len(t, table.shapes, 1)
	_, gone = table.intern(positions(1, "e"))
	require.Equal(t, 1, gone)
	require.Equal(t, 128, table.bytes)
}

// replay is a step of a replay of a graph of three nodes; the names are those of the kernels that came.
func (b *bench) replay(id ranges.ID, names ...uint32) *Step {
	if id == 1 {
		for low := range uint64(3) {
			b.joiner.NodeCreated(6<<32|low, true, 0, uint32(low), 0)
		}
	}
	at := uint64(id) * 1000
	b.open(id, at)
	c := b.launch(id, at, true)
	for i, name := range names {
		b.ran(c, name, 0, 6<<32|uint64(i), at+10*uint64(i), at+10*uint64(i)+5)
	}
	b.Ended(id)
	if len(names) < 3 {
		b.joiner.End(false, func(l *cupti.Launch) { b.LaunchEnded(l) })
	}
	s := b.closed(0)[id]
	require.NotNil(b, s)
	return s
}

// TestAStepThatRepeatsCostsALookUp: its positions are not worked out again, unless something in them may be another.
func TestAStepThatRepeatsCostsALookUp(t *testing.T) {
	b := newBench(t, 10)
	first := b.replay(1, gemm, reduce, gemm)
	require.Equal(t, 1, b.judged)
	require.Same(t, first.Shape, b.replay(2, gemm, reduce, gemm).Shape)
	require.Equal(t, 1, b.judged, "it repeats")
	require.Equal(t, []Launch{{1, 6}}, first.Launches())
	require.Equal(t, []string{"", "call1", "call2"}, []string{first.Shape.Positions[0].Call, first.Shape.Positions[1].Call, first.Shape.Positions[2].Call})
	require.Equal(t, []uint32{0, 1, 2}, []uint32{first.Shape.Positions[0].Node, first.Shape.Positions[1].Node, first.Shape.Positions[2].Node})
	other := b.replay(3, gemm, gemm, gemm)
	require.Equal(t, 2, b.judged)
	require.NotEqual(t, first.Shape.Hash, other.Shape.Hash)
	short := b.replay(4, gemm, gemm)
	require.Len(t, short.Shape.Positions, 2)
	b.replay(5, gemm, gemm)
	require.Equal(t, 4, b.judged, "what lacks kernels may lack others each time")
	require.Same(t, other.Shape, b.replay(6, gemm, gemm, gemm).Shape)
	require.Equal(t, 4, b.judged)
	b.Reshape()
	require.Same(t, other.Shape, b.replay(7, gemm, gemm, gemm).Shape)
	require.Equal(t, 5, b.judged, "classes have changed")
}

// TestKernelsThatCameBeforeClassesChangedHaveTheNewOnes: also in the sums of their step.
func TestKernelsThatCameBeforeClassesChangedHaveTheNewOnes(t *testing.T) {
	b := newBench(t, 10)
	b.open(1, 0)
	c := b.launch(1, 0, false)
	b.ran(c, big, 0, 0, 10, 30)
	classes[big] = span.Comm
	defer delete(classes, big)
	b.Reshape()
	b.Ended(1)
	s := b.closed(0)[1]
	require.Equal(t, span.Comm, s.Shape.Positions[0].Class)
	require.Equal(t, span.Comm, s.Spans[0].Class())
	require.Equal(t, [2]uint64{0, 20}, [2]uint64{s.Compute, s.ExposedComm})
}

// TestWhatAJudgeSaysCounts: in the step that is new, and in those that repeat.
func TestWhatAJudgeSaysCounts(t *testing.T) {
	b := newBench(t, 10)
	b.judge = func(program string, p []Position, calls []uint32) bool {
		require.Equal(t, "decode", program)
		require.Len(t, calls, len(p))
		b.judged++
		p[0].Class = span.Comm
		p[0].Group, p[1].Group, p[1].Bytes = "g", "g", 5
		return true
	}
	for id := ranges.ID(1); id < 3; id++ {
		s := b.replay(id, gemm, gemm, gemm)
		require.Equal(t, [2]uint64{10, 5}, [2]uint64{s.Compute, s.ExposedComm})
		require.Equal(t, span.Comm, s.Spans[0].Class())
		require.Equal(t, "g", s.Shape.Positions[0].Group)
		require.Empty(t, s.Shape.Positions[1].Group, "it does not communicate")
		require.Zero(t, s.Shape.Positions[1].Bytes)
	}
	require.Equal(t, 1, b.judged)
}

// TestRecipesAreBounded: by number, and by what their shapes take.
func TestRecipesAreBounded(t *testing.T) {
	r := recipes{known: map[uint64]known{}}
	shape := func(n int) known { return known{Shape: newShape(positions(n, "a"))} }
	for key := range uint64(3) {
		r.keep(key, shape(1), 3)
	}
	require.Len(t, r.known, 3)
	r.keep(9, shape(1), 3)
	require.Len(t, r.known, 1, "all others are forgotten")
	require.Equal(t, 128, r.bytes)
	r.keep(10, shape(3*averageShape/128-1), 3)
	require.Len(t, r.known, 2, "it fits to the last byte")
	r.keep(11, shape(1), 3)
	require.Len(t, r.known, 1)
	r.forget()
	require.Zero(t, len(r.known)+r.bytes)
}
