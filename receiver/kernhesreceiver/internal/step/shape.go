package step

import (
	"encoding/binary"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/kernhes/kernhes/internal/model"
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/coverage"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/cupti"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

// A Position is what is known of the kernel at one place of a step without its times.
type Position = model.Position

// A Kernel is what is known of the kernel at a place of a step in its session alone.
type Kernel struct {
	Call uint32  // its label; 0: none
	Name uint32  // string id
	By   span.By // what gave it its class
}

// A Shape is the positions of a step, in order of launch and then of the graph's nodes, and what follows from them. Steps that
// issue the same kernels share one; it never changes.
type Shape struct {
	model.Shape
	key      uint64         // of all positions, with their groups
	Cover    *coverage.Plan // how they count for coverage
	Messages []Message      // what those of a known group or size communicate
}

// A Message is what kernels of a shape communicate.
type Message struct {
	Group   string `json:"group"` // as in Position
	Bytes   uint64 `json:"bytes"` // likewise: of each
	Kernels int    `json:"kernels"`
}

// maxMessages bounds the messages of a shape that are told apart: those of further groups and sizes are left out.
const maxMessages = 64

// messages sums positions by group and bytes, in the order of their first.
func messages(positions []Position) (all []Message) {
	for i := range positions {
		p := &positions[i]
		if p.Group == "" && p.Bytes == 0 {
			continue
		}
		at := slices.IndexFunc(all, func(m Message) bool { return m.Group == p.Group && m.Bytes == p.Bytes })
		if at < 0 {
			if len(all) == maxMessages {
				continue
			}
			at, all = len(all), append(all, Message{Group: p.Group, Bytes: p.Bytes})
		}
		all[at].Kernels++
	}
	return all
}

func newShape(positions []Position, kernels []Kernel) *Shape {
	of, key := hash(positions, kernels)
	return &Shape{model.Shape{Hash: of, Positions: positions}, key, coverage.NewPlan(len(positions), func(i int) coverage.Position {
		p := &positions[i]
		return coverage.Position{Name: p.Name, By: kernels[i].By, Labelled: p.Call != ""}
	}), messages(positions)}
}

// averageShape is how many bytes a shape of a Table may have on average: 128 kernels. Most steps have more, but few shapes are many:
// the recordings have some 100.
const averageShape = 16 << 10

// A Table interns shapes for all sessions. It is safe for concurrent use.
type Table struct {
	limit  int // shapes
	mu     sync.Mutex
	shapes map[uint64]*Shape
	order  []*Shape // by age
	bytes  int
}

// NewTable returns an empty table for so many shapes.
func NewTable(limit int) *Table { return &Table{limit: limit, shapes: map[uint64]*Shape{}} }

// intern returns the shape of positions, which it keeps; when there is no room the oldest shapes go, and how many is returned.
func (t *Table) intern(positions []Position, kernels []Kernel) (_ *Shape, gone int) {
	s := newShape(positions, kernels)
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.shapes[s.key]; old != nil {
		return old, 0
	}
	for len(t.order) > 0 && (len(t.order) >= t.limit || t.bytes+s.size() > averageShape*t.limit) {
		gone++
		t.bytes -= t.order[0].size()
		delete(t.shapes, t.order[0].key)
		t.order = t.order[1:]
	}
	t.shapes[s.key] = s
	t.order = append(t.order, s)
	t.bytes += s.size()
	return s, gone
}

// size is the memory of a shape in bytes; its texts are its session's.
func (s *Shape) size() int { return 128 * len(s.Positions) }

// hash is the hash of positions without their groups, and the key of them with their groups.
func hash(positions []Position, kernels []Kernel) (of, key uint64) {
	h := xxhash.New()
	var groups xxhash.Digest
	groups.Reset()
	var b [40]byte
	for i := range positions {
		p := &positions[i]
		_, _ = h.WriteString(p.Call)
		_, _ = h.WriteString("\x00")
		_, _ = h.WriteString(p.Name)
		_, _ = h.WriteString("\x00")
		_, _ = h.WriteString(p.Op)
		binary.LittleEndian.PutUint64(b[0:], uint64(p.Stream)<<16|uint64(kernels[i].By)<<12|uint64(p.Class)<<8|fused(p))
		binary.LittleEndian.PutUint64(b[8:], uint64(p.Grid[0])|uint64(p.Grid[1])<<32|uint64(p.Grid[2])<<48)
		binary.LittleEndian.PutUint64(b[16:], uint64(p.Block[0])|uint64(p.Block[1])<<16|uint64(p.Block[2])<<32)
		binary.LittleEndian.PutUint64(b[24:], uint64(p.Launch)<<32|uint64(p.Node))
		binary.LittleEndian.PutUint64(b[32:], p.Bytes)
		_, _ = h.Write(b[:])
		if p.Group != "" {
			_, _ = groups.Write(binary.LittleEndian.AppendUint64(b[:0], uint64(i)))
			_, _ = groups.WriteString(p.Group)
		}
	}
	of = h.Sum64()
	_, _ = h.Write(groups.Sum(b[:0]))
	return of, h.Sum64()
}

func fused(p *Position) uint64 {
	if p.Fused {
		return 1
	}
	return 0
}

// A part is the kernels of one launch in a step.
type part struct {
	ordinal     uint32
	correlation uint32
	label       uint32       // of an eager launch
	comm        uint32       // likewise: what it communicates, by nccl.Follower
	static      wire.Static  // of an eager launch
	graph       *cupti.Graph // that was replayed
	n           int          // kernels
}

// recipes remembers the shapes of one session by what its steps are made of, so that a step that
// repeats costs a look-up and not its positions.
type recipes struct {
	known map[uint64]known
	bytes int // of the shapes, at most
	b     []byte
}

// forget lets go of all shapes.
func (r *recipes) forget() {
	clear(r.known)
	r.bytes = 0
}

// keep remembers a shape, and forgets all others when there is no room: what repeats is soon there again.
func (r *recipes) keep(key uint64, k known, limit int) {
	if len(r.known) >= limit || r.bytes+k.size() > averageShape*limit {
		r.forget()
	}
	r.known[key] = k
	r.bytes += k.size()
}

// A known recipe is a shape, and whether some of its kernels have another class than their names gave when it was new.
type known struct {
	*Shape
	overridden bool
}

// key hashes parts; two steps of one session with equal keys have the same shape.
func (r *recipes) key(parts []part) uint64 {
	b := r.b[:0]
	le := binary.LittleEndian
	for i := range parts {
		p := &parts[i]
		b = le.AppendUint32(b, p.ordinal)
		if p.graph != nil {
			b = le.AppendUint64(b, p.graph.Serial)
			b = le.AppendUint32(b, p.graph.Version)
			b = le.AppendUint64(b, uint64(p.n))
			continue
		}
		b = le.AppendUint32(b, p.label)
		b = le.AppendUint32(b, p.comm)
		b = le.AppendUint64(b, p.static[0])
		b = le.AppendUint64(b, p.static[1])
		b = le.AppendUint64(b, p.static[2])
	}
	r.b = b
	return xxhash.Sum64(b)
}

// shape returns the shape of a step whose refs are in order, and whether the step's kernels may have other classes.
func (a *Assembler) shape(s *Step) known {
	whole := true
	for i := range s.parts {
		p := &s.parts[i]
		whole = whole && (p.graph == nil || p.n == p.graph.Kernels())
	}
	key := a.recipes.key(s.parts)
	if whole {
		if k, ok := a.recipes.known[key]; ok && len(k.Positions) == len(s.Refs) {
			return k
		}
	}
	positions, kernels := a.positions(s)
	overridden := a.classAll(s.Program, positions, kernels)
	shape, gone := a.table.intern(positions, kernels)
	a.Evicted += uint64(gone)
	k := known{shape, overridden}
	if whole {
		a.recipes.keep(key, k, a.table.limit)
	}
	return k
}

// recount gives the kernels of a step the classes of its shape, where their names gave others when they came.
func (s *Step) recount() {
	for i := range s.Spans {
		if sp := &s.Spans[i]; sp.Class() != s.Shape.Positions[i].Class {
			*sp = span.Make(sp.Start, sp.End(), s.Shape.Positions[i].Class)
		}
	}
}

// Reshape has what steps are made of classed anew: classes have changed. Kernels of steps that are open may have come before.
func (a *Assembler) Reshape() {
	a.recipes.forget()
	a.fresh = a.number + 1
}

// stale reports whether kernels of a step may have classes that have changed since they came.
func (a *Assembler) stale(s *Step) bool { return s.Number < a.fresh }

// positions works out what each kernel of a step is.
func (a *Assembler) positions(s *Step) (positions []Position, kernels []Kernel) {
	positions = make([]Position, len(s.Refs))
	kernels = make([]Kernel, len(s.Refs))
	at, stale := 0, a.stale(s)
	for i, ref := range s.Refs {
		for s.parts[at].ordinal != uint32(ref>>32) {
			at++
		}
		p := &s.parts[at]
		pos := Position{Launch: p.ordinal, Class: s.Spans[i].Class()}
		label, comm, static := p.label, p.comm, p.static
		if p.graph != nil {
			comm = 0
			if n := p.graph.Node(uint32(ref)); n != nil {
				static, pos.Node, label, comm = n.Static, n.Low(), n.Label, n.Comm
			}
		}
		if comm != 0 {
			pos.Group, pos.Bytes = a.comms(comm)
		}
		place(&pos, static)
		id := static.Name()
		name := a.names(id)
		kernels[i] = Kernel{Call: label, Name: id}
		pos.Name, pos.Fused = name.Text, name.Fused
		if stale {
			pos.Class = a.class(label, id, name)
		}
		if name.Ruled {
			kernels[i].By = span.ByRule
		}
		pos.Call = a.calls(label)
		positions[i] = pos
	}
	return positions, kernels
}

// place gives a position the stream, grid and block of a kernel.
func place(p *Position, s wire.Static) {
	gx, gy, gz := s.Grid()
	bx, by, bz := s.Block()
	p.Stream, p.Grid, p.Block = s.Stream(), [3]uint32{gx, uint32(gy), uint32(gz)}, [3]uint32{uint32(bx), uint32(by), uint32(bz)}
}

// classAll gives positions the classes that more than names gives. Of a call's kernels only those that communicate then have its
// group and bytes.
func (a *Assembler) classAll(program string, positions []Position, kernels []Kernel) (changed bool) {
	changed = a.override(program, positions, kernels)
	for i := range positions {
		switch p := &positions[i]; {
		case p.Class != span.Comm:
			p.Group, p.Bytes = "", 0
		case p.Group != "":
			p.GroupBy = model.GroupNCCL
		}
	}
	return changed
}

// A Launch is a launch that has kernels in a step.
type Launch = model.Launch

// Launches are the launches of the step's kernels, in order of their ordinals.
func (s *Step) Launches() []Launch {
	launches := make([]Launch, len(s.parts))
	for i := range s.parts {
		launches[i].Correlation = s.parts[i].correlation
		if g := s.parts[i].graph; g != nil {
			launches[i].Graph = g.ID
		}
	}
	return launches
}

// ClassOf is what the kernels of a call count as, in any shape that is known; comm if any of them does. false: no shape has the call.
func (t *Table) ClassOf(call string) (class span.Class, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.shapes {
		for i := range s.Positions {
			if p := &s.Positions[i]; p.Call == call {
				if class, ok = p.Class, true; class == span.Comm {
					return class, true
				}
			}
		}
	}
	return class, ok
}
