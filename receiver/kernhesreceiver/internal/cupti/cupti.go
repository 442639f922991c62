// Package cupti joins what CUPTI delivered of one process: kernel records to the launch that
// made them, and nodes of executable graphs to the call in which they were captured.
package cupti

import (
	"slices"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

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

// Counts of launches since the session began.
type Counts struct {
	Launches, Captured uint64
	Unfulfilled        uint64 // given up without all their records
	Unchecked          uint64 // replays of graphs whose kernel count is unknown
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

	// Full has new names, graphs and nodes refused, as if their limits were reached.
	Full bool

	// Early are records that PutOff kept. They are to be given to Run and Take again once a flush has told the time.
	Early []wire.Kernel

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

	calls      callSpans // whose launches came
	launches   table     // by correlation id
	open       []*Launch // in order of time, those from openHead on
	recent     []*Launch // ended, in order of their end, those from recentHead on
	openHead   int
	recentHead int
	waiting    int
	spare      []*Launch
	marks      int    // words of the bit sets of all launches, spare ones too
	started    uint64 // latest start of a record that came, unix ns

	history    history
	lanes      map[uint64]*lane // by device and stream
	recentLane *lane
}

// Bytes is about what names, graphs and launches take.
func (j *Joiner) Bytes() int {
	const name, graph, node, launch = 96, 192, 64, 224
	return j.text + name*len(j.names) + graph*len(j.graphs) + node*j.nodes + launch*(len(j.open)+len(j.recent)+len(j.spare)) + 8*j.marks
}

// New returns a Joiner that classes kernel names by classify. What a kernel with a name, by its string id, counts as in
// a call is asked of class.
func New(limits Limits, classify func(name string) (class span.Class, fused, ruled bool), class func(call, id uint32, name *Name) span.Class) *Joiner {
	return &Joiner{
		classify: classify, class: class, rules: 1, classes: 1, limits: limits,
		names: map[uint32]*Name{}, graphs: map[uint32]*Graph{}, lanes: map[uint64]*lane{},
	}
}

// A Run is records in a row of one launch on one device.
type Run struct {
	Launch  *Launch // nil: its launch is not known
	Device  uint16
	Ordinal uint32 // of the launch in its step, or of the run among those outside any
	Records []wire.Kernel
	last    uint64 // latest end of the records, unix ns
}

// Run takes the longest run off the front of records, of which there must be one.
func (j *Joiner) Run(records []wire.Kernel) Run {
	first := &records[0]
	correlation, device := first.Correlation(), first.Device()
	head := j.launches.get(correlation)
	// A record belongs to the latest use of its correlation id that was launched before it started. If it started before
	// all of them, its time is wrong, and it belongs to the latest.
	var l, latest *Launch
	for at, start := head, first.Start(); at != nil && l == nil; at = at.older {
		if at.state == captured {
			continue
		}
		if latest == nil {
			latest = at
		}
		if start == 0 || start+Slack >= at.Time {
			l = at
		}
	}
	if l == nil {
		l = latest
	}
	n, last := 1, first.End()
	if l != nil && head.older == nil {
		for n < len(records) && records[n].Correlation() == correlation && records[n].Device() == device {
			last = max(last, records[n].End())
			n++
		}
	}
	r := Run{Launch: l, Device: device, Records: records[:n], last: last}
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

	extent   span.Extent // of what is being appended
	expected int

	// Unordered says that the refs are not in order.
	Unordered bool
}

// Added is what columns gained.
type Added struct {
	Columns  *Columns
	From, To int // indices
	Extent   span.Extent
}

// Spans are the spans that were added.
func (a *Added) Spans() []span.Span { return a.Columns.Spans[a.From:a.To] }

// Since is what the columns gained from an index on.
func (c *Columns) Since(from int) Added {
	a := Added{Columns: c, From: from, To: len(c.Spans)}
	for _, s := range a.Spans() {
		a.Extent.Add(s)
	}
	return a
}

// Expect says how many kernels will come, at a guess: room is made for so many when the first comes, unless more come at once.
func (c *Columns) Expect(n int) { c.expected = n }

// grow makes room for n more at once: a replay has hundreds.
func (c *Columns) grow(n int) {
	if cap(c.Spans) == 0 {
		n = max(n, c.expected)
	}
	c.Spans = slices.Grow(c.Spans, n)
	c.Refs = slices.Grow(c.Refs, n)
}

// Add appends a span with its ref.
func (c *Columns) Add(s span.Span, ref uint64) {
	if n := len(c.Refs); n > 0 && ref < c.Refs[n-1] {
		c.Unordered = true
	}
	c.extent.Add(s)
	if len(c.Spans) == cap(c.Spans) {
		c.grow(1)
	}
	c.Spans = append(c.Spans, s)
	c.Refs = append(c.Refs, ref)
	if s.Class() == span.Comm {
		c.Comm++
	}
}
