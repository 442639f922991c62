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

// An Unpacker reads chunks, and knows the texts and shapes of those that it read before: a shape that comes again is the
// same Shape, for a fifth of the time and without a byte allocated. The zero Unpacker is ready; it is not safe for
// concurrent use.
type Unpacker struct {
	texts     map[string]string
	shapes    map[uint64]*Shape // by hash, and which positions they are
	positions int               // of shapes
}

// Bounds of what an Unpacker knows: some 30 MB.
const (
	knownTexts     = 1 << 14
	knownPositions = 1 << 17
)

// Unpack reads a chunk. It allocates at most some 24 times the body's length, and nothing for what the body only claims.
func Unpack(body []byte) (*Chunk, error) { return new(Unpacker).Unpack(body) }

// Unpack reads a chunk, as Unpack does. What it returns shares texts and shapes with other chunks.
func (k *Unpacker) Unpack(body []byte) (*Chunk, error) {
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
	u := unpacker{known: k, chunk: &Chunk{}, v2: version >= 2, v3: version >= 3}
	for i, read := range [sections]func(*reader){u.identity, u.counts, u.readTexts, u.shapes, u.steps, u.copies} {
		if read(&s[i]); s[i].bad {
			return nil, fmt.Errorf("chunk section %d at %d bytes before its end: %w", i, s[i].left(), ErrCorrupt)
		}
	}
	return u.chunk, nil
}

// A reader takes numbers off the front of b. Once something did not fit it is bad, and gives zeros. It counts instead of
// shortening b: to store a slice costs a write barrier for each number while garbage is collected.
type reader struct {
	b   []byte
	at  int
	bad bool
}

func (r *reader) left() int { return len(r.b) - r.at }

func (r *reader) more() bool { return r.at < len(r.b) && !r.bad }

func (r *reader) fail() { r.bad = true }

// uint is a number. Those of one byte, which most are, are read where the call stands.
func (r *reader) uint() uint64 {
	if r.at < len(r.b) && r.b[r.at] < 0x80 && !r.bad {
		r.at++
		return uint64(r.b[r.at-1])
	}
	return r.long()
}

func (r *reader) long() uint64 {
	v, n := binary.Uvarint(r.b[r.at:])
	if n <= 0 || r.bad {
		r.fail()
		return 0
	}
	r.at += n
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
	if r.at == len(r.b) {
		r.fail()
		return 0
	}
	r.at++
	return r.b[r.at-1]
}

// count is how many items of at least size bytes each follow.
func (r *reader) count(size int) int { return int(r.most(uint64(r.left() / size))) }

func (r *reader) text(limit uint64) string { return string(r.bytes(limit)) }

// bytes are those of a text; nil: it is empty, or none.
func (r *reader) bytes(limit uint64) []byte {
	n := int(r.most(limit))
	if n > r.left() {
		r.fail()
	}
	if r.bad || !utf8.Valid(r.b[r.at:r.at+n]) {
		r.fail()
		return nil
	}
	r.at += n
	return r.b[r.at-n : r.at]
}

// An unpacker reads the sections of a chunk in their order.
type unpacker struct {
	known    *Unpacker
	chunk    *Chunk
	v2       bool // it has groups, bytes and occurrences
	v3       bool // it has ranges and requests
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
	for _, s := range textsOf(id) {
		*s = r.text(MaxText)
	}
	if r.left() > 0 {
		r.fail()
	}
}

func (u *unpacker) counts(r *reader) {
	for r.more() {
		if len(u.chunk.Counts) == MaxCounts {
			r.fail()
		}
		u.chunk.Counts = append(u.chunk.Counts, Count{Name: r.text(maxCountName), Value: r.uint()})
	}
}

func (u *unpacker) readTexts(r *reader) {
	u.texts = append(u.texts, "")
	for r.more() {
		b := r.bytes(MaxText)
		if len(b) == 0 {
			r.fail()
		}
		u.texts = append(u.texts, u.known.text(b))
	}
}

// text is a text that was known before, or is from now on.
func (k *Unpacker) text(b []byte) string {
	s, ok := k.texts[string(b)]
	if !ok {
		if k.texts == nil || len(k.texts) >= knownTexts {
			k.texts = map[string]string{}
		}
		s = string(b)
		k.texts[s] = s
	}
	return s
}

// text is the text of an id that r gives.
func (u *unpacker) text(r *reader) string {
	return u.texts[r.most(uint64(len(u.texts)-1))]
}

