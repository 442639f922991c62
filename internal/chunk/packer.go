package chunk

import "time"

// A Sealed is a chunk that is whole.
type Sealed struct {
	Body   []byte // the packer's: valid during the call
	Window int64  // of its steps' seqs, if Windowed
	// Windowed is false for a chunk that holds no step, only what is outside of them.
	Windowed bool
	Added    int // how many of the steps given to Add are now, with all their parts, in this or an earlier chunk
	Kernels  int
	Copies   int
	First    uint64 // unix ns: earliest start of what it holds
	Last     uint64 // unix ns: latest end
}

// MaxAge is how old the first step of a chunk may become before Due asks to cut.
const MaxAge = time.Second

// A Packer packs the steps of one rank and device. It is not safe for concurrent use.
type Packer struct {
	id     Identity
	emit   func(*Sealed)
	counts []Count
	sealed Sealed
	begun  time.Time // of the open chunk; zero: it is empty
}

// NewPacker returns a Packer that hands each chunk to emit.
func NewPacker(id Identity, emit func(*Sealed)) *Packer { return &Packer{id: id, emit: emit} }

// Identify says whose steps come from now on. If that is another identity, what is open is cut before.
func (p *Packer) Identify(id Identity) {
	if id != p.id {
		p.Cut()
		p.id = id
	}
}

// Count says what the rank's account is; the chunks that follow carry it. It keeps counts.
func (p *Packer) Count(counts []Count) { p.counts = counts }

// Add takes a step; nothing of it is kept. Chunks that it completes are emitted. It fails if the step's columns do not fit
// its shape; then nothing was taken.
func (p *Packer) Add(s *Step, now time.Time) error { return nil }

// AddCopies takes copies.
func (p *Packer) AddCopies(copies []Copy, now time.Time) {}

// Due reports whether something is open since MaxAge or longer.
func (p *Packer) Due(now time.Time) bool {
	return !p.begun.IsZero() && now.Sub(p.begun) >= MaxAge
}

// Cut emits what is open, if anything is.
func (p *Packer) Cut() {}
