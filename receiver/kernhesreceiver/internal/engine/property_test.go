package engine

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/fakeshim"
	"github.com/kernhes/kernhes/internal/krec"
	"github.com/kernhes/kernhes/internal/wire"
)

// A stream is the frames that a shim sends, and what faults do to it. Each fault is one that a shim, a wire or a pipeline has.
type stream struct {
	rng    *rand.Rand
	frames []wire.Frame // numbered ones, in order; Number 0: to be numbered
	hello  wire.Hello
	took   records // by the wire
}

// newStream takes a recording's frames apart.
func newStream(t *testing.T, r *krec.Recording, seed uint64) *stream {
	s := &stream{rng: rand.New(rand.NewPCG(seed, 1))}
	options := []fakeshim.Options{{}, {Deliver: fakeshim.Flush}, {Deliver: fakeshim.Flush, Reorder: seed + 1}}[s.rng.IntN(3)]
	reader := wire.NewReader(bytes.NewReader(bytes.Join(fakeshim.Frames(r, options), nil)))
	for {
		f, err := reader.Next()
		if err == io.EOF {
			return s
		}
		require.NoError(t, err)
		f.Body = slices.Clone(f.Body)
		switch {
		case f.Kind == wire.KindHello:
			s.hello, err = wire.ParseHello(f.Body)
			require.NoError(t, err)
		case f.Number > 0 && f.Kind != wire.KindBye:
			s.frames = append(s.frames, f)
		}
	}
}

// chance is true once in n.
func (s *stream) chance(n int) bool { return s.rng.IntN(n) == 0 }

// spoil has CUPTI give wrong and double records, and drop some.
func (s *stream) spoil(odds int) {
	var frames []wire.Frame
	for _, f := range s.frames {
		if f.Kind != wire.KindKernels && f.Kind != wire.KindCopies {
			frames = append(frames, f)
			continue
		}
		var body []byte
		dropped := uint64(0)
		for record := range slices.Chunk(f.Body, 64) {
			if !s.chance(odds) {
				body = append(body, record...)
				continue
			}
			start := le.Uint64(record)
			switch s.rng.IntN(7) {
			case 0:
				dropped++
				continue
			case 1:
				body = append(body, record...) // and again
			case 2:
				le.PutUint64(record, 0)
			case 3:
				le.PutUint64(record[8:], 0)
			case 4:
				le.PutUint64(record[8:], start-1)
			case 5:
				le.PutUint64(record[8:], start+2*3600e9)
			case 6:
				le.PutUint64(record, start+48*3600e9)
				le.PutUint64(record[8:], start+48*3600e9+1)
			}
			body = append(body, record...)
		}
		f.Body = body
		frames = append(frames, f)
		if dropped > 0 {
			frames = append(frames, lostFrame(1, wire.LostRecords, dropped))
		}
	}
	s.frames = frames
}

// fewDevices are as many as a session may have that was spread.
const fewDevices = 2

// spread has records be of other devices, more than a session may have.
func (s *stream) spread() {
	at := map[wire.Kind]int{wire.KindKernels: 36, wire.KindCopies: 40}
	for _, f := range s.frames {
		if holds(f) == (records{}) {
			continue
		}
		for record := range slices.Chunk(f.Body, 64) {
			le.PutUint16(record[at[f.Kind]:], uint16(s.rng.IntN(2*fewDevices)))
		}
	}
}

// delay has some buffers come later than they should, or come again later.
func (s *stream) delay() {
	for range 1 + s.rng.IntN(5) {
		from := s.rng.IntN(len(s.frames))
		f := s.frames[from]
		if holds(f) == (records{}) {
			continue
		}
		if s.chance(2) {
			s.frames = slices.Delete(s.frames, from, from+1)
		}
		to := from + s.rng.IntN(len(s.frames)-from+1)
		s.frames = slices.Insert(s.frames, to, f)
	}
}

