package chunk

import "fmt"

// A Sealed is a chunk that is whole.
type Sealed struct {
	Body     []byte // its receiver may keep it
	Windowed bool   // it holds steps; else only what is outside of them
	Window   int64  // of its steps' seqs, if Windowed
	Steps    int    // of those given to Add, how many end in this chunk, kernels outside any step included
	Kernels  int
	Copies   int
	First    uint64 // unix ns: earliest start of what it holds
	Last     uint64 // unix ns: latest end
}

// A Packer packs the steps of one rank and device:
//
//	       Add, AddCopies                     Cut, or no room, or another window
//	empty ────────────────▶ open ────────────────────────────────────────────────▶ empty
//
// It is not safe for concurrent use. Once its buffers have grown it allocates bodies only.
type Packer struct {
	emit     func(*Sealed)
	id       Identity
	identity []byte
	counts   []byte

	open   bool   // something lies in the open chunk
	sealed Sealed // what the open chunk holds so far
	texts  texts
	shapes []byte
	steps  []byte
	copies []byte
	known  map[shapeKey]knownShape
	count  int  // steps and parts in the open chunk
	last   Copy // before the next one
}

// A shapeKey names some of the positions of a shape. Its hash does not name it: shapes of one hash may have different groups.
type shapeKey struct {
	shape        *Shape
	offset, size int
}

// A knownShape is a shape that lies in the open chunk.
type knownShape struct{ index, launches int }

// NewPacker returns a Packer that hands each chunk to emit.
func NewPacker(id Identity, emit func(*Sealed)) *Packer {
	return &Packer{
		emit: emit, id: id, identity: appendIdentity(nil, &id),
		texts: texts{ids: map[string]uint64{}}, known: map[shapeKey]knownShape{},
	}
}

// Identify says whose steps come from now on. If that is another identity, what is open is cut before.
func (p *Packer) Identify(id Identity) {
	if id != p.id {
		p.Cut()
		p.id = id
		p.identity = appendIdentity(p.identity[:0], &id)
	}
}

// Count says what the rank's account is; chunks that are cut from now on carry it. At most MaxCounts count.
func (p *Packer) Count(counts []Count) {
	p.counts = appendCounts(p.counts[:0], counts[:min(len(counts), MaxCounts)])
}

// Add takes a step; but its shape, nothing of it is kept. Chunks that become whole by it are emitted. It fails if the step's columns do
// not fit its shape; then nothing was taken.
func (p *Packer) Add(s *Step) error {
	n := 0
	if s.Shape != nil {
		n = len(s.Shape.Positions)
	}
	launches := p.launches(s.Shape)
	if len(s.Starts) != n || len(s.Durs) != n || len(s.Launches) != launches {
		return fmt.Errorf("step %q: %d starts, %d durations, %d launches, want %d, %d, %d",
			s.Text, len(s.Starts), len(s.Durs), len(s.Launches), n, n, launches)
	}
	if !s.Outside && p.sealed.Windowed && p.sealed.Window != Window(s.Seq) {
		p.Cut()
	}
	if p.fits(s, 0, n) {
		return nil
	}
	p.Cut() // a step begins a chunk of its own rather than be split
	for lo, size := 0, n; ; {
		hi := min(lo+size, n)
		if !p.fits(s, lo, hi) {
			p.clear()
			size = (hi - lo + 1) / 2
			continue
		}
		if hi == n {
			return nil
		}
		p.Cut()
		lo = hi
	}
}

// fits adds the kernels lo to hi of a step to the open chunk; false: there is no room, and nothing was added.
func (p *Packer) fits(s *Step, lo, hi int) bool {
	texts, shapes, steps := p.texts.mark(), len(p.shapes), len(p.steps)
	p.put(s, lo, hi)
	if p.count++; p.size() > MaxBytes || p.count > MaxSteps {
		// What the maps still know goes when the chunk is cut or cleared, which comes next.
		p.texts.rewind(texts)
		p.shapes, p.steps = p.shapes[:shapes], p.steps[:steps]
		return false
	}
	p.covers(s.Start, s.End)
	if !s.Outside {
		p.sealed.Windowed, p.sealed.Window = true, Window(s.Seq)
	}
	if p.sealed.Kernels += hi - lo; hi == len(s.Starts) {
		p.sealed.Steps++
	}
	return true
}

// AddCopies takes copies.
func (p *Packer) AddCopies(copies []Copy) {
	for i := range copies {
		if p.size() > MaxBytes-maxCopy {
			p.Cut()
		}
		c := &copies[i]
		p.copies = appendCopy(p.copies, c, &p.last)
		p.last = *c
		p.sealed.Copies++
		p.covers(c.Start, c.Start+c.Dur)
	}
}

// covers notes that something from start to end, unix ns, was added.
func (p *Packer) covers(start, end uint64) {
	if !p.open {
		p.open, p.sealed.First = true, start
	}
	p.sealed.First = min(p.sealed.First, start)
	p.sealed.Last = max(p.sealed.Last, end)
}

// Open is how many kernels and copies lie in the open chunk.
func (p *Packer) Open() (kernels, copies int) { return p.sealed.Kernels, p.sealed.Copies }

// Cut emits what is open, if anything is.
func (p *Packer) Cut() {
	if p.open {
		body := appendHeader(make([]byte, 0, p.size()), p.sections())
		for _, s := range p.sections() {
			body = append(body, s...)
		}
		p.sealed.Body = body
		p.emit(&p.sealed)
	}
	p.clear()
}

// End emits what is open, or else a chunk that holds nothing but the counts: the last word on a rank's account.
func (p *Packer) End() {
	p.open = true
	p.Cut()
}

// clear empties the open chunk.
func (p *Packer) clear() {
	p.open, p.sealed, p.last, p.count = false, Sealed{}, Copy{}, 0
	p.texts.clear()
	clear(p.known)
	p.shapes, p.steps, p.copies = p.shapes[:0], p.steps[:0], p.copies[:0]
}

func (p *Packer) sections() [sections][]byte {
	return [sections][]byte{p.identity, p.counts, p.texts.b, p.shapes, p.steps, p.copies}
}

// size is how long the open chunk would be, in bytes.
func (p *Packer) size() int {
	n := headerBytes
	for _, s := range p.sections() {
		n += len(s)
	}
	return n
}

// launches is how many launches have kernels in a shape.
func (p *Packer) launches(s *Shape) int {
	if s == nil {
		return 0
	}
	if k, ok := p.known[shapeKey{s, 0, len(s.Positions)}]; ok {
		return k.launches
	}
	return launches(s.Positions)
}

// launches counts the runs of positions of equal Launch.
func launches(positions []Position) (n int) {
	for i := range positions {
		if i == 0 || positions[i].Launch != positions[i-1].Launch {
			n++
		}
	}
	return n
}
