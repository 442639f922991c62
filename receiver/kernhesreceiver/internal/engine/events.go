package engine

import (
	"slices"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/model"
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/cupti"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/nccl"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/ranges"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/step"
)

// A graphMode watches a session that shows no step: from some launches and seconds on, each of its
// graph launches is a step, until a range is one.
type graphMode struct {
	on       bool
	off      bool // a range was a step
	first    uint64
	launches int
	next     ranges.ID
}

const (
	graphModeLaunches = 1000
	graphModeTime     = 10e9    // ns
	graphModeIDs      = 1 << 62 // its steps' ids are above those of ranges
)

// launched counts a launch at a time, unix ns, and reports whether graph launches are steps.
func (g *graphMode) launched(time uint64) bool {
	if g.off {
		return false
	}
	if g.launches == 0 {
		g.first = time
	}
	g.launches++
	g.on = g.on || g.launches > graphModeLaunches && time > g.first+graphModeTime
	return g.on
}

// event takes one event of a frame.
func (p *Process) event(e wire.Event, f wire.Frame) {
	if t := e.Time(); t != 0 {
		p.now = t
	}
	p.acted()
	thread := e.Thread()
	switch e.Kind() {
	case wire.EventPush:
		p.push(e, f)
	case wire.EventPop:
		p.rangesEnded(p.ranges.Pop(thread, e.Domain(), e.Depth())...)
		if p.nccl.Follows(e.Domain()) {
			p.joined(p.nccl.Pop(thread, e.Depth()))
		}
	case wire.EventStart:
		if id, s := p.ranges.Start(e.Range(), e.Domain(), p.text(e), e.Time()); id != 0 {
			p.open(id, s, e, f)
		}
	case wire.EventEnd:
		p.rangesEnded(p.ranges.End(e.Range()))
	case wire.EventLaunch:
		p.launch(e, f)
	case wire.EventCaptured:
		if l := p.names.Captured(e.Correlation()); l != nil {
			p.steps.LaunchEnded(l)
		}
	case wire.EventNodeCreated:
		p.names.NodeCreated(e.Node(), e.InLaunch(), e.NodeType(), p.ranges.Call(thread), p.nccl.Node(thread, e.Node(), e.InLaunch()))
	case wire.EventNodeCloned:
		p.names.NodeCloned(e.Node(), e.Clone())
	case wire.EventGraphForgotten:
		p.names.GraphForgotten(e.Graph())
	case wire.EventNodeForgotten:
		p.names.NodeForgotten(e.Node())
	case wire.EventDomain:
		_, text := e.Text()
		p.ranges.Domain(e.Domain(), wire.Text(text))
		p.nccl.Domain(e.Domain(), string(text))
	case wire.EventSchema:
		p.nccl.Schema(e)
	case wire.EventPayload:
		p.nccl.Payload(e)
	}
}

// joined takes what the launches and the graph nodes of an NCCL group communicate.
func (p *Process) joined(all []nccl.Joined) {
	for _, j := range all {
		if j.Node != 0 {
			p.names.NodeCommunicates(j.Node, j.Call)
		} else {
			p.names.LaunchCommunicates(j.Correlation, j.Call)
		}
	}
}

// acted takes note that the engine does something.
func (p *Process) acted() { p.active, p.stuck = p.now, false }

// text is the text of a PUSH or START.
func (p *Process) text(e wire.Event) string {
	id, text := e.Text()
	if id != 0 {
		return p.names.Text(id)
	}
	return wire.Text(text)
}

func (p *Process) push(e wire.Event, f wire.Frame) {
	text := p.text(e)
	if p.nccl.Follows(e.Domain()) {
		p.nccl.Push(e.Thread(), text, e.Depth())
	}
	if e.Thread() == wire.ThreadLabels && f.Pinned() {
		p.ranges.PushLabel(e.Thread(), e.Domain(), text)
		return
	}
	id, s, ended := p.ranges.Push(ranges.Push{
		Thread: e.Thread(), Domain: e.Domain(), Text: text, Depth: e.Depth(), Time: e.Time(), Again: f.Pinned(),
	})
	p.rangesEnded(ended...)
	if id != 0 {
		p.open(id, s, e, f)
	}
}

