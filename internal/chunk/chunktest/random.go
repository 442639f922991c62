package chunktest

import (
	"fmt"
	"math/rand/v2"

	"github.com/kernhes/kernhes/internal/chunk"
)

// Random are chunks of one rank as an engine with moods would give them: shapes that repeat, that come once, that differ in
// one text; steps of one kernel and of thousands; launches of graphs and single ones; parts of steps, kernels outside any,
// times that go backward. Equal seeds give equal chunks.
func Random(seed uint64, steps int) (chunks []*chunk.Chunk) {
	r := rand.New(rand.NewPCG(seed, 1))
	var shapes []*chunk.Shape
	now := uint64(1_764_000_000_000_000_000)
	c := &chunk.Chunk{}
	for seq := range steps {
		if seq == 0 || r.IntN(20) == 0 {
			c = &chunk.Chunk{Identity: chunk.Identity{Run: "random", Rank: 3, Device: uint16(r.IntN(2)), Session: 7 + uint64(r.IntN(2)), Host: "h", Mode: "hes"}}
			chunks = append(chunks, c)
		}
		if len(shapes) == 0 || r.IntN(4) == 0 {
			shapes = append(shapes, randomShape(r, shapes))
		}
		s := chunk.Step{Seq: int64(seq), Program: []string{"prefill", "decode"}[r.IntN(2)], Shape: shapes[r.IntN(len(shapes))], Last: true, Start: now}
		if s.Outside = r.IntN(6) == 0; s.Outside {
			s.Seq, s.Program = 0, ""
		}
		if r.IntN(10) == 0 {
			s.Occurrence, s.Seq = 1, s.Seq|1<<61
		}
		randomTimes(r, &s, &now)
		s.End, s.Kernels = now, len(s.Starts)
		if n := len(s.Starts); n > 4 && r.IntN(8) == 0 { // in two parts, as a step is that fits no chunk
			first, second := s, s
			cut := 1 + r.IntN(n-1)
			part(&first, 0, cut)
			part(&second, cut, n)
			c.Steps = append(c.Steps, first)
			s = second
		}
		c.Steps = append(c.Steps, s)
	}
	return chunks
}

// part makes of a step its kernels from lo to hi.
func part(s *chunk.Step, lo, hi int) {
	positions := s.Shape.Positions
	skip := 0
	for i := 1; i <= lo; i++ {
		if positions[i].Launch != positions[i-1].Launch {
			skip++
		}
	}
	s.Last, s.Offset = hi == len(positions), lo
	s.Shape = &chunk.Shape{Hash: s.Shape.Hash, Positions: positions[lo:hi]}
	n := 1
	for i := lo + 1; i < hi; i++ {
		if positions[i].Launch != positions[i-1].Launch {
			n++
		}
	}
	s.Launches = s.Launches[skip : skip+n]
	s.Starts, s.Durs = s.Starts[lo:hi], s.Durs[lo:hi]
}

// randomShape is new, or a shape that there is with another text at one place.
func randomShape(r *rand.Rand, shapes []*chunk.Shape) *chunk.Shape {
	if len(shapes) > 0 && r.IntN(3) == 0 {
		from := shapes[r.IntN(len(shapes))]
		s := &chunk.Shape{Hash: from.Hash, Positions: append([]chunk.Position(nil), from.Positions...)}
		s.Positions[r.IntN(len(s.Positions))].Call = fmt.Sprint("other.", r.IntN(1000))
		return s
	}
	n := []int{1, 7, 8, 63, 64, 65, 200, 1000, 3001}[r.IntN(9)]
	s := &chunk.Shape{Hash: r.Uint64()}
	graph := r.IntN(2) == 0
	launch, node := uint32(0), uint32(r.IntN(100))
	for i := range n {
		if i > 0 && (!graph || r.IntN(200) == 0) {
			launch++
		}
		p := chunk.Position{Call: fmt.Sprintf("layers.%d.mlp", i/7%40), Op: []string{"", "gemm", "norm"}[i%3], Name: fmt.Sprintf("_Z%dkernel%dv", 7+len(fmt.Sprint(i%31)), i%31),
			Stream: uint32(7 + i%2), Grid: [3]uint32{uint32(r.IntN(300)), 1, 1}, Block: [3]uint32{128, 1, 1}, Launch: launch}
		if graph {
			node += 1 + uint32(i/50%2)
			p.Node = node
		}
		if i%9 == 0 {
			p.Class, p.Group, p.GroupBy, p.Bytes, p.Fused = chunk.Comm, "tp:0", chunk.GroupNCCL, 1<<20, i%2 == 0
		}
		s.Positions = append(s.Positions, p)
	}
	return s
}

// randomTimes gives a step launches and columns from now on.
func randomTimes(r *rand.Rand, s *chunk.Step, now *uint64) {
	correlation := r.Uint32()
	wild := r.IntN(10) == 0
	for i, p := range s.Shape.Positions {
		if i == 0 || p.Launch != s.Shape.Positions[i-1].Launch {
			correlation += 1 + uint32(r.IntN(3))
			l := chunk.Launch{Correlation: correlation}
			if p.Node != 0 {
				l.Graph = 5
			}
			s.Launches = append(s.Launches, l)
		}
		dur := uint64(1000 + 32*r.IntN(40))
		if wild {
			dur = r.Uint64() >> r.IntN(64)
		}
		s.Starts, s.Durs = append(s.Starts, *now), append(s.Durs, dur)
		*now += dur%100_000 + uint64(r.IntN(2000)) - 500
	}
}
