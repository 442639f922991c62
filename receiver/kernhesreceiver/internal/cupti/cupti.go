// Package cupti joins what CUPTI delivered of one process: kernel records to the launch that
// made them, and nodes of executable graphs to the call in which they were captured.
package cupti

import (
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

// Slack is how much earlier than its launch a kernel may seem to start, in ns: GPU and host clocks
// agree to some 20 µs.
const Slack = 100_000

// Limits bound a Joiner.
type Limits struct {
	Names    int // strings, of averageName bytes on average
	Graphs   int
	Nodes    int // of graphs
	Launches int // that wait for records
	Recent   int // launches kept after their end
}

// DefaultLimits hold some 150 MB at the worst.
var DefaultLimits = Limits{Names: 65_536, Graphs: 1 << 16, Nodes: 1 << 21, Launches: 1 << 18, Recent: 1 << 15}

// averageName is how many bytes of text a string may have on average: the longest demangled names of real kernels have some 1,000,
// and few of a session's names are such.
const averageName = 256

// An Invalid is why a record's timestamps cannot be believed.
type Invalid uint8

// Reasons of invalid timestamps.
const (
	Zero Invalid = iota
	Backward
	TooLong
	Future
	invalids
)

// hour is the longest kernel, and the furthest future, that is believed, in ns.
const hour = 3600e9

// Counts of launches since the session began.
type Counts struct {
	Launches, Captured uint64
	Unfulfilled        uint64 // given up without all their records
	Unchecked          uint64 // replays of graphs of which nobody can say how many kernels they give
}

// Refused counts what did not fit the limits.
type Refused struct {
	Names    uint64
	Nodes    uint64
	Launches uint64 // given up before their time
}

// A Joiner holds what later records of a process rest on. It is not safe for concurrent use.
type Joiner struct {
	Counts  Counts
	Refused Refused

	classify func(name string) (class span.Class, fused, ruled bool)
	class    func(call, id uint32, name *Name) span.Class
	rules    uint32 // changes when classify does
	classes  uint32 // changes when class may say something else
	limits   Limits
	names    map[uint32]*Name
	text     int  // bytes in names
	unknown  Name // stands for kernel names that the shim could not give
	graphs   map[uint32]*Graph

	nodes     int // in graphs
	serial    uint64
	forgotten []*Graph

	calls      callSpans          // whose launches came
	launches   map[uint32]*Launch // by correlation id
	open       []*Launch          // in order of time, those from openHead on
	recent     []*Launch          // ended, in order of their end, those from recentHead on
	openHead   int
	recentHead int
	waiting    int
	spare      []*Launch
	marks      int    // words of the bit sets of all launches, spare ones too
	newest     uint64 // latest launch time of which records came, unix ns
	started    uint64 // latest start of a record that came, unix ns
}

// New returns a Joiner that classes kernel names by classify. What a kernel with a name, by its string id, counts as in
// a call is asked of class.
func New(limits Limits, classify func(name string) (class span.Class, fused, ruled bool), class func(call, id uint32, name *Name) span.Class) *Joiner {
	return &Joiner{
		classify: classify, class: class, rules: 1, classes: 1, limits: limits,
		names: map[uint32]*Name{}, graphs: map[uint32]*Graph{}, launches: map[uint32]*Launch{},
	}
}

// A Run is records in a row of one launch on one device.
type Run struct {
	Launch  *Launch // nil: its launch is not known
	Device  uint16
	Ordinal uint32 // of the launch in its step, or of the run among those outside any
	Records []wire.Kernel
}

// Run takes the longest run off the front of records, of which there must be one.
func (j *Joiner) Run(records []wire.Kernel) Run {
	first := &records[0]
	correlation, device := first.Correlation(), first.Device()
	head := j.launches[correlation]
	l := head
	// A record belongs to the latest use of its correlation id that was launched before it started.
	for start := first.Start(); l != nil && (l.state == captured || start != 0 && start+Slack < l.Time); {
		l = l.older
	}
	n := 1
	if l != nil && head.older == nil {
		for n < len(records) && records[n].Correlation() == correlation && records[n].Device() == device {
			n++
		}
	}
	r := Run{Launch: l, Device: device, Records: records[:n]}
	if l != nil {
		r.Ordinal = l.Ordinal
	}
	return r
}

// Columns are kernels in the order in which their records came.
type Columns struct {
	Spans []span.Span
	// Refs order the kernels of a step whatever their times: ordinal of the launch << 32 | position
	// of the node in its graph.
	Refs   []uint64
	Called int // those that have a call
	Comm   int // those of class comm

	// Extent of what was appended since it was last cleared.
	Extent span.Extent
	// Unordered says that the refs are not in order.
	Unordered bool
}

// An Outcome says what became of the records of a run.
type Outcome struct {
	Taken     int
	Late      int // of a launch that was given up before
	Duplicate int
	Invalid   [invalids]int
	Static    wire.Static // of the last one taken
	Name      *Name       // of the last one taken
	Ended     bool        // the launch has all its records now
}

// Bad is how many records had invalid timestamps.
func (o *Outcome) Bad() (n int) {
	for _, k := range o.Invalid {
		n += k
	}
	return n
}

// Take joins a run and appends what is sound to columns; nil columns say that its step is over, so
// that what still comes is late. now is the host's time, unix ns.
func (j *Joiner) Take(r Run, now uint64, to *Columns) (o Outcome) {
	switch l := r.Launch; {
	case l == nil:
		j.takeEach(r, now, to, &o)
	case l.state == expired:
		o.Late = len(r.Records)
	case l.Graph && r.Records[0].Node() != 0:
		j.takeReplay(r, now, to, &o)
	case l.Graph:
		l.got += len(r.Records)
		j.takeEach(r, now, to, &o)
	case l.state == done:
		o.Duplicate = len(r.Records)
	default:
		l.got++
		o.Duplicate = len(r.Records) - 1
		r.Records = r.Records[:1]
		j.takeEach(r, now, to, &o)
		if l.Label != 0 && to != nil {
			to.Called += o.Taken
		}
	}
	if l := r.Launch; l != nil && l.state == open {
		j.newest = max(j.newest, l.Time)
		if l.complete() {
			j.end(l, done)
			o.Ended = true
		}
	}
	return o
}

// takeEach appends records that stand for themselves.
func (j *Joiner) takeEach(r Run, now uint64, to *Columns, o *Outcome) {
	ref := uint64(r.Ordinal) << 32
	call := uint32(0)
	if r.Launch != nil {
		call = r.Launch.Label
	}
	for i := range r.Records {
		k := &r.Records[i]
		start, end := k.Start(), k.End()
		if !sound(start, end, now) {
			o.Invalid[fault(start, end)]++
			continue
		}
		if to == nil {
			o.Late++
			continue
		}
		o.Taken++
		o.Static = k.Static()
		o.Name = j.Kernel(k.Name())
		to.Add(span.Make(start, end, j.class(call, k.Name(), o.Name)), ref)
		j.saw(start, end, r.Launch)
	}
}

// takeReplay appends records of a graph's nodes. It is the loop that nearly all records go through.
func (j *Joiner) takeReplay(r Run, now uint64, to *Columns, o *Outcome) {
	l := r.Launch
	ref := uint64(r.Ordinal) << 32
	var g *Graph
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
		if !ok || !g.Nodes[p].kernel {
			if p, ok = j.unforeseen(g, uint32(node)); !ok {
				p = len(g.Nodes) + l.got
			}
		}
		if g == l.graph && !j.mark(l, p) {
			o.Duplicate++
			continue
		}
		l.got++
		start, end := k.Start(), k.End()
		if !sound(start, end, now) {
			o.Invalid[fault(start, end)]++
			continue
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
	if g.classes != j.classes {
		j.reclass(g)
	}
	if l.graph == nil {
		l.graph = g
	} else if l.graph != g {
		l.graph.guessed = true // nodes of child graphs: the count says nothing
	}
	return g
}

// unforeseen takes a kernel of a node that was not captured in a launch call, or not seen at all.
func (j *Joiner) unforeseen(g *Graph, low uint32) (int, bool) {
	g.guessed = true
	p, ok := g.position(low)
	if !ok {
		if j.nodes >= j.limits.Nodes {
			j.Refused.Nodes++
			return 0, false
		}
		j.nodes++
		g.add(low)
		p = len(g.Nodes) - 1
	}
	g.set(&g.Nodes[p], g.Nodes[p].Label, g.Nodes[p].Comm, true)
	return p, true
}

// Copy takes a copy record that belongs to a graph launch, which may be all that tells which graph; each later replay of
// that must have one of its node. It returns the launch if that has ended thereby.
func (j *Joiner) Copy(c *wire.Copy) *Launch {
	l := j.launches[c.Correlation()]
	if l == nil || !l.Graph || l.state != open && l.state != done || c.Node() == 0 {
		return nil
	}
	if l.graph == nil {
		l.graph = j.graphs[uint32(c.Node()>>32)]
	}
	if g := l.graph; g != nil && g.ID == uint32(c.Node()>>32) {
		if p, ok := g.position(uint32(c.Node())); ok && !g.Nodes[p].kernel && j.mark(l, p) {
			l.moved++
			if n := &g.Nodes[p]; !n.copy {
				n.copy = true
				g.copies++
			}
		}
	}
	if l.state != open || !l.complete() {
		return nil
	}
	j.end(l, done)
	return l
}

// Copy appends the time of a copy, or says why it cannot be believed. now is the host's time, unix ns.
func (c *Columns) Copy(r *wire.Copy, now uint64) (why Invalid, bad bool) {
	start, end := r.Start(), r.End()
	if !sound(start, end, now) {
		return fault(start, end), true
	}
	c.Add(span.Make(start, end, span.Copy), 0)
	return 0, false
}

// Sound reports whether a copy's times can be believed.
func Sound(r *wire.Copy, now uint64) bool { return sound(r.Start(), r.End(), now) }

// Add appends a span with its ref.
func (c *Columns) Add(s span.Span, ref uint64) {
	if n := len(c.Refs); n > 0 && ref < c.Refs[n-1] {
		c.Unordered = true
	}
	c.Extent.Add(s)
	c.Spans = append(c.Spans, s)
	c.Refs = append(c.Refs, ref)
	if s.Class() == span.Comm {
		c.Comm++
	}
}

func (j *Joiner) saw(start, end uint64, l *Launch) {
	j.started = max(j.started, start)
	if l != nil {
		l.last = max(l.last, end)
	}
}

// sound reports whether a record's times can be believed.
func sound(start, end, now uint64) bool {
	return start != 0 && end >= start && end-start <= hour && start <= now+hour && end < span.Limit
}

// fault says why times that are not sound cannot be believed.
func fault(start, end uint64) Invalid {
	switch {
	case start == 0 || end == 0:
		return Zero
	case end < start:
		return Backward
	case end-start > hour:
		return TooLong
	}
	return Future
}
