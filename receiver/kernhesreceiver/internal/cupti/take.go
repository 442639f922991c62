package cupti

import (
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

// An Outcome says what became of the records of a run.
type Outcome struct {
	Taken     int
	Late      int // of a launch that was given up before
	Duplicate int
	Invalid   [invalids]int
	Static    wire.Static // of the last one taken
	Name      *Name       // of the last one taken
	Ended     bool        // the launch has all its records now

	Added      // what the columns gained; nothing where there are none
	Called int // of those that have a call
	Comm   int // of those of class comm
}

// Bad is how many records had invalid timestamps.
func (o *Outcome) Bad() (n int) {
	for _, k := range o.Invalid {
		n += k
	}
	return n
}

// Take joins a run and appends what is sound to columns; nil columns say that its step is over, so
// that what still comes is late.
func (j *Joiner) Take(r Run, c Clock, to *Columns) (o Outcome) {
	if to != nil {
		to.extent = span.Extent{}
		o.Columns, o.From, o.Called, o.Comm = to, len(to.Spans), -to.Called, -to.Comm
	}
	w := j.window(r.Launch, r.Records[0].Correlation(), c)
	switch l := r.Launch; {
	case l == nil:
		j.takeEach(r, w, to, &o)
	case l.state == expired:
		o.Late = len(r.Records)
	case l.Graph && r.Records[0].Node() != 0:
		j.takeReplay(r, w, to, &o)
	case l.Graph:
		l.got += len(r.Records)
		j.takeEach(r, w, to, &o)
	case l.state == done:
		o.Duplicate = len(r.Records)
	default:
		l.got++
		o.Duplicate = len(r.Records) - 1
		r.Records = r.Records[:1]
		j.takeEach(r, w, to, &o)
		if l.Label != 0 && to != nil {
			to.Called += o.Taken
		}
	}
	if l := r.Launch; l != nil && l.state == open && l.complete() {
		j.end(l, done)
		o.Ended = true
	}
	if to != nil {
		o.To, o.Extent = len(to.Spans), to.extent
		o.Called, o.Comm = o.Called+to.Called, o.Comm+to.Comm
	}
	return o
}

// takeEach appends records that stand for themselves.
func (j *Joiner) takeEach(r Run, w window, to *Columns, o *Outcome) {
	ref := uint64(r.Ordinal) << 32
	call := uint32(0)
	if r.Launch != nil {
		call = r.Launch.Label
	}
	for i := range r.Records {
		k := &r.Records[i]
		start, end := k.Start(), k.End()
		if !w.holds(start, end) {
			o.Invalid[w.fault(start, end)]++
			continue
		}
		j.saw(k, r.Launch, start, end)
		if to == nil {
			o.Late++
			continue
		}
		o.Taken++
		o.Static = k.Static()
		o.Name = j.Kernel(k.Name())
		to.Add(span.Make(start, end, j.class(call, k.Name(), o.Name)), ref)
	}
}

// saw takes note of when a kernel that stands for itself ran.
func (j *Joiner) saw(k *wire.Kernel, l *Launch, start, end uint64) {
	j.started = max(j.started, start)
	s := j.lane(k.Device(), k.Stream())
	if s != nil {
		s.ran(k.Correlation(), start, end)
	}
	if l != nil {
		l.last = max(l.last, end)
		if l.Graph {
			l.on(s)
		}
	}
}

// takeReplay appends records of a graph's nodes. It is the loop that nearly all records go through.
func (j *Joiner) takeReplay(r Run, w window, to *Columns, o *Outcome) {
	l := r.Launch
	ref := uint64(r.Ordinal) << 32
	var g *Graph
	stream := uint64(1 << 32) // none has that id
	if to != nil {
		to.grow(len(r.Records))
	}
	for i := range r.Records {
		k := &r.Records[i]
		node := k.Node()
		if g == nil || uint32(node>>32) != g.ID {
			if g = j.replayed(l, uint32(node>>32)); g == nil {
				o.Duplicate++ // beyond the limits there is nothing to tell it by
				continue
			}
		}
		p, ok := g.position(uint32(node))
		strange := !ok || g.Nodes[p].kind != launched // no launch call made the node of this graph
		if strange {
			if p, ok = j.unforeseen(g, uint32(node)); !ok {
				p = len(g.Nodes) + l.got
			}
		}
		if g == l.graph && !j.mark(l, p) {
			o.Duplicate++
			continue
		}
		l.got++
		if strange || g != l.graph {
			l.strange++
		}
		start, end := k.Start(), k.End()
		if !w.holds(start, end) {
			o.Invalid[w.fault(start, end)]++
			continue
		}
		if s := uint64(k.Stream()); s != stream {
			stream = s
			j.saw(k, l, start, end)
		}
		if to == nil {
			o.Late++
			continue
		}
		o.Taken++
		class := span.Compute
		if p < len(g.Nodes) {
			n := &g.Nodes[p]
			if s := k.Static(); s != n.Static {
				n.Static = s
				n.Class = j.class(n.Label, k.Name(), j.Kernel(k.Name()))
				g.Version++
			}
			class = n.Class
			if n.Label != 0 {
				to.Called++
			}
		}
		to.Add(span.Make(start, end, class), ref|uint64(uint32(p)))
		j.started = max(j.started, start)
		l.last = max(l.last, end)
	}
}

// replayed returns the graph that a record names, and makes it the one that its launch replays.
func (j *Joiner) replayed(l *Launch, id uint32) *Graph {
	g := j.graphs[id]
	if g == nil {
		g = j.graph(id, true)
	}
	if g == nil {
		return nil
	}
	if g.classes != j.classes {
		j.reclass(g)
	}
	if l.graph == nil {
		l.replays(g)
	} else if l.graph != g {
		l.graph.partial = true // nodes of child graphs: the count says nothing
	}
	return g
}

// unforeseen takes a kernel of a node that was not made in a launch call, or not seen at all.
func (j *Joiner) unforeseen(g *Graph, low uint32) (int, bool) {
	p, ok := g.position(low)
	if !ok {
		g.partial = true
		if j.Full || j.nodes >= j.limits.Nodes {
			j.Refused.Nodes++
			return 0, false
		}
		j.nodes++
		g.add(low)
		p = len(g.Nodes) - 1
	}
	if n := &g.Nodes[p]; n.kind != built {
		g.turn(n, built)
	}
	return p, true
}

// Copy takes a copy record. Of a graph launch it may be all that tells which graph; each later replay of that must have
// one of its node. It returns the launch if that has ended thereby.
func (j *Joiner) Copy(c *wire.Copy, clock Clock) *Launch {
	l := j.launches.get(c.Correlation())
	graph := l != nil && l.Graph && (l.state == open || l.state == done)
	if j.Sound(c, clock) {
		s := j.lane(c.Device(), c.Stream())
		if s != nil {
			s.ran(c.Correlation(), c.Start(), c.End())
		}
		if graph {
			l.last = max(l.last, c.End())
			l.on(s)
		}
	}
	if !graph || c.Node() == 0 {
		return nil
	}
	if g := j.graphs[uint32(c.Node()>>32)]; l.graph == nil && g != nil {
		l.replays(g)
	}
	if g := l.graph; g != nil && g.ID == uint32(c.Node()>>32) {
		if p, ok := g.position(uint32(c.Node())); ok && !g.Nodes[p].gives() && j.mark(l, p) {
			l.moved++
			if n := &g.Nodes[p]; n.kind != copied {
				g.turn(n, copied)
			}
		}
	}
	if l.state != open || !l.complete() {
		return nil
	}
	j.end(l, done)
	return l
}

// IsEarly reports whether a copy ends after the clock, so that a flush has to tell the time first.
func IsEarly(r *wire.Copy, c Clock) bool { return !c.Flushed && r.End() > c.latest() }

// Sound reports whether a copy's times can be believed.
func (j *Joiner) Sound(r *wire.Copy, c Clock) bool {
	return j.copyWindow(r, c).holds(r.Start(), r.End())
}

// CopyTo appends the time of a copy to columns and returns what they gained, or says why the time cannot be believed.
func (j *Joiner) CopyTo(to *Columns, r *wire.Copy, c Clock) (added Added, why Invalid, bad bool) {
	start, end := r.Start(), r.End()
	if w := j.copyWindow(r, c); !w.holds(start, end) {
		return Added{}, w.fault(start, end), true
	}
	from := len(to.Spans)
	to.Add(span.Make(start, end, span.Copy), 0)
	return to.Since(from), 0, false
}

// copyWindow is when a copy can have been. Nothing tells of the calls that make copies, but for launches of graphs.
func (j *Joiner) copyWindow(r *wire.Copy, c Clock) window {
	l := j.launches.get(r.Correlation())
	if l != nil && (!l.Graph || l.older != nil) {
		l = nil
	}
	return j.window(l, r.Correlation(), c)
}