// loseEvents has the shim's ring be full here and there: pushes, pops and launches go missing.
func (s *stream) loseEvents(odds int) {
	for i := range s.frames {
		f := &s.frames[i]
		if f.Kind != wire.KindEvents {
			continue
		}
		var body []byte
		for b := f.Body; len(b) > 0; b = b[le.Uint16(b[2:]):] {
			if one := b[:le.Uint16(b[2:])]; !s.chance(odds) {
				body = append(body, one...)
			}
		}
		if len(body) < len(f.Body) {
			f.Body = body
			s.frames = slices.Insert(s.frames, min(i+1+s.rng.IntN(5), len(s.frames)), lostFrame(5, wire.LostEvents, 1))
		}
	}
}

func lostFrame(reason, what uint32, n uint64) wire.Frame {
	return wire.Frame{Kind: wire.KindLost, Body: append(u32(reason, what), u64(n, 0, 0)...)}
}

// holds is what records a frame has.
func holds(f wire.Frame) (r records) {
	switch f.Kind {
	case wire.KindKernels:
		r.kernels = uint64(len(f.Body) / 64)
	case wire.KindCopies:
		r.copies = uint64(len(f.Body) / 64)
	}
	return r
}

// number has the shim say now and then what it has seen, end with BYE, and number all.
func (s *stream) number() {
	var seen records
	var frames []wire.Frame
	for _, f := range s.frames {
		seen.add(holds(f))
		frames = append(frames, f)
		if s.chance(10) {
			b := append(u32(wire.StatKernels, 0), u64(seen.kernels)...)
			frames = append(frames, wire.Frame{Kind: wire.KindStats, Body: append(append(b, u32(wire.StatCopies, 0)...), u64(seen.copies)...)})
		}
	}
	frames = append(frames, wire.Frame{Kind: wire.KindBye, Body: append(u32(1, 0), u64(seen.kernels, seen.copies)...)})
	for i := range frames {
		frames[i].Number = uint64(i + 1)
	}
	s.frames = frames
}

// drop takes a run of frames out: over the shim's bound, which LOST tells of some frames later, or on the wire, silently.
// The place of LOST is another frame's, so numbers stay: what it replaces has no records.
func (s *stream) drop(told bool) {
	at := s.rng.IntN(len(s.frames))
	n := min(1+s.rng.IntN(6), len(s.frames)-1-at)
	var lost records
	for _, f := range s.frames[at : at+n] {
		if f.Kind == wire.KindLost || f.Kind == wire.KindBye {
			return // the shim would tell of those again
		}
		lost.add(holds(f))
	}
	if !told {
		s.took.add(lost)
		s.frames = slices.Delete(s.frames, at, at+n)
		return
	}
	var say []wire.Frame
	for what, count := range map[uint32]uint64{wire.LostKernels: lost.kernels, wire.LostCopies: lost.copies} {
		if count > 0 {
			say = append(say, lostFrame(4, what, count))
		}
	}
	s.frames = slices.Delete(s.frames, at, at+n)
	to := at + min(s.rng.IntN(8), len(s.frames)-1-at)
	for _, f := range say {
		// It has the number of a frame that is put off: all after it move up by one.
		f.Number = s.frames[to].Number
		for i := to; i < len(s.frames); i++ {
			s.frames[i].Number++
		}
		s.frames = slices.Insert(s.frames, to, f)
	}
}

// A pipeline takes some chunks, refuses others, and leaves some for later.
type pipeline struct {
	t       *testing.T
	rng     *rand.Rand
	refuses bool
	waiting []OutboundChunk
	rows    struct{ consumed, refused records }
	last    map[uint16]*chunk.Chunk // by device
}

func (l *pipeline) take(p *Process, all bool) {
	l.waiting = append(l.waiting, p.TakeChunks()...)
	for len(l.waiting) > 0 && (all || l.rng.IntN(3) > 0) {
		one := l.waiting[0]
		c, err := chunk.Unpack(one.Body)
		require.NoError(l.t, err)
		rows := records{uint64(c.Rows()), uint64(len(c.Copies))}
		refused := l.refuses && l.rng.IntN(3) == 0
		if refused {
			l.rows.refused.add(rows)
		} else {
			l.rows.consumed.add(rows)
		}
		l.last[c.Device] = c
		one.Release(!refused)
		l.waiting = l.waiting[1:]
	}
}

