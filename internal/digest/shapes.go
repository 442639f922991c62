package digest

import (
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/kernhes/kernhes/internal/chunk"
)

// maxPositions bounds the positions of the shapes that a Shapes keeps; each takes some 40 bytes.
const maxPositions = 1 << 20

// Shapes are the shapes of the steps of a collector, each once. It is not safe for concurrent use.
type Shapes struct {
	known     map[uint64]*Shape
	positions int
	recent    map[*chunk.Shape]*Shape // of the chunk that is read
	changed   map[*chunk.Shape]*Shape // likewise, with more calls than their classes say
	text      []byte
}

// NewShapes returns Shapes that know none.
func NewShapes() *Shapes {
	return &Shapes{known: map[uint64]*Shape{}, recent: map[*chunk.Shape]*Shape{}, changed: map[*chunk.Shape]*Shape{}}
}

// Forget drops what is only of use within a chunk.
func (s *Shapes) Forget() {
	clear(s.recent)
	clear(s.changed)
}

// Of is the shape of a packed one.
func (s *Shapes) Of(from *chunk.Shape) *Shape {
	if to := s.recent[from]; to != nil {
		return to
	}
	to := s.of(from.Positions)
	s.recent[from] = to
	return to
}

// with is the shape of a packed one, some of whose positions are calls whatever their class.
func (s *Shapes) with(from *chunk.Shape, calls []int32) *Shape {
	if to := s.changed[from]; to != nil {
		return to
	}
	positions := slices.Clone(from.Positions)
	for _, i := range calls {
		positions[i].Class = chunk.Comm
	}
	to := s.of(positions)
	s.changed[from] = to
	return to
}

func (s *Shapes) of(positions []chunk.Position) *Shape {
	shape := &Shape{Kernels: len(positions), Positions: make([]Position, len(positions))}
	text := s.text[:0]
	for i := range positions {
		p := &positions[i]
		shape.Positions[i] = Position{Call: p.Call, Name: p.Name, Comm: p.Class == chunk.Comm}
		text = append(append(append(append(text, p.Call...), 0), p.Name...), 0, byte(p.Class))
	}
	shape.Work = xxhash.Sum64(text)
	for i := range positions {
		if p := &positions[i]; p.Class == chunk.Comm {
			shape.Sites = append(shape.Sites, Site{Call: p.Call, Name: p.Name, Group: p.Group, Kind: KindOf(p.Name, p.Op), Bytes: p.Bytes, Position: i})
			text = binary.LittleEndian.AppendUint64(append(append(append(text, p.Group...), 0), p.Op...), p.Bytes)
		}
	}
	s.text = text
	key := xxhash.Sum64(text)
	if known := s.find(key, shape); known != nil {
		return known
	}
	shape.Groups = groupsOf(shape.Sites)
	shape.Family = make([]uint16, len(positions))
	for i := range positions {
		shape.Family[i] = shape.family(positions[i].Call)
	}
	return s.keep(key, shape)
}

// find is the one that is known of equal shapes.
func (s *Shapes) find(key uint64, shape *Shape) *Shape {
	if known := s.known[key]; known != nil && slices.Equal(known.Sites, shape.Sites) && slices.Equal(known.Positions, shape.Positions) {
		return known
	}
	return nil
}

// keep remembers a shape.
func (s *Shapes) keep(key uint64, shape *Shape) *Shape {
	if s.positions += len(shape.Positions) + len(shape.Sites); s.positions > maxPositions {
		clear(s.known) // steps keep theirs
		s.positions = len(shape.Positions) + len(shape.Sites)
	}
	s.known[key] = shape
	return shape
}
