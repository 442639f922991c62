package parquet

import (
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/ianlancetaylor/demangle"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/parquet/pages"
)

func addPositions(d *pages.Delta, s *chunk.Step, _ *placed) { d.Run(int64(s.Offset), 1, len(s.Starts)) }

func addNodes(d *pages.Delta, s *chunk.Step, p *placed) {
	at := 0
	for i, l := range p.launches {
		launch := s.Launches[i]
		first := int64(launch.NodeID(&s.Shape.Positions[at]))
		at += l.kernels
		switch {
		case launch.Graph == 0:
			d.Run(0, 0, l.kernels)
		case l.steps != nil:
			d.Steps(first, l.steps)
		default:
			d.Run(first, l.step, l.kernels)
		}
	}
}

func addCorrelations(d *pages.Delta, s *chunk.Step, p *placed) {
	for i, l := range p.launches {
		d.Run(int64(s.Launches[i].Correlation), 0, l.kernels)
	}
}

// maxNames bounds what a demangler remembers; an engine has a few hundred kernels.
const maxNames = 1 << 14

// A demangler remembers names.
type demangler map[string]string

// demangled is a kernel's name for people, at most 8 KiB.
func (d demangler) demangled(name string) string {
	s, ok := d[name]
	if !ok {
		if len(d) >= maxNames {
			clear(d)
		}
		s = demangle.Filter(name, demangle.MaxLength(13))
		d[name] = s
	}
	return s
}

// known are the shapes that came before, in other chunks.
type known struct {
	shapes map[shapeKey]*chunk.Shape
	size   int // positions of shapes
	last   struct{ from, to *chunk.Shape }
}

// A shapeKey finds a shape that came before, in another chunk. Ranks of different groups have shapes of equal hashes.
type shapeKey struct {
	hash   uint64
	n      int
	groups uint64
}

// keyOf hashes the groups of a shape's positions.
func keyOf(s *chunk.Shape) shapeKey {
	h := xxhash.New()
	var at [8]byte
	for i := range s.Positions {
		if group := s.Positions[i].Group; group != "" {
			le.PutUint64(at[:], uint64(i))
			_, _ = h.Write(at[:])
			_, _ = h.WriteString(group)
		}
	}
	return shapeKey{s.Hash, len(s.Positions), h.Sum64()}
}

// maxPositions bounds the shapes that are remembered, to some 30 MB.
const maxPositions = 1 << 18

// intern returns the shape equal to s that came before, so that s can go. Two shapes of one hash need not be the same:
// chunks come from outside.
func (k *known) intern(s *chunk.Shape) *chunk.Shape {
	if s == k.last.from {
		return k.last.to
	}
	k.last.from, k.last.to = s, k.find(s)
	return k.last.to
}

func (k *known) find(s *chunk.Shape) *chunk.Shape {
	key := keyOf(s)
	before := k.shapes[key]
	if before == s || before != nil && slices.Equal(before.Positions, s.Positions) {
		return before
	}
	if before == nil {
		k.size += len(s.Positions)
	}
	if k.size > maxPositions {
		clear(k.shapes)
		k.size = len(s.Positions)
	}
	k.shapes[key] = s
	return s
}
