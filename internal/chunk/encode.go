package chunk

import (
	"encoding/binary"
	"slices"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// The header of a chunk: magic, version, 0, and the length of each section.
const (
	magic       = "KHCK"
	sections    = 6 // identity, counts, texts, shapes, steps, copies
	headerBytes = 8 + 4*sections
)

// Bounds of what is encoded.
const (
	MaxCounts     = 256       // counts of a chunk
	MaxSteps      = 4096      // steps of a chunk: a windowful is 64
	maxCountName  = 64        // bytes
	positionBytes = 13        // of a position: one for each column of version 1, at least
	kernelBytes   = 2         // of a kernel's start and duration, at least
	launchBytes   = 2         // of a launch, at least
	maxCopy       = 96        // of a copy, at most
	requestBytes  = 4         // of a request, at least
	maxRequests   = 256 << 10 // bytes of the requests of a step, at most; further ones are left out
)

var le = binary.LittleEndian

func appendHeader(b []byte, s [sections][]byte) []byte {
	b = append(b, magic...)
	b = le.AppendUint16(b, Version)
	b = le.AppendUint16(b, 0)
	for i := range s {
		b = le.AppendUint32(b, uint32(len(s[i])))
	}
	return b
}

// zigzag maps small numbers of either sign to small numbers.
func zigzag(v int64) uint64 { return uint64(v)<<1 ^ uint64(v>>63) }

func appendInt(b []byte, v int64) []byte   { return binary.AppendUvarint(b, zigzag(v)) }
func appendUint(b []byte, v uint64) []byte { return binary.AppendUvarint(b, v) }

// clean is s as valid UTF-8 of at most n bytes.
func clean(s string, n int) string {
	if len(s) > n {
		for s = s[:n]; len(s) > n-utf8.UTFMax && !utf8.RuneStart(s[len(s)-1]); {
			s = s[:len(s)-1]
		}
		s = s[:len(s)-1] // it begins a rune that may be cut off
	}
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "?") // no longer than s
	}
	return s
}

func appendText(b []byte, s string, n int) []byte {
	s = clean(s, n)
	return append(appendUint(b, uint64(len(s))), s...)
}

func appendIdentity(b []byte, id *Identity) []byte {
	b = appendInt(b, id.Rank)
	b = appendUint(b, uint64(id.Device))
	b = appendUint(b, id.Session)
	for _, s := range textsOf(id) {
		b = appendText(b, *s, MaxText)
	}
	return b
}

// textsOf are an identity's, in the order in which they lie in a chunk.
func textsOf(id *Identity) [8]*string {
	return [...]*string{&id.Run, &id.Host, &id.GPU, &id.GPUName, &id.Model, &id.Engine, &id.Version, &id.Mode}
}

func appendCounts(b []byte, counts []Count) []byte {
	for _, c := range counts {
		b = appendUint(appendText(b, c.Name, maxCountName), c.Value)
	}
	return b
}

// texts are those of the open chunk; 0 is the id of the empty one, the others count from 1.
type texts struct {
	b    []byte
	n    uint64
	ids  map[string]uint64
	memo [memoTexts]knownText // of ids
}

// A knownText is one that was asked for. A shape asks for the same few hundred again and again, whose bytes are the same
// memory: a look here takes 3 ns, one in a map 20.
type knownText struct {
	text string
	id   uint64
}

const memoTexts = 512

type textMark struct {
	bytes int
	n     uint64
}

func (t *texts) mark() textMark    { return textMark{len(t.b), t.n} }
func (t *texts) rewind(m textMark) { t.b, t.n = t.b[:m.bytes], m.n }

func (t *texts) clear() {
	t.rewind(textMark{})
	clear(t.ids)
	clear(t.memo[:])
}

func (t *texts) id(s string) uint64 {
	if s == "" {
		return 0
	}
	at := uintptr(unsafe.Pointer(unsafe.StringData(s)))>>3 + uintptr(len(s))
	m := &t.memo[(at^at>>9)%memoTexts]
	if m.text == s {
		return m.id
	}
	id, ok := t.ids[s]
	if !ok {
		t.b = appendText(t.b, s, MaxText)
		t.n++
		id = t.n
		t.ids[s] = id
	}
	*m = knownText{s, id}
	return id
}

// put adds the kernels lo to hi of a step.
func (p *Packer) put(s *Step, lo, hi int) {
	shape, launch := uint64(0), 0
	if hi > lo {
		shape = 1 + uint64(p.shape(s.Shape, lo, hi).index)
	}
	b := append(p.steps, flag(s.Outside, 1)|flag(s.Pairs, 2)|flag(s.Complete, 4)|flag(s.Untraced, 8))
	b = appendUint(b, shape)
	b = appendUint(b, s.Start)
	b = appendInt(b, int64(s.End-s.Start))
	if !s.Outside {
		for _, v := range [...]int64{s.Seq, s.Seqs, s.Tokens, s.KV} {
			b = appendInt(b, v)
		}
		b = appendUint(b, uint64(s.Occurrence))
		for _, text := range [...]string{s.Text, s.Program, s.Vars, s.Reason, s.Group} {
			b = appendUint(b, p.texts.id(text))
		}
		for _, v := range [...]uint64{s.Compute, s.Comm, s.Overlap, s.Idle, s.Foreign} {
			b = appendUint(b, v)
		}
		b = appendIssued(b, &s.Issued, s.Start)
		b = p.requests(b, s, hi)
	}
	if hi > lo {
		first, size := 0, len(s.Launches)
		if hi-lo < len(s.Starts) {
			first = launches(s.Shape.Positions[:lo+1]) - 1
			size = launches(s.Shape.Positions[lo:hi])
		}
		launch = first
		b = appendLaunches(b, s.Launches[launch:launch+size])
		b = appendTimes(b, s.Starts[lo:hi], s.Durs[lo:hi], s.Start)
	}
	p.steps = b
}