// open begins the step of a range.
func (p *Process) open(id ranges.ID, s ranges.Step, e wire.Event, f wire.Frame) {
	p.graphMode.off, p.graphMode.on = true, false
	frame := f.Number
	if f.Pinned() {
		frame = 1 // it was open before the snapshot: nothing after that is settled before it closes
	}
	p.occurred(id, s, e.Thread(), p.steps.Open(id, s, e.Thread(), e.Time(), frame, !p.unsure))
}

func (p *Process) rangesEnded(ids ...ranges.ID) {
	for _, id := range ids {
		p.steps.Ended(id)
	}
}

// launch takes a launch call.
func (p *Process) launch(e wire.Event, f wire.Frame) {
	l := cupti.Launch{
		Time: e.Time(), Frame: f.Number, Correlation: e.Correlation(), Graph: e.GraphLaunch(),
		Owner: p.ranges.Step(e.Thread()), Label: p.ranges.Call(e.Thread()),
		Comm: p.nccl.Launch(e.Thread(), e.Correlation()),
	}
	if l.Owner == 0 {
		l.Around = p.ranges.Around(e.Thread())
	}
	graphStep := p.graphMode.launched(l.Time) && l.Graph && l.Owner == 0
	if graphStep {
		p.graphMode.next++
		l.Owner = graphModeIDs + p.graphMode.next
		s := ranges.Step{Text: "graph", Program: "graph"}
		p.occurred(l.Owner, s, e.Thread(), p.steps.Open(l.Owner, s, e.Thread(), l.Time, f.Number, !p.unsure))
	}
	if l.Owner != 0 {
		var ok bool
		if l.Ordinal, ok = p.steps.Launched(l.Owner, l.Time); !ok {
			l.Owner = 0 // its step was given up before
		}
	}
	if graphStep {
		p.steps.Ended(l.Owner)
	}
	if ended := p.names.Launch(l); ended != nil {
		p.overLimit(ended)
		p.lost(l.Time)
	}
}

// launchEnded takes the end of a launch, in its step and in the count of records that never came.
func (p *Process) launchEnded(l *cupti.Launch) {
	p.steps.LaunchEnded(l)
	if l.Expired() {
		p.missing += uint64(l.Missing())
	}
}

// overLimit takes the end of a launch that a limit gave up.
func (p *Process) overLimit(l *cupti.Launch) {
	p.launchEnded(l)
	if l.Expired() {
		p.dropped[books.SessionLimit] += uint64(l.Missing())
	}
}

// kernels takes kernel records.
func (p *Process) kernels(f wire.Frame) error {
	p.acted()
	records, err := wire.Kernels(f.Body)
	if err != nil {
		return err
	}
	p.shim.kernels.heard += uint64(len(records))
	p.takeKernels(records, f.Number, p.present())
	if len(p.names.Early) > 0 {
		p.early = append(p.early, early{frame: f.Number, kernels: p.names.Early})
		p.names.Early = nil
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
		p.note(frame, Unattributed{Settled: settled})
	}
	if l != nil && l.Around != 0 && to != nil {
		p.around(l.Around, o.Spans())
	}
	if o.Ended {
		p.launchEnded(l)
	}
}

// around counts kernels for the ranges around their launch, of which none is a step's.
func (p *Process) around(ranges uint32, kernels []span.Span) {
	var ns uint64
	for _, k := range kernels {
		ns += k.End() - k.Start
	}
	p.ranges.Launched(ranges, uint64(len(kernels)), ns)
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

// clock is the engine's time, for judging timestamps by.
func (p *Process) clock() uint64 {
	if p.now == 0 {
		return p.since
	}
	return p.now
}

// present is the clock to judge the records of a frame by.
func (p *Process) present() cupti.Clock { return cupti.Clock{Now: p.clock()} }

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
	p.note(frame, Unattributed{Copies: 1})
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
