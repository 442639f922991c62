package step

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/model"
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

// intern interns positions whose kernels nothing else is known of.
func intern(table *Table, positions ...Position) (*Shape, int) {
	return table.intern(positions, make([]Kernel, len(positions)))
}

// TestShapesAreInternedByAllThatIsInThem: each field alone makes another shape, but for the numbers of the session.
func TestShapesAreInternedByAllThatIsInThem(t *testing.T) {
	table := NewTable(100)
	base := Position{Call: "a", Op: "b", Name: "c", Class: span.Compute, Stream: 1, Grid: [3]uint32{3, 1, 1}, Block: [3]uint32{4, 1, 1}, Launch: 5, Node: 6}
	known := Kernel{Call: 1, Name: 7, By: span.ByRule}
	with := func(p Position, k Kernel) *Shape {
		s, gone := table.intern([]Position{p}, []Kernel{k})
		require.Zero(t, gone)
		return s
	}
	of := func(p Position) *Shape { return with(p, known) }
	first := of(base)
	require.Same(t, first, of(base))
	seen := map[*Shape]bool{first: true}
	for name, change := range map[string]func(p *Position){
		"call": func(p *Position) { p.Call = "x" }, "op": func(p *Position) { p.Op = "x" }, "name": func(p *Position) { p.Name = "x" },
		"class": func(p *Position) { p.Class = span.Comm },
		"fused": func(p *Position) { p.Fused = true }, "stream": func(p *Position) { p.Stream = 2 },
		"grid": func(p *Position) { p.Grid[2] = 9 }, "block": func(p *Position) { p.Block[1] = 9 },
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
	require.NotEqual(t, first.Hash, with(base, Kernel{Call: 1, Name: 7, By: span.ByManifest}).Hash, "by")
	require.Same(t, first, with(base, Kernel{Call: 2, Name: 99, By: span.ByRule}), "numbers are others in each process")
}

// TestAPlaceOfAKernel: its grid and block without the context, which is another in each process.
func TestAPlaceOfAKernel(t *testing.T) {
	var p Position
	place(&p, wire.Static{5<<32 | 7, 3 | 2<<32 | 9<<48, 4 | 6<<16 | 8<<32 | 77<<48})
	require.Equal(t, Position{Stream: 5, Grid: [3]uint32{3, 2, 9}, Block: [3]uint32{4, 6, 8}}, p)
}

// TestTheOldestShapesGiveWay: when there are too many, and when a few are huge.
func TestTheOldestShapesGiveWay(t *testing.T) {
	table := NewTable(3)
	names := []string{"a", "b", "c", "d"}
	var shapes []*Shape
	for i, name := range names {
		s, gone := intern(table, positions(1, name)...)
		require.Equal(t, max(0, i-2), gone)
		shapes = append(shapes, s)
	}
	again, gone := intern(table, positions(1, "b")...)
	require.Same(t, shapes[1], again)
	require.Zero(t, gone)
	again, gone = intern(table, positions(1, "a")...)
	require.NotSame(t, shapes[0], again, "it went")
	require.Equal(t, 1, gone)

	const room = 3 * averageShape / 128 // positions
	table = NewTable(3)
	intern(table, positions(room/2, "a")...)
	_, gone = intern(table, positions(room-room/2, "b")...)
	require.Zero(t, gone, "they fit to the last byte")
	require.Equal(t, 3*averageShape, table.bytes)
	_, gone = intern(table, positions(1, "c")...)
	require.Equal(t, 1, gone)
	_, gone = intern(table, positions(2*room, "d")...)
	require.Equal(t, 2, gone, "one that is larger than all room is kept alone")
	require.Equal(t, 128*2*room, table.bytes)
	require.Len(t, table.shapes, 1)
	_, gone = intern(table, positions(1, "e")...)
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
	require.Equal(t, 1, b.overridden)
	require.Same(t, first.Shape, b.replay(2, gemm, reduce, gemm).Shape)
	require.Equal(t, 1, b.overridden, "it repeats")
	require.Equal(t, []Launch{{Correlation: 1, Graph: 6}}, first.Launches())
	require.Equal(t, []string{"", "call1", "call2"}, []string{first.Shape.Positions[0].Call, first.Shape.Positions[1].Call, first.Shape.Positions[2].Call})
	require.Equal(t, []uint32{0, 1, 2}, []uint32{first.Shape.Positions[0].Node, first.Shape.Positions[1].Node, first.Shape.Positions[2].Node})
	other := b.replay(3, gemm, gemm, gemm)
	require.Equal(t, 2, b.overridden)
	require.NotEqual(t, first.Shape.Hash, other.Shape.Hash)
	short := b.replay(4, gemm, gemm)
	require.Len(t, short.Shape.Positions, 2)
	b.replay(5, gemm, gemm)
	require.Equal(t, 4, b.overridden, "what lacks kernels may lack others each time")
	require.Same(t, other.Shape, b.replay(6, gemm, gemm, gemm).Shape)
	require.Equal(t, 4, b.overridden)
	b.Reshape()
	require.Same(t, other.Shape, b.replay(7, gemm, gemm, gemm).Shape)
	require.Equal(t, 5, b.overridden, "classes have changed")
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

// TestOverriddenClassesCount: in the step that is new, and in those that repeat.
func TestOverriddenClassesCount(t *testing.T) {
	b := newBench(t, 10)
	b.override = func(program string, p []Position, of []Kernel) bool {
		require.Equal(t, "decode", program)
		require.Len(t, of, len(p))
		b.overridden++
		p[0].Class = span.Comm
		p[0].Group, p[1].Group, p[1].Bytes = "g", "g", 5
		return true
	}
	for id := ranges.ID(1); id < 3; id++ {
		s := b.replay(id, gemm, gemm, gemm)
		require.Equal(t, [2]uint64{10, 5}, [2]uint64{s.Compute, s.ExposedComm})
		require.Equal(t, span.Comm, s.Spans[0].Class())
		require.Equal(t, "g", s.Shape.Positions[0].Group)
		require.Equal(t, model.GroupNCCL, s.Shape.Positions[0].GroupBy)
		require.Empty(t, s.Shape.Positions[1].Group, "it does not communicate")
		require.Zero(t, s.Shape.Positions[1].Bytes)
	}
	require.Equal(t, 1, b.overridden)
}

// TestRecipesAreBounded: by number, and by what their shapes take.
func TestRecipesAreBounded(t *testing.T) {
	r := recipes{known: map[uint64]known{}}
	shape := func(n int) known { return known{Shape: newShape(positions(n, "a"), make([]Kernel, n))} }
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