func (u *unpacker) shapes(r *reader) {
	for r.more() {
		if r.left() < 8 {
			r.fail()
			return
		}
		hash := le.Uint64(r.b[r.at:])
		r.at += 8
		total, offset := int(r.most(1<<30)), int(r.most(1<<30))
		n := r.count(positionBytes)
		if n == 0 || offset+n > total {
			r.fail()
			return
		}
		key := hash + uint64(offset)<<32 + uint64(n)
		s := u.known.shapes[key]
		if again := *r; s != nil && s.Hash == hash && len(s.Positions) == n && u.positionsAre(&again, s.Positions) {
			*r = again
		} else {
			s = &Shape{Hash: hash, Positions: make([]Position, n)}
			u.positions(r, s.Positions)
			u.known.keep(key, s)
		}
		u.chunk.Shapes = append(u.chunk.Shapes, s)
		u.parts = append(u.parts, part{offset, total})
		u.launches = append(u.launches, launches(s.Positions))
	}
}

// keep remembers a shape.
func (k *Unpacker) keep(key uint64, s *Shape) {
	if k.positions += len(s.Positions); k.shapes == nil || k.positions > knownPositions {
		k.shapes, k.positions = map[uint64]*Shape{}, len(s.Positions)
	}
	k.shapes[key] = s
}

// positionsAre reports whether r gives these positions, and reads up to the first that it does not.
func (u *unpacker) positionsAre(r *reader, positions []Position) bool {
	same := true
	column := func(is func(*Position) bool) {
		for i := 0; same && i < len(positions); i++ {
			same = is(&positions[i])
		}
	}
	texts := func(get func(*Position) string) {
		column(func(p *Position) bool { return u.text(r) == get(p) })
	}
	texts(func(p *Position) string { return p.Call })
	texts(func(p *Position) string { return p.Op })
	texts(func(p *Position) string { return p.Name })
	column(func(p *Position) bool { return r.uint() == uint64(uint8(p.Class)|flag(p.Fused, 4)|uint8(p.GroupBy)<<3) })
	column(func(p *Position) bool { return r.uint() == uint64(p.Stream) })
	for i := range 3 {
		column(func(p *Position) bool { return r.uint() == uint64(p.Grid[i]) })
	}
	for i := range 3 {
		column(func(p *Position) bool { return r.uint() == uint64(p.Block[i]) })
	}
	var launch, node uint32
	column(func(p *Position) bool {
		d := p.Launch - launch
		launch = p.Launch
		return r.uint() == uint64(d)
	})
	column(func(p *Position) bool { node += uint32(r.int()); return p.Node == node })
	if u.v2 {
		texts(func(p *Position) string { return p.Group })
		column(func(p *Position) bool { return p.Bytes == r.uint() })
	} else {
		column(func(p *Position) bool { return p.Group == "" && p.Bytes == 0 })
	}
	return same && !r.bad
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
		p.Class, p.Fused, p.GroupBy = Class(v&3), v&4 != 0, GroupBy(v>>3)
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
		if flags > 15 || flags > 7 && !u.v3 {
			r.fail()
		}
		s.Outside, s.Pairs, s.Complete, s.Untraced = flags&1 != 0, flags&2 != 0, flags&4 != 0, flags&8 != 0
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
			if u.v3 {
				u.issued(r, &s)
				u.requests(r, &s)
			}
		}
		s.Last = true
		if shape > 0 {
			u.columns(r, &s, shape-1)
		}
		u.chunk.Steps = append(u.chunk.Steps, s)
	}
}

// issued reads what the range of a step says.
func (u *unpacker) issued(r *reader, s *Step) {
	i := &s.Issued
	if known := r.most(3); known != 0 {
		i.Push = s.Start + uint64(r.int())
		ns := r.uint()
		if known&2 != 0 {
			i.Pop = i.Push + ns
		}
		i.Thread, i.Level = r.uint32(), r.uint32()
	}
	i.Device = r.uint()
}

// requests reads those of a step.
func (u *unpacker) requests(r *reader, s *Step) {
	n := r.count(requestBytes)
	if n == 0 {
		return
	}
	s.Requests = make([]Request, n)
	for i := range s.Requests {
		s.Requests[i] = Request{ID: u.text(r), Trace: u.text(r), Tokens: r.uint32(), Cached: r.uint32()}
	}
}

// columns reads launches and times of a step's kernels.
func (u *unpacker) columns(r *reader, s *Step, shape int) {
	s.Shape = u.chunk.Shapes[shape]
	s.Offset, s.Kernels = u.parts[shape].offset, u.parts[shape].total
	n, launches := len(s.Shape.Positions), u.launches[shape]
	s.Last = s.Offset+n == s.Kernels
	if n*kernelBytes+launches*launchBytes > r.left() {
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

// column reads a number for each of to. It is the loop that nearly all bytes go through. Nearly all numbers take one or two
// bytes, so branches on that are guessed right: 1.2 ns a number, where code without branches takes 4.
func (r *reader) column(to []uint64) {
	b := r.b[r.at:]
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
	r.at = len(r.b) - len(b)
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
