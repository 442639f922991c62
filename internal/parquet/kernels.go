package parquet

import (
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/ianlancetaylor/demangle"

	"github.com/kernhes/kernhes/internal/chunk"
)

func appendAll(to []int64, from []uint64) []int64 {
	to = slices.Grow(to, len(from))
	for _, v := range from {
		to = append(to, int64(v))
	}
	return to
}

func appendPositions(to []int64, s *chunk.Step) []int64 {
	for i := range s.Starts {
		to = append(to, int64(s.Offset+i))
	}
	return to
}

func appendNodes(to []int64, s *chunk.Step) []int64 {
	eachLaunch(s, func(l chunk.Launch, positions []chunk.Position) {
		for i := range positions {
			to = append(to, int64(l.NodeID(&positions[i])))
		}
	})
	return to
}

func appendCorrelations(to []int64, s *chunk.Step) []int64 {
	eachLaunch(s, func(l chunk.Launch, positions []chunk.Position) {
		for range positions {
			to = append(to, int64(l.Correlation))
		}
	})
	return to
}

// eachLaunch calls f with each launch of a step and its positions.
func eachLaunch(s *chunk.Step, f func(chunk.Launch, []chunk.Position)) {
	positions := s.Shape.Positions
	for i := range s.Launches {
		n := 1
		for n < len(positions) && positions[n].Launch == positions[0].Launch {
			n++
		}
		f(s.Launches[i], positions[:n])
		positions = positions[n:]
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

// kernelRows makes rows of k. What a shape gives is worked out once a row group, and then copied for each step.
type kernelRows struct {
	names  demangler
	shapes map[shapeKey]*chunk.Shape
	size   int // positions of shapes
	placed map[*chunk.Shape]placed
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

// A placed shape is a shape's values as indexes into the row group's dictionaries, by column of k; nil where ofShape is.
type placed [][]int32

// maxPositions bounds the shapes that are remembered, to some 30 MB.
const maxPositions = 1 << 18

func newKernelRows() *kernelRows {
	return &kernelRows{demangler{}, map[shapeKey]*chunk.Shape{}, 0, map[*chunk.Shape]placed{}}
}

// reset begins a row group.
func (k *kernelRows) reset() { clear(k.placed) }

// intern returns the shape equal to s that came before, so that s can go. Two shapes of one hash need not be the same:
// chunks come from outside.
func (k *kernelRows) intern(s *chunk.Shape) *chunk.Shape {
	key := keyOf(s)
	known := k.shapes[key]
	if known == s || known != nil && slices.Equal(known.Positions, s.Positions) {
		return known
	}
	if known == nil {
		k.size += len(s.Positions)
	}
	if k.size > maxPositions {
		clear(k.shapes)
		k.size = len(s.Positions)
	}
	k.shapes[key] = s
	return s
}

// add appends the kernels of a step to the buffers of k's columns.
func (k *kernelRows) add(buffers []buffer, id *chunk.Identity, s *chunk.Step) {
	p := k.place(buffers, s.Shape)
	for i := range kernelColumns {
		c, b := &kernelColumns[i], &buffers[i]
		switch {
		case c.ofShape != nil:
			b.indexes = append(b.indexes, p[i]...)
		case c.ofKernel != nil:
			b.numbers = c.ofKernel(b.numbers, s)
		default:
			b.repeat(c.ofStep(id, s), len(s.Starts))
		}
	}
}

// place returns what a shape gives.
func (k *kernelRows) place(buffers []buffer, s *chunk.Shape) placed {
	p, ok := k.placed[s]
	if ok {
		return p
	}
	p, demangled := make(placed, len(kernelColumns)), k.names.demangled
	for i := range kernelColumns {
		if of := kernelColumns[i].ofShape; of != nil {
			p[i] = make([]int32, len(s.Positions))
			for j := range s.Positions {
				p[i][j] = buffers[i].index(of(&s.Positions[j], demangled))
			}
		}
	}
	k.placed[s] = p
	return p
}
