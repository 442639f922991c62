package chunk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"
)

// What Unpack refuses.
var (
	ErrVersion = errors.New("not a chunk of a known version")
	ErrCorrupt = errors.New("corrupt chunk")
)

// Unpack reads a chunk. It allocates at most some 24 times the body's length, and nothing for what the body only claims.
func Unpack(body []byte) (*Chunk, error) {
	if len(body) < headerBytes || string(body[:4]) != magic {
		return nil, fmt.Errorf("chunk of %d bytes: no header: %w", len(body), ErrVersion)
	}
	version := le.Uint16(body[4:6])
	if version < OldestVersion || version > Version {
		return nil, fmt.Errorf("chunk of version %d, want %d to %d: %w", version, OldestVersion, Version, ErrVersion)
	}
	if len(body) > LimitBytes {
		return nil, fmt.Errorf("chunk of %d bytes, want at most %d: %w", len(body), LimitBytes, ErrCorrupt)
	}
	var s [sections]reader
	rest := body[headerBytes:]
	for i := range s {
		n := le.Uint32(body[8+4*i:])
		if uint64(len(rest)) < uint64(n) {
			return nil, fmt.Errorf("chunk section %d: %d bytes, want %d: %w", i, len(rest), n, ErrCorrupt)
		}
		s[i], rest = reader{b: rest[:n]}, rest[n:]
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("chunk: %d bytes after its sections: %w", len(rest), ErrCorrupt)
	}
	u := unpacker{chunk: &Chunk{}, v2: version >= 2}
	for i, read := range [sections]func(*reader){u.identity, u.counts, u.readTexts, u.shapes, u.steps, u.copies} {
		if read(&s[i]); s[i].bad {
			return nil, fmt.Errorf("chunk section %d at %d bytes before its end: %w", i, len(s[i].b), ErrCorrupt)
		}
	}
	return u.chunk, nil
}

// A reader takes numbers off the front of b. Once something did not fit it is bad, and gives zeros.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) more() bool { return len(r.b) > 0 && !r.bad }

func (r *reader) fail() { r.bad = true }

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || r.bad {
		r.fail()
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
		r.fail()
		return 0
	}
	return v
}

func (r *reader) uint32() uint32 { return uint32(r.most(1<<32 - 1)) }

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

// count is how many items of at least size bytes each follow.
func (r *reader) count(size int) int { return int(r.most(uint64(len(r.b) / size))) }

