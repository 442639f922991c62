package engine

import (
	"slices"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/cupti"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/ranges"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/step"
)

// Bounds of what names the steps of copies.
const (
	maxHeldCopies = 1 << 16 // of a device; further ones are packed without the step that they were launched in
	maxNamed      = 1 << 12 // final steps of a device whose numbers are remembered
)

// A stepName is what the archive calls a step.
type stepName struct {
	seq        int64
	occurrence uint32
}

// heldCopies are the copies of a device whose steps are not final, so that their numbers are not known:
//
//	record ──hold──▶ held ──release, with each flush──▶ packed, with the step's number if it has one
type heldCopies struct {
	copies []heldCopy
	named  map[ranges.ID]stepName // final steps
	order  []ranges.ID            // of named, oldest first
}

type heldCopy struct {
	chunk.Copy
	frame uint64 // that it came in
}

// final notes what a step that is final is called.
func (h *heldCopies) final(id ranges.ID, name stepName) {
	if h.named == nil {
		h.named = map[ranges.ID]stepName{}
	}
	if len(h.order) >= maxNamed {
		for _, old := range h.order[:maxNamed/2] {
			delete(h.named, old)
		}
		h.order = slices.Delete(h.order, 0, maxNamed/2)
	}
	h.named[id] = name
	h.order = append(h.order, id)
}

// first is the first frame that held copies rest on; false: there are none.
func (h *heldCopies) first() (frame uint64, ok bool) {
	for i := range h.copies {
		if f := h.copies[i].frame; !ok || f < frame {
			frame, ok = f, true
		}
	}
	return frame, ok
}

// bytes is about what held copies take.
func (h *heldCopies) bytes() int { return 80 * len(h.copies) }

// packCopies takes copy records of a device.
func (p *Process) packCopies(d *deviceState, records []wire.Copy, frame uint64, clock cupti.Clock) {
	h := &d.packed.held
	for i := range records {
		r := &records[i]
		if p.names.Sound(r, clock) {
			h.copies = append(h.copies, heldCopy{chunk.Copy{
				Start: r.Start(), Dur: r.End() - r.Start(), Bytes: r.Bytes(), Node: r.Node(), Correlation: r.Correlation(), Stream: r.Stream(),
				Memset: r.Kind() == wire.CopyMemset, Kind: r.CopyKind(),
			}, frame})
		}
	}
	if len(h.copies) > maxHeldCopies {
		p.settle()
		p.releaseCopies(d, true)
	}
}

// releaseCopies packs the copies of a device whose steps are final, or that are of none; all packs the others too.
func (p *Process) releaseCopies(d *deviceState, all bool) {
	h := &d.packed.held
	kept := h.copies[:0]
	var copies []chunk.Copy
	for i := range h.copies {
		c := &h.copies[i]
		owner, known := p.names.CallOwner(c.Correlation)
		name, named := h.named[owner]
		switch {
		case owner != 0 && named:
			c.InStep, c.Seq, c.Occurrence = true, name.seq, name.occurrence
		case !all && (!known && p.steps.Opened() > 0 || owner != 0 && p.unfinished(d, owner)):
			kept = append(kept, *c)
			continue
		}
		copies = append(copies, c.Copy)
		d.packed.open.with(c.frame)
	}
	h.copies = kept
	if len(copies) == 0 {
		return
	}
	packer := p.packer(d, d.rank)
	d.packed.books.packed.copies += uint64(len(copies))
	frames := d.packed.open
	packer.AddCopies(copies)
	d.packed.open.with(uint64(frames)) // their end lies in the packer, whatever was cut before
}

// unfinished reports whether a step of a device is open, or closed and not final.
func (p *Process) unfinished(d *deviceState, id ranges.ID) bool {
	return p.steps.IsOpen(id) || slices.ContainsFunc(d.closed, func(s *step.Step) bool { return s.ID == id })
}

// stepCopies counts the copies of a device by the step in which they were launched, until the step is final.
type stepCopies struct {
	undecided []uint32 // correlation ids, as they came
	steps     map[ranges.ID]uint64
}

// came takes a copy. Of more than are held back, the oldest count for no step.
func (c *stepCopies) came(correlation uint32) {
	if len(c.undecided) >= maxHeldCopies {
		c.undecided = slices.Delete(c.undecided, 0, maxHeldCopies/2)
	}
	c.undecided = append(c.undecided, correlation)
}

// copiesOf is how many copies of a device were launched in a step that becomes final.
func (p *Process) copiesOf(d *deviceState, id ranges.ID) uint64 {
	c := &d.stepCopies
	c.undecided = slices.DeleteFunc(c.undecided, func(correlation uint32) bool {
		owner, known := p.names.CallOwner(correlation)
		if owner != 0 && p.unfinished(d, owner) {
			if c.steps == nil {
				c.steps = map[ranges.ID]uint64{}
			}
			c.steps[owner]++
		}
		return known || owner != 0
	})
	n := c.steps[id]
	delete(c.steps, id)
	return n
}

// copies takes copy and memset records.
func (p *Process) copies(f wire.Frame) error {
	records, err := wire.Copies(f.Body)
	if err != nil {
		return err
	}
	p.shim.copies.heard += uint64(len(records))
	c := p.present()
	isEarly := func(r wire.Copy) bool { return cupti.IsEarly(&r, c) }
	if slices.ContainsFunc(records, isEarly) {
		e := early{frame: f.Number}
		var rest []wire.Copy
		for _, r := range records {
			if isEarly(r) {
				e.copies = append(e.copies, r)
			} else {
				rest = append(rest, r)
			}
		}
		p.early = append(p.early, e)
		records = rest
	}
	p.takeCopies(records, f.Number, c)
	return nil
}

// takeCopies takes copy and memset records that a frame brought.
func (p *Process) takeCopies(records []wire.Copy, frame uint64, clock cupti.Clock) {
	for i := range records {
		c := &records[i]
		if p.fits(c.Device()) {
			p.copy(c, frame, clock)
		} else {
			p.overDevices.copies++
			p.dropped[books.SessionLimit]++
		}
		if l := p.names.Copy(c, clock); l != nil {
			p.launchEnded(l)
		}
	}
	for n := 0; p.set.archive && len(records) > 0; records = records[n:] {
		for n = 1; n < len(records) && records[n].Device() == records[0].Device(); n++ {
		}
		if p.fits(records[0].Device()) {
			p.packCopies(p.device(records[0].Device()), records[:n], frame, clock)
		}
	}
}

// copy takes a copy on its device.
func (p *Process) copy(c *wire.Copy, frame uint64, clock cupti.Clock) {
	d := p.device(c.Device())
	p.recorded()
	if p.set.totals {
		d.stepCopies.came(c.Correlation())
	}
	d.copies[chunk.CopyName(c.Kind() == wire.CopyMemset, c.CopyKind())]++
	p.ledger.note(frame, Unattributed{Copies: 1})
	if len(d.copying.Spans) >= outsideRun {
		d.copying = &cupti.Columns{}
	}
	added, why, bad := p.names.CopyTo(d.copying, c, clock)
	if bad {
		d.badCopies[InvalidReasons[why]]++
		return
	}
	d.account.Add(0, added) // a late copy is none of the kernels that are counted
}
