package engine

import (
	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/internal/model"
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/cupti"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/ranges"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/step"
)

// kernels takes kernel records.
func (p *Process) kernels(f wire.Frame) error {
	p.acted()
	records, err := wire.Kernels(f.Body)
	if err != nil {
		return err
	}
	p.shim.kernels.heard += uint64(len(records))
	now := p.present()
	for first := true; len(records) > 0; first = false {
		if !first {
			p.between()
		}
		n := min(part, len(records))
		p.takeKernels(records[:n], f.Number, now)
		records = records[n:]
		if len(p.names.Early) > 0 {
			p.early = append(p.early, early{frame: f.Number, kernels: p.names.Early})
			p.names.Early = nil
		}
	}
	return nil
}

// takeKernels takes kernel records that a frame brought.
func (p *Process) takeKernels(records []wire.Kernel, frame uint64, c cupti.Clock) {
	for len(records) > 0 {
		run := p.names.Run(records)
		records = records[len(run.Records):]
		if run.Records = p.names.PutOff(run, c); len(run.Records) == 0 {
			continue
		}
		if p.fits(run.Device) {
			p.run(run, frame, c)
		} else {
			p.leave(run, c)
		}
	}
}

// run takes the records of one launch on one device.
func (p *Process) run(r cupti.Run, frame uint64, c cupti.Clock) {
	d := p.device(r.Device)
	p.recorded()
	l := r.Launch
	if l != nil {
		frame = l.Frame
	}
	again := l == nil && p.settledBefore(r.Records[0].Correlation())
	s, to, owner := p.place(d, &r, frame, again)
	o := p.names.Take(r, c, to)

	d.kernels += uint64(len(r.Records))
	settled := model.Settled{Late: uint64(o.Late), Duplicate: uint64(o.Duplicate), Invalid: uint64(o.Bad())}
	for i, n := range o.Invalid {
		if n > 0 {
			d.invalid[InvalidReasons[i]] += uint64(n)
		}
	}
	if to != nil {
		d.commKernels += uint64(o.Comm)
		d.lastKernelEnd = max(d.lastKernelEnd, o.Extent.End)
		if s != nil {
			s.Took(r, &o)
		}
		p.recordedIn(d, l, o.Extent.First)
		late := d.account.Add(owner, o.Added)
		if owner == 0 && !again {
			p.cover(d, l, &o)
		}
		switch {
		case owner != 0:
			d.kernelsWithCall += uint64(o.Called)
		case again:
			d.became.Duplicate += uint64(o.Taken)
			d.settledBefore += uint64(o.Taken)
		default:
			settled.Outside += uint64(o.Taken) - late
			settled.Late += late
		}
	} else if p.set.archive && o.Late == len(r.Records) {
		p.packLate(d, r, frame, c)
	}
	d.became.Add(settled)
	if !again {
		p.ledger.note(frame, Unattributed{Settled: settled})
	}
	if l != nil && l.Around != 0 && to != nil {
		around(p.ranges, l.Around, o.Spans())
	}
	if o.Ended {
		p.launchEnded(l)
	}
}

// around counts kernels for the ranges around their launch, of which none is a step's.
func around(of *ranges.Tracker, id uint32, kernels []span.Span) {
	var ns uint64
	for _, k := range kernels {
		ns += k.End() - k.Start
	}
	of.Launched(id, uint64(len(kernels)), ns)
}

// leave takes records of one launch on a device too many. They count for their launch, which need not be waited for.
func (p *Process) leave(r cupti.Run, c cupti.Clock) {
	n := uint64(len(r.Records))
	p.overDevices.kernels += n
	if r.Launch != nil || !p.settledBefore(r.Records[0].Correlation()) {
		p.dropped[books.SessionLimit] += n
	}
	if o := p.names.Take(r, c, nil); o.Ended {
		p.launchEnded(r.Launch)
	}
}

// place says where the records of a run go: to columns, of a step if there is one to tell of them. The
// columns are nil if the step is closed.
func (p *Process) place(d *deviceState, r *cupti.Run, frame uint64, again bool) (s *step.Step, to *cupti.Columns, owner ranges.ID) {
	switch l := r.Launch; {
	case l != nil && l.Owner != 0:
		if s = p.steps.Step(l.Owner, d.id); s == nil {
			return nil, nil, l.Owner
		}
		return s, s.Recorded(), l.Owner
	case l != nil && l.Expired():
		return nil, nil, 0
	case p.set.archive && !again:
		s = d.outsideStep(r, frame)
		return s, s.Recorded(), 0
	}
	return nil, d.columns(), 0
}

// An early is records of a frame that end after the clock that there was: the clock of a flush will tell.
type early struct {
	frame   uint64
	kernels []wire.Kernel
	copies  []wire.Copy
}

// takeEarly takes the records that were put off, by the clock of a flush that followed them, unix ns.
func (p *Process) takeEarly(now uint64) {
	c := cupti.Clock{Now: now, Flushed: true}
	for _, e := range p.early {
		p.takeKernels(e.kernels, e.frame, c)
		p.takeCopies(e.copies, e.frame, c)
	}
	p.early = nil
}

// settledBefore reports whether a record whose launch is not known was launched before the snapshot:
// then an earlier collector had its launch and settled it. Correlation ids ascend modulo 2^32.
func (p *Process) settledBefore(correlation uint32) bool {
	return p.snapshot.Launches && int32(correlation-p.snapshot.Correlation) <= 0
}

// outsideRun is how many kernels outside any step share their columns.
const outsideRun = 4096

// columns is where kernels outside any step go.
func (d *deviceState) columns() *cupti.Columns {
	if len(d.outside.Spans) >= outsideRun {
		d.outside = &cupti.Columns{}
	}
	return d.outside
}
