package engine

import (
	"slices"
	"strconv"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/cupti"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/step"
)

// An OutboundChunk is a chunk on its way to the logs pipeline. Whoever takes it releases its hold.
type OutboundChunk struct {
	*chunk.Sealed
	*Hold
	Source *Source
}

// recordsOf is what lies in a chunk.
func recordsOf(c *chunk.Sealed) records { return records{uint64(c.Kernels), uint64(c.Copies)} }

// An outbound is what leaves a process, and holds frames until it is released.
//
//	final steps, kernels outside any ──▶ packers, one a device ──cut──▶ chunks ──▶ session
//	frames on which they rest:             packed.open            the chunk's hold
type outbound struct {
	chunks  []OutboundChunk
	columns []uint64 // of the step that is being packed
	totals  []OutboundStep
	holds   openHolds // of those, and of what was taken and is not released
}

// TakeSteps returns the steps that became final since the last call.
func (o *outbound) TakeSteps() []OutboundStep {
	steps := o.totals
	o.totals = nil
	return steps
}

// TakeChunks returns the chunks that were cut since the last call.
func (o *outbound) TakeChunks() []OutboundChunk {
	chunks := o.chunks
	o.chunks = nil
	return chunks
}

// A frameHold is the first frame that is not to be acknowledged yet; 0: none.
type frameHold uint64

// with keeps frame from being acknowledged.
func (h *frameHold) with(frame uint64) {
	if *h == 0 || frame < uint64(*h) {
		*h = frameHold(max(frame, 1))
	}
}

// packed is a device's part in packing.
type packed struct {
	books        packedBooks
	packer       *chunk.Packer
	open         frameHold // of what lies in the packer
	rank         int64
	stale        bool       // INFO came since the packer was told whose steps it packs
	unattributed *step.Step // kernels outside any step that came since the last flush
	first        uint64     // frame of the first of them
	held         heldCopies // whose steps' numbers are not known yet
	shapes       map[shapeOf]*chunk.Shape
}

// maxPackedShapes bounds the shapes of a device that are kept translated.
const maxPackedShapes = 1024

// packer returns the packer of a device for a rank.
func (p *Process) packer(d *deviceState, rank int64) *chunk.Packer {
	if d.packed.packer != nil && d.packed.rank == rank && !d.packed.stale {
		return d.packed.packer
	}
	gpu := "gpu." + strconv.Itoa(int(d.id)) + "."
	id := chunk.Identity{
		Run: p.info["run"], Rank: rank, Device: d.id, Session: p.session, Host: p.info["host"],
		GPU: p.info[gpu+"uuid"], GPUName: p.info[gpu+"name"], Model: p.info["model"], Engine: p.info["engine"],
		Version: p.info["engine_version"], Mode: p.mode,
	}
	if d.packed.packer == nil {
		d.packed.packer = chunk.NewPacker(id, func(s *chunk.Sealed) { p.post(d, s) })
	} else {
		d.packed.packer.Identify(id) // what it cuts is still of the rank before
	}
	d.packed.rank, d.packed.stale = rank, false
	return d.packed.packer
}

// post queues a chunk.
func (p *Process) post(d *deviceState, s *chunk.Sealed) {
	kept := *s
	n, b := recordsOf(&kept), &d.packed.books
	b.sealed.add(n)
	hold := p.holds.add(max(uint64(d.packed.open), 1), func(taken bool) {
		b.sealed.sub(n)
		if taken {
			b.consumed.add(n)
		} else {
			b.refused.add(n)
		}
	})
	d.packed.open = 0
	p.chunks = append(p.chunks, OutboundChunk{&kept, hold, p.source(d, d.packed.rank)})
}

// pack takes a final step.
func (p *Process) pack(d *deviceState, s *step.Step, n numbered) {
	rank := d.stepRank(s)
	c := p.chunkStep(s, p.chunkShape(d, shapeOf{s.Shape, s.Group, rank}))
	c.Seq, c.Pairs = int64(n.seq), n.pairs
	d.packed.held.final(s.ID, stepName{c.Seq, c.Occurrence})
	p.add(d, rank, s.Frame, &c)
}

func (p *Process) add(d *deviceState, rank int64, frame uint64, c *chunk.Step) {
	packer := p.packer(d, rank)
	n := records{kernels: uint64(len(c.Starts))}
	d.packed.books.packed.add(n)
	if err := packer.Add(c); err != nil {
		d.packed.books.refused.add(n)
		p.notice(LevelError, "a step does not fit its shape", Pair{"error", err})
	}
	d.packed.open.with(frame) // its end lies in the packer, whatever was cut before
}

