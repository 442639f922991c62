package engine

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/cupti"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/device"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/step"
)

// flushed takes a heartbeat: the watermark advances, and with it device time and steps.
func (p *Process) flushed(body []byte) error {
	f, err := wire.ParseFlushed(body)
	if err != nil {
		return err
	}
	if f.Now < p.now && p.now-f.Now > cupti.Slack && f.Monotonic > p.monotonic {
		p.lost(p.now) // the clock was set back: what ran meanwhile cannot be placed
	}
	p.takeEarly(max(p.now, f.Now))
	p.now, p.monotonic, p.readable = f.Now, f.Monotonic, f.Readable
	p.useRules(p.set.rules.Latest())
	if f.Flushed == 0 {
		return nil
	}
	p.flushedUntraced(f.Flushed)
	p.names.Flushed(f.Flushed, p.set.stepTimeout, func(l *cupti.Launch) {
		p.launchEnded(l)
		if l.Expired() {
			p.stuck = p.stuck || p.idle() >= hungAfter
			p.lost(f.Flushed)
		}
	})
	p.losesUpTo(f.Flushed)
	w := f.Flushed
	if oldest, _, ok := p.names.Oldest(); ok {
		w = min(w, oldest)
	}
	p.advance(max(w, cupti.Slack) - cupti.Slack)
	if p.overdue() {
		p.settle()
	}
	p.lateWorld()
	if p.set.archive && p.who.settled {
		p.packOutside()
	}
	p.warnOfLimits()
	return nil
}

// lostRecords takes a loss that the shim saw.
func (p *Process) lostRecords(body []byte) error {
	l, err := wire.ParseLost(body)
	if err != nil {
		return err
	}
	reason := books.OnWire(l.Reason)
	p.dropped[reason] += l.Count
	if reason == books.ShimBuffer {
		p.shim.told(l.What, l.Count)
	}
	if l.What == wire.LostEvents {
		p.unsure = true
		p.nccl.Lost()
		p.pace.Broken()
	}
	p.lost(min(cmp.Or(l.To, p.now), p.clock()+3600e9))
	return nil
}

// advance moves the watermark, unix ns; it never goes back.
func (p *Process) advance(watermark uint64) {
	p.watermark = max(p.watermark, watermark)
	closed, abandoned := p.steps.Close(p.watermark, p.set.stepTimeout)
	for _, id := range abandoned {
		p.ranges.Close(id)
		p.pace.Pop(id, 0)
	}
	p.closed(closed)
	for _, d := range p.devices {
		d.account.Advance(p.watermark, p.set.stepTimeout)
		p.finalize(d, false)
		d.account.Settle(p.watermark, len(d.closed) > 0 || p.steps.Any(d.id))
	}
}

// closed lets closed steps wait until they are final, in order of their first start.
func (p *Process) closed(steps []*step.Step) {
	for _, s := range steps {
		d := p.deviceOf(s)
		d.closed = append(d.closed, s)
	}
	for _, d := range p.devices {
		slices.SortStableFunc(d.closed, func(a, b *step.Step) int {
			return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Number, b.Number))
		})
	}
}

// finalize settles the steps whose foreign compute can be known: the watermark has passed them, and
// steps that began earlier are closed, or do not close for a timeout.
func (p *Process) finalize(d *deviceState, all bool) {
	if len(d.closed) == 0 {
		return
	}
	underway := p.steps.Underway(d.id)
	n := 0
	for ; n < len(d.closed); n++ {
		s := d.closed[n]
		earlier, open := underway.Before(s.First)
		if !all && p.awaited(s) {
			break
		}
		if !all && !s.Untraced && (s.Last > p.watermark || open && p.watermark < s.Last+p.set.stepTimeout) {
			break
		}
		if len(s.Spans) > 0 {
			s.Foreign = d.account.Foreign(s.ID, s.Last, earlier)
		}
		p.final(d, s)
	}
	d.closed = slices.Delete(d.closed, 0, n)
}