func (r *reader) text(limit uint64) string {
	n := int(r.most(limit))
	if n > len(r.b) {
		r.fail()
	}
	if r.bad || !utf8.Valid(r.b[:n]) {
		r.fail()
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

// An unpacker reads the sections of a chunk in their order.
type unpacker struct {
	chunk    *Chunk
	v2       bool // it has groups, bytes and occurrences
	texts    []string
	parts    []part // by shape
	launches []int  // by shape
}

// A part is which positions of a step a shape of the chunk has.
type part struct{ offset, total int }

func (u *unpacker) identity(r *reader) {
	id := &u.chunk.Identity
	id.Rank = r.int()
	id.Device = uint16(r.most(1<<16 - 1))
	id.Session = r.uint()
	for _, s := range id.texts() {
		*s = r.text(MaxText)
	}
	if len(r.b) > 0 {
		r.fail()
	}
}

func (u *unpacker) counts(r *reader) {
	for r.more() {
		if len(u.chunk.Counts) == MaxCounts {
			r.fail()
		}
		u.chunk.Counts = append(u.chunk.Counts, Count{r.text(maxCountName), r.uint()})
	}
}

func (u *unpacker) readTexts(r *reader) {
	u.texts = append(u.texts, "")
	for r.more() {
		s := r.text(MaxText)
		if s == "" {
			r.fail()
		}
		u.texts = append(u.texts, s)
	}
}

// text is the text of an id that r gives.
func (u *unpacker) text(r *reader) string {
	return u.texts[r.most(uint64(len(u.texts)-1))]
}

func (u *unpacker) shapes(r *reader) {
	for r.more() {
		if len(r.b) < 8 {
			r.fail()
			return
		}
		s := &Shape{Hash: le.Uint64(r.b)}
		r.b = r.b[8:]
		total, offset := int(r.most(1<<30)), int(r.most(1<<30))
		n := r.count(positionBytes)
		if n == 0 || offset+n > total {
			r.fail()
			return
		}
		s.Positions = make([]Position, n)
		u.positions(r, s.Positions)
		u.chunk.Shapes = append(u.chunk.Shapes, s)
		u.parts = append(u.parts, part{offset, total})
		u.launches = append(u.launches, launches(s.Positions))
	}
}

func (u *unpacker) positions(r *reader, positions []Position) {
	column := func(f func(*Position)) {
		for i := range positions {
			f(&positions[i])
		}
	}
	column(func(p *Position) { p.Call = u.text(r) })
	column(func(p *Position) { p.Op = u.text(r) })
	column(func(p *Position) { p.Name = u.text(r) })
	flags := uint64(7)
	if u.v2 {
		flags = 31
	}
	column(func(p *Position) {
		v := r.most(flags)
		p.Class, p.Fused, p.GroupBy = uint8(v&3), v&4 != 0, GroupBy(v>>3)
	})
	column(func(p *Position) { p.Stream = r.uint32() })
	for i := range 3 {
		column(func(p *Position) { p.Grid[i] = r.uint32() })
	}
	for i := range 3 {
		column(func(p *Position) { p.Block[i] = r.uint32() })
	}
	var launch, node uint32
	column(func(p *Position) { launch += uint32(r.most(uint64(1<<32 - 1 - launch))); p.Launch = launch })
	column(func(p *Position) { node += uint32(r.int()); p.Node = node })
	if u.v2 {
		column(func(p *Position) { p.Group = u.text(r) })
		column(func(p *Position) { p.Bytes = r.uint() })
	}
}

func (u *unpacker) steps(r *reader) {
	for r.more() {
		if len(u.chunk.Steps) == MaxSteps {
			r.fail()
		}
		var s Step
		flags := r.byte()
		if flags > 7 {
			r.fail()
		}
		s.Outside, s.Pairs, s.Complete = flags&1 != 0, flags&2 != 0, flags&4 != 0
		shape := int(r.most(uint64(len(u.parts))))
		s.Start = r.uint()
		s.End = s.Start + uint64(r.int())
		if !s.Outside {
			for _, v := range [...]*int64{&s.Seq, &s.Seqs, &s.Tokens, &s.KV} {
				*v = r.int()
			}
			if u.v2 {
				s.Occurrence = r.uint32()
			}
			for _, v := range [...]*string{&s.Text, &s.Program, &s.Vars, &s.Reason} {
				*v = u.text(r)
			}
			if u.v2 {
				s.Group = u.text(r)
			}
			for _, v := range [...]*uint64{&s.Compute, &s.Comm, &s.Overlap, &s.Idle, &s.Foreign} {
				*v = r.uint()
			}
		}
		s.Last = true
		if shape > 0 {
			u.columns(r, &s, shape-1)
		}
		u.chunk.Steps = append(u.chunk.Steps, s)
	}
}

// columns reads launches and times of a step's kernels.
func (u *unpacker) columns(r *reader, s *Step, shape int) {
	s.Shape = u.chunk.Shapes[shape]
	s.Offset, s.Kernels = u.parts[shape].offset, u.parts[shape].total
	n, launches := len(s.Shape.Positions), u.launches[shape]
	s.Last = s.Offset+n == s.Kernels
	if n*kernelBytes+launches*launchBytes > len(r.b) {
		r.fail()
		return
	}
	s.Launches = make([]Launch, launches)
	var last Launch
	for i := range s.Launches {
		last.Correlation += uint32(r.int())
		s.Launches[i].Correlation = last.Correlation
	}
	for i := range s.Launches {
		last.Graph += uint32(r.int())
		s.Launches[i].Graph = last.Graph
	}
	times := make([]uint64, 2*n)
	s.Durs, s.Starts = times[:n:n], times[n:]
	r.column(times)
	at := s.Start
	for i, v := range s.Starts {
		start := at + (v>>1 ^ -(v & 1))
		s.Starts[i] = start
		at = start + s.Durs[i]
	}
}

// column reads a number for each of to. It is the loop that nearly all bytes go through.
func (r *reader) column(to []uint64) {
	b := r.b
	for i := range to {
		switch {
		case len(b) >= 2 && b[0] < 0x80:
			to[i], b = uint64(b[0]), b[1:]
		case len(b) >= 2 && b[1] < 0x80:
			to[i], b = uint64(b[0]&0x7f)|uint64(b[1])<<7, b[2:]
		default:
			v, n := binary.Uvarint(b)
			if n <= 0 {
				r.fail()
				return
			}
			to[i], b = v, b[n:]
		}
	}
	r.b = b
}

func (u *unpacker) copies(r *reader) {
	var last Copy
	for r.more() {
		var c Copy
		flags := r.byte()
		if flags > 3 {
			r.fail()
		}
		c.Memset, c.InStep, c.Kind = flags&1 != 0, flags&2 != 0, r.byte()
		c.Start = last.Start + uint64(r.int())
		c.Dur = r.uint()
		c.Bytes = r.uint()
		c.Node = last.Node + uint64(r.int())
		c.Correlation = last.Correlation + uint32(r.int())
		c.Stream = r.uint32()
		if c.InStep {
			c.Seq = r.int()
			if u.v2 {
				c.Occurrence = r.uint32()
			}
		}
		u.chunk.Copies = append(u.chunk.Copies, c)
		last = c
	}
}