// snapshot begins a process anew after frame n, as a shim would tell a collector that knows nothing: texts, domains and nodes.
func (s *stream) snapshot(t *testing.T, p *Process, n uint64) {
	pinned := func(k wire.Kind, body []byte) {
		require.NoError(t, p.Frame(wire.Frame{Kind: k, Flags: wire.FlagPinned, Body: body}))
	}
	var correlation uint32
	launched := false
	for _, f := range s.frames {
		switch {
		case f.Number > n:
		case f.Kind == wire.KindStrings:
			pinned(f.Kind, f.Body)
		case f.Kind == wire.KindEvents:
			require.NoError(t, wire.Events(f.Body, func(e wire.Event) {
				if e.Kind() == wire.EventLaunch {
					correlation, launched = e.Correlation(), true
				}
			}))
			for b := f.Body; len(b) > 0; b = b[le.Uint16(b[2:]):] {
				switch wire.EventKind(le.Uint16(b)) {
				case wire.EventNodeCreated, wire.EventDomain:
					pinned(f.Kind, b[:le.Uint16(b[2:])])
				}
			}
		}
	}
	flag := uint32(0)
	if launched {
		flag = 1
	}
	require.NoError(t, p.Frame(wire.Frame{Kind: wire.KindBase, Body: append(u64(n), u32(correlation, flag)...)}))
}

// TestTheBooksHoldUnderEveryFault plays recordings, changed at random, with faults at random, and checks the identities at
// each frame. KERNHES_SEEDS=N runs N more seeds, KERNHES_SEED=N that one alone.
func TestTheBooksHoldUnderEveryFault(t *testing.T) {
	first, seeds := uint64(0), 60
	if n, err := strconv.Atoi(os.Getenv("KERNHES_SEEDS")); err == nil {
		seeds += n
	}
	if n, err := strconv.ParseUint(os.Getenv("KERNHES_SEED"), 10, 64); err == nil {
		first, seeds = n, 1
	}
	stories := krec.Stories()
	real, err := krec.Read(filepath.Join(recordings, "tp2.rank1.krec.zst"))
	require.NoError(t, err)
	for seed := first; seed < first+uint64(seeds); seed++ {
		r := stories[seed%uint64(len(stories))].Recording
		if seed%30 == 29 && !testing.Short() {
			r = real
		}
		changed, names := krec.Mutate(r, seed)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("changes to the recording: %v", names)
				}
			}()
			bookProperty(t, changed, seed)
		})
	}
}

// bookProperty plays one recording with faults that the seed decides on.
func bookProperty(t *testing.T, r *krec.Recording, seed uint64) {
	s := newStream(t, r, seed)
	if s.chance(2) {
		s.spoil(3 << s.rng.IntN(8))
	}
	if s.chance(2) {
		s.delay()
	}
	spread := s.chance(3)
	if spread {
		s.spread()
	}
	if s.chance(3) {
		s.loseEvents(5 << s.rng.IntN(6))
	}
	s.number()
	for range s.rng.IntN(4) {
		s.drop(s.chance(2))
	}
	cut, restarts, again := len(s.frames), 0, uint64(0)
	if s.chance(4) {
		cut = s.rng.IntN(len(s.frames)) // the engine dies there
	}
	if s.chance(3) {
		restarts = 1 + s.rng.IntN(3)
	}
	cfg := testSettings(archived)
	if s.chance(4) {
		cfg.MaxSessionBytes = 4 << 10
	}
	begin := NewEngines(cfg).Begin
	p := begin(s.hello)
	if spread {
		p.set.maxDevices = fewDevices
	}
	l := &pipeline{t: t, rng: s.rng, refuses: s.chance(3), last: map[uint16]*chunk.Chunk{}}
	var came records
	for i := 0; i < cut; i++ {
		f := s.frames[i]
		if f.Number > p.lastFrame {
			came.add(holds(f))
		}
		require.NoError(t, p.Frame(f))
		booksHold(t, p)
		switch {
		case s.chance(20):
			p.Cut()
			booksHold(t, p)
		case restarts > 0 && s.chance(30):
			restarts--
			again = p.Acknowledgeable()
			p = begin(s.hello)
			s.snapshot(t, p, again)
			*l = pipeline{t: t, rng: s.rng, refuses: l.refuses, last: map[uint16]*chunk.Chunk{}}
			came = records{}
			for i = 0; i < len(s.frames) && s.frames[i].Number <= again; i++ {
			}
			i--
		case s.chance(30): // the connection breaks, and some frames are sent again
			i = max(i-1-s.rng.IntN(20), -1)
		}
		l.take(p, false)
		booksHold(t, p)
	}
	p.End(cut < len(s.frames))
	booksHold(t, p)
	l.take(p, true)
	booksHold(t, p)
	settledBooks(t, s, p, l, came, cut == len(s.frames) && again == 0)
}