// final counts a step.
func (p *Process) final(d *deviceState, s *step.Step) {
	p.settle()
	p.stepped(d)
	n := p.numbered(d, s)
	d.became.InSteps += uint64(len(s.Spans))
	d.coverage.Step(s.Shape.Cover, s.Spans)
	d.lastStep = max(d.lastStep, s.Last)
	if len(s.Spans) == 0 { // no record says when it was
		s.First = min(s.Begun, p.clock())
		s.Last = s.First
	}
	if s.Reason == step.RangeOpen {
		d.overlong++
	}
	switch {
	case s.Untraced:
		d.untraced++
		d.lastStep = max(d.lastStep, min(s.Issued.Pop, p.clock()))
	case s.Complete():
		d.complete++
		p.seriesOf(d, s).add(s)
	default:
		d.failed[s.Reason]++
	}
	// The rest of a step that an earlier collector had would be other spans under the same ids.
	if p.set.sink != nil && !s.Joined && !s.Untraced {
		if span, kept := p.set.sink.Take(p.finalStep(d, s, n)); kept && s.Complete() {
			p.seriesOf(d, s).Exemplar = Exemplar{span, s.Wall(), s.Last}
		}
	}
	if p.set.archive {
		p.pack(d, s, n)
	}
	if p.set.totals {
		p.totals = append(p.totals, OutboundStep{p.line(d, s, n), p.holds.add(s.Frame, nil)})
	}
}

// line is a step as the dump has it.
func (p *Process) line(d *deviceState, s *step.Step, n numbered) StepTotals {
	rank := d.stepRank(s)
	return StepTotals{
		Kind: "step", Run: p.info["run"], Session: SessionName(p.session),
		ID: fmt.Sprintf("%d/%d/%d", s.Begun, s.Thread, s.Device), Rank: rank, Device: int(s.Device),
		Seq: n.seq, Pairs: n.pairs, Text: s.Text, Program: s.Program, Vars: s.Vars,
		Kernels: uint64(len(s.Spans)), Called: uint64(s.Called), Copies: p.copiesOf(d, s.ID),
		ComputeNS: s.Compute, CommNS: s.ExposedComm, OverlapNS: s.Overlap, WallNS: s.Wall(), IdleNS: s.Idle,
		ForeignComputeNS: s.Foreign, Complete: s.Complete(), Untraced: s.Untraced, Reason: s.Reason,
		StartNS: s.First, EndNS: s.Last, Frame: p.lastFrame, Messages: s.Shape.Messages,
	}
}

// unheard is how long after the last that was heard of it an engine may have run, in ns, if it ends without a flush.
const unheard = 3600e9

// End closes what is open: the engine sent BYE, or is gone.
func (p *Process) End(gone bool) {
	if p.accountEnded {
		return
	}
	p.accountEnded = true
	p.pace.Finish()
	if !gone {
		p.windowGone(span.Limit)
		p.ranges.Finish()
	}
	waiting, open := step.MissingRecords, step.RangeOpen
	if gone {
		waiting, open = step.EngineGone, step.EngineGone
	}
	p.takeEarly(p.clock() + unheard)
	var lost uint64
	uncertain := false
	p.names.End(!gone, func(l *cupti.Launch) {
		uncertain = uncertain || l.Uncertain()
		if l.Expired() && (gone || !l.Uncertain()) {
			lost += uint64(l.Missing())
		} else {
			p.steps.LaunchEnded(l)
		}
	})
	p.missing += lost
	if lost > 0 && gone {
		p.dropped[books.EngineGone] += lost
	}
	if n := p.shim.kernels.missing + p.shim.copies.missing; n > 0 {
		p.dropped[books.Wire] += n
	}
	if lost > 0 || uncertain || p.gaps[device.Loss].open {
		p.lost(span.Limit)
	}
	if !p.traces.on() {
		p.unknown(span.Limit, p.traces.why)
	}
	p.watermark = span.Limit
	p.closed(p.steps.CloseAll(waiting, open))
	p.settle()
	for _, d := range p.devices {
		d.account.Finish()
		p.finalize(d, true)
	}
	p.Cut()
	p.leaveQuotas()
}
