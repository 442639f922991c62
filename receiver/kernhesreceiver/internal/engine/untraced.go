package engine

import (
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/hooks"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/pace"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/ranges"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/step"
)

// paceKey is the labels of a step's metrics.
func (c *common) paceKey(s *ranges.Step) pace.Key {
	key := c.labels(s)
	return pace.Key{Program: key.program, Batch: key.batch, KV: key.kv}
}

// paced takes the push of a step's range.
func (p *Process) paced(id ranges.ID, s *ranges.Step, e wire.Event) {
	key := p.set.paceKey(s)
	if s.HasSeq {
		p.hooks.Pushed(uint64(s.Seq), id, key)
	}
	level := p.pace.Push(id, e.Thread(), key, e.Time())
	p.steps.Within(id, level)
	if e.Kind() == wire.EventPush && level == 1 {
		p.places.pushed(e.Thread(), e.Domain(), e.Depth())
	}
}

// rangesEnded takes the ends of steps' ranges. The end of the last was seen, unix ns, unless it is 0; those of the others were lost.
func (p *Process) rangesEnded(at uint64, ids ...ranges.ID) {
	for i, id := range ids {
		end := uint64(0)
		if i == len(ids)-1 {
			end = at
		}
		p.pace.Pop(id, end)
		p.steps.Popped(id, end)
		p.stepPopped(id, end)
	}
}

// payload takes binary data that came with a range, or a mark.
func (p *Process) payload(e wire.Event) {
	if !p.hooks.Follows(e) {
		p.nccl.Payload(e)
		return
	}
	said := p.hooks.Take(e)
	if said.Step == nil {
		return
	}
	if said.Measured {
		p.pace.Measured(said.Step.Key, said.Device)
		p.stepMeasured(said.Step.ID, said.Device)
	}
	id := said.Step.ID
	if p.steps.IsOpen(id) {
		p.hooks.Counts.Refused += p.steps.Said(id, said.Device, said.Requests, hooks.MaxRequests)
		return
	}
	for _, d := range p.devices {
		for _, s := range d.closed {
			if s.ID == id && said.Measured {
				s.Issued.Device = said.Device
			}
		}
	}
}

// awaited reports whether a closed step is not final because its time on the device is still to come.
func (p *Process) awaited(s *step.Step) bool {
	return s.HasSeq && p.hooks.Awaits(uint64(s.Seq), s.ID, s.Issued.Pop, p.watermark)
}

// deviceOf is the device of a closed step. Of one without a kernel no record says it: it is supposed to be one that is known,
// or else that of the process's rank in NCCL's world communicator, or the first.
func (p *Process) deviceOf(s *step.Step) *deviceState {
	if len(s.Recorded().Spans) > 0 {
		return p.device(s.Device)
	}
	if i, known := p.findDevice(s.Device); known {
		return p.devices[i]
	}
	if p.main == nil {
		id := uint16(0)
		if w := p.nccl.World(); w.OK && w.Device > 0 && w.Device < 1<<16 {
			id = uint16(w.Device)
		}
		p.supposed = p.device(id)
	}
	return p.main
}

// suppose takes the number of the device of the process's first record, or first step with a kernel. If steps were on a supposed
// device before, it was this one.
func (p *Process) suppose(id uint16) {
	d := p.supposed
	p.supposed = nil
	if d.id == id {
		return
	}
	for rank, owner := range p.who.texts {
		if owner.device == d.id {
			p.who.texts[rank] = rankOwner{id, owner.exclusive}
		}
	}
	d.id, d.source, d.packed.stale = id, nil, true
}
