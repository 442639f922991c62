package digest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"github.com/kernhes/kernhes/internal/chunk"
)

// What Decode refuses.
var (
	ErrVersion = errors.New("not a digest of a known version")
	ErrCorrupt = errors.New("corrupt digest")
)

// Bounds of what Decode reads.
const (
	maxSteps  = 4096
	maxShapes = 4096
	maxSites  = 1 << 16
	maxTexts  = 1 << 16
)

// Least bytes of what a record counts.
const (
	siteBytes = 6
	stepBytes = 13
	callBytes = 4
)

// A reader takes numbers off the front of b. Once something did not fit it is bad, and gives zeros.
type reader struct {
	b     []byte
	bad   bool
	texts []string
}

// Decode reads a record. Its shapes are interned in shapes.
func Decode(body []byte, shapes *Shapes) (*Record, error) {
	if len(body) < 8 || string(body[:4]) != magic || binary.LittleEndian.Uint16(body[4:]) != Version {
		return nil, fmt.Errorf("digest of %d bytes: no header of version %d: %w", len(body), Version, ErrVersion)
	}
	if len(body) > chunk.LimitBytes {
		return nil, fmt.Errorf("digest of %d bytes, want at most %d: %w", len(body), chunk.LimitBytes, ErrCorrupt)
	}
	r := &reader{b: body[8:]}
	rec := &Record{Identity: chunk.Identity{Rank: r.int(), Device: uint16(r.most(1<<16 - 1)), Session: r.uint()}}
	rec.Identity.Run, rec.Identity.Host, rec.Identity.Model = r.text(), r.text(), r.text()
	r.texts = []string{""}
	for range r.count(maxTexts, 1) {
		r.texts = append(r.texts, r.text())
	}
	var list []*Shape
	for range r.count(maxShapes, 10) {
		if r.bad {
			break
		}
		list = append(list, r.shape(shapes))
	}
	for range r.count(maxShapes, 3) {
		if s := r.sums(list); s != nil && !r.bad {
			rec.Sums = append(rec.Sums, s)
		}
	}
	for range r.count(maxSteps, stepBytes) {
		if s := r.step(list); s != nil && !r.bad {
			rec.Steps = append(rec.Steps, s)
		}
	}
	if r.bad || len(r.b) > 0 {
		return nil, fmt.Errorf("digest at %d bytes before its end: %w", len(r.b), ErrCorrupt)
	}
	return rec, nil
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || r.bad {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) int() int64 {
	v := r.uint()
	return int64(v>>1) ^ -int64(v&1)
}

// most is a number up to limit.
func (r *reader) most(limit uint64) uint64 {
	v := r.uint()
	if v > limit {
		r.bad = true
		return 0
	}
	return v
}

// count is how many items of at least size bytes each follow, limit at most.
func (r *reader) count(limit, size int) int { return int(r.most(uint64(min(limit, len(r.b)/size)))) }

func (r *reader) byte() byte {
	if len(r.b) == 0 || r.bad {
		r.bad = true
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) text() string {
	n := int(r.most(uint64(min(chunk.MaxText, len(r.b)))))
	if r.bad || n > len(r.b) || !utf8.Valid(r.b[:n]) {
		r.bad = true
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

// id is the text of an id.
func (r *reader) id() string { return r.texts[r.most(uint64(len(r.texts)-1))] }

func (r *reader) shape(shapes *Shapes) *Shape {
	s := &Shape{}
	if len(r.b) < 8 {
		r.bad = true
		return s
	}
	s.Work = binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	s.Kernels = int(r.most(maxKernels))
	position := 0
	for range r.count(maxSites, siteBytes) {
		position += int(r.most(maxKernels))
		s.Sites = append(s.Sites, Site{Position: position, Call: r.id(), Name: r.id(), Group: r.id(), Kind: Kind(r.byte()), Bytes: r.uint()})
		if s.Sites[len(s.Sites)-1].Kind > NotComparable {
			r.bad = true
		}
	}
	for range r.count(maxFamilies, 1) {
		s.Families = append(s.Families, r.id())
	}
	if r.bad {
		return s
	}
	// Equal shapes of two records have other text ids, so the key is of the texts.
	text := binary.LittleEndian.AppendUint64(shapes.text[:0], s.Work)
	for i := range s.Sites {
		at := &s.Sites[i]
		text = append(append(append(append(text, at.Call...), 0), at.Name...), 0, byte(at.Kind))
		text = binary.LittleEndian.AppendUint64(append(append(text, at.Group...), 0), at.Bytes)
	}
	shapes.text = text
	key := xxhash.Sum64(text)
	if known := shapes.find(key, s); known != nil && len(known.Families) == len(s.Families) {
		return known
	}
	s.Groups = groupsOf(s.Sites)
	return shapes.keep(key, s)
}

// of is the shape of an index.
func (r *reader) of(list []*Shape) *Shape {
	i := r.uint()
	if i >= uint64(len(list)) {
		r.bad = true
		return nil
	}
	return list[i]
}

func (r *reader) sums(list []*Shape) *Sums {
	shape := r.of(list)
	if shape == nil {
		return nil
	}
	s := &Sums{Shape: shape, Program: r.id(), Steps: r.uint()}
	if len(shape.Families) > len(r.b) {
		r.bad = true
		return nil
	}
	s.NS = make([]uint64, len(shape.Families))
	for i := range s.NS {
		s.NS[i] = r.uint()
	}
	return s
}

func (r *reader) step(list []*Shape) *Step {
	flags := r.byte()
	if flags > 7 {
		r.bad = true
	}
	shape := r.of(list)
	if shape == nil {
		return nil
	}
	s := &Step{Pairs: flags&1 != 0, Complete: flags&2 != 0, Graph: flags&4 != 0, Shape: shape, Program: r.id()}
	for _, v := range []*int64{&s.Seq, &s.Seqs, &s.Tokens, &s.KV} {
		*v = r.int()
	}
	s.Start = r.uint()
	s.End = s.Start + uint64(r.int())
	for _, v := range []*uint64{&s.Compute, &s.Idle, &s.Foreign, &s.Typical} {
		*v = r.uint()
	}
	if callBytes*len(shape.Sites) > len(r.b) {
		r.bad = true
		return nil
	}
	s.Calls = make([]Call, len(shape.Sites))
	end, until := s.Start, uint64(0)
	for i := range s.Calls {
		c := &s.Calls[i]
		c.Start = end + uint64(r.int())
		c.Dur = r.uint()
		c.Before = until + uint64(r.int())
		c.Until = c.Before + r.uint()
		end, until = c.End(), c.Until
	}
	return s
}