// chunkStep translates a step. Its columns are valid until the next: a packer keeps nothing of them.
func (p *Process) chunkStep(s *step.Step, shape *chunk.Shape) chunk.Step {
	n := len(s.Spans)
	p.columns = slices.Grow(p.columns[:0], 2*n)[:2*n]
	c := chunk.Step{
		Occurrence: s.Occurrence, Text: s.Text, Program: s.Program, Vars: s.Vars, Group: s.Group, Seqs: s.Seqs, Tokens: s.Tokens, KV: s.KV,
		Start: s.First, End: s.Last, Compute: s.Compute, Comm: s.ExposedComm, Overlap: s.Overlap, Idle: s.Idle,
		Foreign: s.Foreign, Complete: s.Complete(), Reason: s.Reason, Shape: shape,
		Untraced: s.Untraced, Issued: s.Issued, Requests: s.Requests,
		Launches: s.Launches(), Starts: p.columns[:n], Durs: p.columns[n:],
	}
	for i, sp := range s.Spans {
		c.Starts[i], c.Durs[i] = sp.Start, sp.End()-sp.Start
	}
	return c
}

// A shapeOf names a shape as the archive has it: groups that the shape does not say come from the step's text, or the rank.
type shapeOf struct {
	shape *step.Shape
	group string
	rank  int64
}

// chunkShape translates the shape of a step, once.
func (p *Process) chunkShape(d *deviceState, key shapeOf) *chunk.Shape {
	if c := d.packed.shapes[key]; c != nil {
		return c
	}
	const position = 128 // bytes
	size := position * len(key.shape.Positions)
	if p.packedBytes += size; p.packedBytes > p.set.maxBytes/4 {
		for _, other := range p.devices {
			other.packed.shapes = nil // it would keep shapes that the table has let go of
		}
		p.packedBytes = size
	}
	if d.packed.shapes == nil || len(d.packed.shapes) >= maxPackedShapes {
		d.packed.shapes = map[shapeOf]*chunk.Shape{}
	}
	c := p.set.translate(key)
	d.packed.shapes[key] = c
	return c
}

// translate gives the comm kernels of a shape their groups. Where all have one, or there are none, it is the shape itself.
func (c *common) translate(of shapeOf) *chunk.Shape {
	shape := &of.shape.Shape
	for i := range shape.Positions {
		at := &shape.Positions[i]
		if at.Class != span.Comm || at.Group != "" {
			continue
		}
		if group, by := c.group(at, &of); group != "" {
			if shape == &of.shape.Shape {
				shape = &chunk.Shape{Hash: shape.Hash, Positions: slices.Clone(shape.Positions)}
			}
			shape.Positions[i].Group, shape.Positions[i].GroupBy = group, by
		}
	}
	return shape
}

// group is the group of ranks that a comm kernel of no known communicator communicates with, and what says so.
func (c *common) group(at *step.Position, of *shapeOf) (group string, by chunk.GroupBy) {
	if of.group != "" {
		return of.group, chunk.GroupText
	}
	if group = c.groups.Call(of.rank, at.Call, at.Op, at.Name); group != "" {
		by = chunk.GroupSetting
	}
	return group, by
}

// outsideStep returns the step that stands for kernels outside any, for a run told of in a frame.
func (d *deviceState) outsideStep(r *cupti.Run, frame uint64) *step.Step {
	if d.packed.unattributed == nil {
		d.packed.unattributed, d.packed.first = step.Outside(d.id), frame
	}
	d.packed.first = min(d.packed.first, frame)
	r.Ordinal = d.packed.unattributed.Parts()
	return d.packed.unattributed
}

// packLate takes kernels that came too late for their step: they are in the archive all the same.
func (p *Process) packLate(d *deviceState, r cupti.Run, frame uint64, c cupti.Clock) {
	for i := range r.Records {
		one := cupti.Run{Device: r.Device, Records: r.Records[i : i+1]}
		s := d.outsideStep(&one, frame)
		o := p.names.Take(one, c, s.Recorded())
		s.Took(one, &o)
	}
}

// packOutside packs the kernels outside any step that came, and the copies whose steps are final.
func (p *Process) packOutside() {
	for _, d := range p.devices {
		if s := d.packed.unattributed; s != nil && len(s.Recorded().Spans) > 0 {
			p.steps.Finish(s)
			rank := d.rank
			c := p.chunkStep(s, p.set.translate(shapeOf{shape: s.Shape, rank: rank}))
			c.Outside = true
			p.add(d, rank, d.packed.first, &c)
		}
		d.packed.unattributed = nil // without a kernel that can be believed it holds nothing back either
		p.releaseCopies(d, p.accountEnded)
	}
}

// Cut makes chunks of all that is packed.
func (p *Process) Cut() {
	if !p.set.archive || !p.who.settled {
		return
	}
	p.packOutside()
	for _, d := range p.devices {
		if d.packed.packer != nil {
			d.packed.packer.Count(p.chunkCounts(d))
			if p.accountEnded {
				d.packed.packer.End()
			} else {
				d.packed.packer.Cut()
			}
		}
	}
}

// packedBooks are what became of what was packed.
type packedBooks struct {
	packed   records // all
	sealed   records // in chunks that wait for the pipeline
	consumed records
	refused  records // by the pipeline, for good
}

// waiting is what lies in the open chunk, and in those that wait for the pipeline.
func (d *packed) waiting() records {
	n := d.books.sealed
	if d.packer != nil {
		kernels, copies := d.packer.Open()
		n.add(records{uint64(kernels), uint64(copies)})
	}
	return n
}