// settledBooks checks an account that is over against what was counted beside it. whole says that it was heard from its
// first frame to BYE.
func settledBooks(t *testing.T, s *stream, p *Process, l *pipeline, came records, whole bool) {
	var got, rows, refused, packed records
	unpacked := uint64(0) // copies whose times cannot be believed
	for _, d := range p.devices {
		got.kernels += d.kernels
		for _, n := range d.copies {
			got.copies += n
		}
		c := p.counts(d)
		require.Zero(t, c[books.KernelsPending])
		require.Zero(t, c[books.PackedKernelsPending]+c[books.PackedCopiesPending])
		rows.add(records{c[books.PackedKernelsConsumed], c[books.PackedCopiesConsumed]})
		refused.add(records{c[books.PackedKernelsRefused], c[books.PackedCopiesRefused]})
		packed.add(d.packed.books.packed)
		kept := c[books.KernelsInSteps] + c[books.KernelsOutside]
		require.GreaterOrEqual(t, d.packed.books.packed.kernels, kept, "kernels in steps and outside are packed")
		require.LessOrEqual(t, d.packed.books.packed.kernels, kept+c[books.KernelsLate])
		losses := p.losses(d)
		invalid, bad := uint64(0), uint64(0)
		for _, reason := range InvalidReasons {
			invalid += losses[reason]
		}
		for _, n := range d.badCopies {
			bad += n
		}
		unpacked += bad
		require.Equal(t, c[books.KernelsInvalid]+bad, invalid, "by reason")
		require.Equal(t, refusedOf(d), losses[books.DownstreamRefused])
		if last := l.last[d.id]; last != nil {
			footer(t, last)
		}
	}
	got.add(p.overDevices)
	require.Equal(t, came, got, "records that came")
	require.Equal(t, l.rows.consumed, rows)
	require.Equal(t, l.rows.refused, refused)
	rows.add(refused)
	require.Equal(t, packed, rows)
	require.Equal(t, got.copies, packed.copies+unpacked+p.overDevices.copies, "copies are packed, or counted")
	if whole {
		require.Equal(t, s.took.kernels+s.took.copies, p.dropped[books.Wire], "what the wire took")
	}
}

func refusedOf(d *deviceState) uint64 {
	return d.packed.books.refused.kernels + d.packed.books.refused.copies
}

// footer checks the account that a device's last chunk carries.
func footer(t *testing.T, c *chunk.Chunk) {
	counts := books.Counts{}
	for _, one := range c.Counts {
		counts[one.Name] = one.Value
	}
	for identity, n := range books.Residues(counts) {
		require.Zero(t, n, "%s in a chunk's counts: %v", identity, counts)
	}
	require.Contains(t, counts, books.KernelsReceived)
	for _, reason := range books.Received() {
		require.Contains(t, counts, books.LostPrefix+reason)
	}
}