// appendIssued appends what the range of a step says; start is the step's.
func appendIssued(b []byte, i *Issued, start uint64) []byte {
	if i.Push == 0 {
		b = appendUint(b, 0)
	} else {
		ns, _ := i.Range()
		b = appendUint(b, uint64(flag(true, 1)|flag(i.Pop >= i.Push, 2)))
		b = appendInt(b, int64(i.Push-start))
		b = appendUint(b, ns)
		b = appendUint(appendUint(b, uint64(i.Thread)), uint64(i.Level))
	}
	return appendUint(b, i.Device)
}

// requests appends those of a step, with its last part.
func (p *Packer) requests(b []byte, s *Step, hi int) []byte {
	requests := s.Requests
	if hi < len(s.Starts) {
		requests = nil
	}
	n, size := 0, 0
	for ; n < len(requests); n++ {
		if size += len(requests[n].ID) + len(requests[n].Trace) + 16; size > maxRequests {
			break
		}
	}
	b = appendUint(b, uint64(n))
	for i := range requests[:n] {
		r := &requests[i]
		b = appendUint(appendUint(b, p.texts.id(r.ID)), p.texts.id(r.Trace))
		b = appendUint(appendUint(b, uint64(r.Tokens)), uint64(r.Cached))
	}
	return b
}

func flag(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}

func appendLaunches(b []byte, launches []Launch) []byte {
	var last Launch
	for _, l := range launches {
		b = appendInt(b, int64(int32(l.Correlation-last.Correlation)))
		last = l
	}
	last = Launch{}
	for _, l := range launches {
		b = appendInt(b, int64(int32(l.Graph-last.Graph)))
		last = l
	}
	return b
}

// appendTimes appends durations, then each start as the gap to the end before it: 2 bytes each for nearly all kernels.
func appendTimes(b []byte, starts, durs []uint64, base uint64) []byte {
	b = slices.Grow(b, 2*binary.MaxVarintLen64*len(durs))
	end := b[len(b):cap(b)]
	n := 0
	for _, d := range durs {
		n += putUint(end[n:], d)
	}
	at := base
	for i, start := range starts {
		n += putUint(end[n:], zigzag(int64(start-at)))
		at = start + durs[i]
	}
	return b[:len(b)+n]
}

// putUint writes a varint to b, which has room, and returns its length. One and two bytes go the short way.
func putUint(b []byte, v uint64) int {
	_ = b[binary.MaxVarintLen64-1]
	switch {
	case v < 1<<7:
		b[0] = byte(v)
		return 1
	case v < 1<<14:
		b[0], b[1] = byte(v)|0x80, byte(v>>7)
		return 2
	}
	return binary.PutUvarint(b, v)
}

// shape returns positions lo to hi of a shape as the open chunk knows them, adding them if need be.
func (p *Packer) shape(s *Shape, lo, hi int) knownShape {
	key := shapeKey{s, lo, hi - lo}
	k, ok := p.known[key]
	if !ok {
		k = knownShape{len(p.known), launches(s.Positions[lo:hi])}
		p.known[key] = k
		p.shapes = le.AppendUint64(p.shapes, s.Hash)
		p.shapes = appendUint(p.shapes, uint64(len(s.Positions)))
		p.shapes = appendUint(p.shapes, uint64(lo))
		p.shapes = appendUint(p.shapes, uint64(hi-lo))
		p.positions(s.Positions[lo:hi])
	}
	return k
}

// positions adds the columns of a shape.
func (p *Packer) positions(positions []Position) {
	b := p.shapes
	column := func(f func(*Position) uint64) {
		for i := range positions {
			b = appendUint(b, f(&positions[i]))
		}
	}
	column(func(q *Position) uint64 { return p.texts.id(q.Call) })
	column(func(q *Position) uint64 { return p.texts.id(q.Op) })
	column(func(q *Position) uint64 { return p.texts.id(q.Name) })
	column(func(q *Position) uint64 { return uint64(byte(q.Class&3) | flag(q.Fused, 4) | uint8(q.GroupBy&3)<<3) })
	column(func(q *Position) uint64 { return uint64(q.Stream) })
	for i := range 3 {
		column(func(q *Position) uint64 { return uint64(q.Grid[i]) })
	}
	for i := range 3 {
		column(func(q *Position) uint64 { return uint64(q.Block[i]) })
	}
	var launch, node uint32
	column(func(q *Position) uint64 { d := q.Launch - launch; launch = q.Launch; return uint64(d) })
	column(func(q *Position) uint64 { d := q.Node - node; node = q.Node; return zigzag(int64(int32(d))) })
	column(func(q *Position) uint64 { return p.texts.id(q.Group) })
	column(func(q *Position) uint64 { return q.Bytes })
	p.shapes = b
}

// appendCopy appends a copy that comes after last.
func appendCopy(b []byte, c, last *Copy) []byte {
	b = append(b, flag(c.Memset, 1)|flag(c.InStep, 2), c.Kind)
	b = appendInt(b, int64(c.Start-last.Start))
	b = appendUint(b, c.Dur)
	b = appendUint(b, c.Bytes)
	b = appendInt(b, int64(c.Node-last.Node))
	b = appendInt(b, int64(int32(c.Correlation-last.Correlation)))
	b = appendUint(b, uint64(c.Stream))
	if c.InStep {
		b = appendUint(appendInt(b, c.Seq), uint64(c.Occurrence))
	}
	return b
}
