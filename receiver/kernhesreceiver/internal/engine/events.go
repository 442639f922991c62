package engine

import (
	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/cupti"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/nccl"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/ranges"
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
		p.rangesEnded(e.Time(), p.ranges.Pop(thread, e.Domain(), e.Depth())...)
		if p.nccl.Follows(e.Domain()) {
			joined(p.names, p.nccl.Pop(thread, e.Depth()))
		}
	case wire.EventStart:
		if id, s := p.ranges.Start(e.Range(), e.Domain(), p.text(e), e.Time()); id != 0 {
			p.open(id, s, e, f)
		}
	case wire.EventEnd:
		p.rangesEnded(e.Time(), p.ranges.End(e.Range()))
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
		p.hooks.Domain(e.Domain(), string(text))
	case wire.EventSchema:
		p.nccl.Schema(e)
	case wire.EventPayload:
		p.payload(e)
	case wire.EventTracingOn:
		p.windowOpened(e)
	case wire.EventTracingOff:
		p.windowClosed(e)
	}
}

// joined takes what the launches and the graph nodes of an NCCL group communicate.
func joined(names *cupti.Joiner, all []nccl.Joined) {
	for _, j := range all {
		if j.Node != 0 {
			names.NodeCommunicates(j.Node, j.Call)
		} else {
			names.LaunchCommunicates(j.Correlation, j.Call)
		}
	}
}

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
	p.rangesEnded(0, ended...)
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
	p.paced(id, &s, e)
	if e.Kind() == wire.EventPush {
		p.stepPushed(id, s, e.Thread(), e.Time())
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
		p.pace.Count(p.set.paceKey(&s))
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
