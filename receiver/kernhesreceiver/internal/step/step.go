// Package step turns launched kernels into the steps in whose ranges they were launched.
//
//	         range ends                    last record comes
//	open ────────────────▶ ended, waiting ──────────────────▶ closed ──▶ final
//	 │                        │ a launch is given up             ▲       (device time has passed it,
//	 └── timeout by the       └──────────────────────────────────┤        earlier steps are closed)
//	     watermark ──────────────────────────────────────────────┘
package step

import (
	"slices"

	"github.com/kernhes/kernhes/internal/model"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/cupti"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/ranges"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

// Why a step is incomplete, as metrics say it.
const (
	MissingRecords = "missing_records" // a launch was given up
	EndUnknown     = "end_unknown"     // a replay whose kernel count is unknown was given up, and nothing showed its end
	RangeOpen      = "range_open"      // no end of its range came
	TooLarge       = "too_large"       // more kernels than a step may have
	EngineGone     = "engine_gone"     // the engine ended without bye
	JoinedLate     = "joined_late"     // it was open when the session was joined: its first launches were not heard
	NotTraced      = "not_traced"      // tracing was off for a part of it
	InvalidRecords = "invalid_records" // timestamps of some of its kernels cannot be believed
)

// MaxKernels is how many kernels a step may have; one that goes on is closed, incomplete.
const MaxKernels = 1 << 20

// MaxOpen is how many steps of a process may be open, or wait for records: engines issue some 1,000 a second, and wait ten.
const MaxOpen = 1 << 14

// Room is made for the kernels of a step before they come, so many at most, while few steps are open: else a step of one kernel
// would take as much memory as the largest.
const (
	maxRoom   = 1 << 16
	openSteps = 64
)

// openBytes is about what an open step takes without its kernels and text.
const openBytes = 512

// requestBytes is about what a request of a step takes; its texts are shared.
const requestBytes = 40

// A Step is what one step did on one device.
type Step struct {
	ranges.Step
	ID     ranges.ID
	Thread uint32
	Begun  uint64 // unix ns of its range's push
	Frame  uint64 // in which that came
	Number int64  // among the steps of its session, from 1
	Sure   bool   // all steps of the session before it were heard
	Joined bool   // it was open when the session was joined: an earlier collector had its first launches, or none had
	Device uint16
	// Occurrence counts the steps of the session with the seq of its text, from 0. Whoever numbers steps sets it.
	Occurrence uint32

	cupti.Columns        // in order of launch and node once the step is closed
	Shape         *Shape // of those kernels

	First, Last uint64 // unix ns: first start, last end; of a final step without kernels when its range began
	Compute     uint64 // ns: union of compute kernels
	ExposedComm uint64 // ns: what comm kernels add to that
	Overlap     uint64 // ns: comm under compute
	Idle        uint64 // ns: Wall less the union of both
	Foreign     uint64 // ns: compute of others since the latest end of an earlier step
	Reason      string // why it is incomplete, or untraced; empty: it is complete
	Untraced    bool   // nothing was traced while its range was open: it is neither complete nor incomplete
	Issued      model.Issued
	Requests    []model.StepRequest // as far as the engine says them

	recorded cupti.Columns // as it came: what device time reads
	parts    []part
	invalid  bool // records of it came whose timestamps cannot be believed: it has no span of those
}

// Wall is first start to last end, ns.
func (s *Step) Wall() uint64 { return s.Last - s.First }

// Complete reports whether each launch of the step has its records, all of them with a time. One that was not traced is
// neither that nor incomplete.
func (s *Step) Complete() bool { return s.Reason == "" && !s.Untraced }

// Recorded are the step's kernels in the order in which they came.
func (s *Step) Recorded() *cupti.Columns { return &s.recorded }

// An issue is one step range on all devices that it launched to.
type issue struct {
	info       ranges.Step
	id         ranges.ID
	thread     uint32
	begun      uint64
	frame      uint64
	number     int64
	sure       bool
	joined     bool
	ended      bool
	waiting    int // launches without all their records
	launches   uint32
	lastLaunch uint64
	reason     string
	occurrence uint32
	issued     model.Issued
	requests   []model.StepRequest
	devices    []*Step
	one        [1]*Step // what devices begins with
}

// An Assembler holds the open steps of a process. It is not safe for concurrent use.
type Assembler struct {
	Empty   uint64 // steps closed without a kernel, and without a launch that failed, while tracing was on
	Evicted uint64 // shapes that were dropped for new ones

	table *Table
	// override gives classes that more than names gives, and reports whether there are such.
	override func(program string, positions []Position, kernels []Kernel) (changed bool)

	names   func(id uint32) *cupti.Name
	class   func(call, id uint32, name *cupti.Name) span.Class
	fresh   int64 // number of the first step that began after classes changed
	calls   func(label uint32) string
	comms   func(id uint32) (group string, bytes uint64)
	recipes recipes

	issues  map[ranges.ID]*issue
	order   []*issue // in order of their ranges' push; closed ones are nil
	closed  int      // of those in order
	number  int64
	off     bool           // nothing is traced now
	device  uint16         // of the last step that got its first kernel
	byStart []span.Span    // scratch
	sizes   map[string]int // kernels of the last step of a program: what to make room for
}

// maxSizes bounds the programs whose steps' sizes are remembered.
const maxSizes = 1024

// NewAssembler returns an Assembler that interns shapes in table; names, calls and comms give what string ids, call labels
// and communications stand for, class what a kernel with a name counts as in a call. override may give kernels of a
// new shape other classes than their names do.
func NewAssembler(table *Table, names func(uint32) *cupti.Name, class func(call, id uint32, name *cupti.Name) span.Class, calls func(uint32) string,
	comms func(uint32) (group string, bytes uint64), override func(program string, positions []Position, kernels []Kernel) (changed bool)) *Assembler {
	return &Assembler{
		table: table, names: names, class: class, calls: calls, comms: comms, override: override,
		recipes: recipes{known: map[uint64]known{}},
		issues:  map[ranges.ID]*issue{}, sizes: map[string]int{},
	}
}

// Open begins a step and returns its number. sure says that all steps of the session before it were heard.
func (a *Assembler) Open(id ranges.ID, info ranges.Step, thread uint32, time, frame uint64, sure bool) int64 {
	a.number++
	is := &issue{
		info: info, id: id, thread: thread, begun: time, frame: frame, number: a.number, sure: sure, lastLaunch: time,
		issued: model.Issued{Push: time, Thread: thread},
	}
	if a.off {
		is.fail(NotTraced)
	}
	a.issues[id] = is
	a.order = append(a.order, is)
	return is.number
}

// Occurred says of an open step how often its seq came before.
func (a *Assembler) Occurred(id ranges.ID, occurrence uint32) {
	if is := a.issues[id]; is != nil {
		is.occurrence = occurrence
	}
}

// Traced says whether launches are seen from now on. A step whose range is open while they are not may lack some.
func (a *Assembler) Traced(on bool) {
	a.off = !on
	for _, is := range a.issues {
		if a.off && !is.ended {
			is.fail(NotTraced)
		}
	}
}

// Untraced reports whether a step is open of which a part was not traced.
func (a *Assembler) Untraced(id ranges.ID) bool {
	is := a.issues[id]
	return is != nil && is.reason == NotTraced
}

// Joined says that the session was heard before, up to now: of the steps that are open the first launches will not come.
func (a *Assembler) Joined() {
	for _, is := range a.issues {
		is.joined = true
		is.fail(JoinedLate)
	}
}

// Ended takes the end of a step's range.
func (a *Assembler) Ended(id ranges.ID) {
	if is := a.issues[id]; is != nil {
		is.ended = true
	}
}

// Popped takes the end of a step's range, unix ns; 0: it was not seen, but others show that it was.
func (a *Assembler) Popped(id ranges.ID, time uint64) {
	a.Ended(id)
	if is := a.issues[id]; is != nil {
		is.issued.Pop = time
	}
}

// Within says of an open step how many steps are open on its thread, itself counted.
func (a *Assembler) Within(id ranges.ID, level uint32) {
	if is := a.issues[id]; is != nil {
		is.issued.Level = level
	}
}

// Said takes what marks say of an open step: its time on a device, ns (0: not known), and requests. It returns how many requests
// are more than a step may have.
func (a *Assembler) Said(id ranges.ID, device uint64, requests []model.StepRequest, most int) (refused uint64) {
	is := a.issues[id]
	if is == nil {
		return 0
	}
	if device != 0 {
		is.issued.Device = device
	}
	n := min(len(requests), most-len(is.requests))
	is.requests = append(is.requests, requests[:n]...)
	return uint64(len(requests) - n)
}

// Launched takes a launch in a step and returns its ordinal there.
func (a *Assembler) Launched(id ranges.ID, time uint64) (ordinal uint32, ok bool) {
	is := a.issues[id]
	if is == nil {
		return 0, false
	}
	is.waiting++
	is.lastLaunch = max(is.lastLaunch, time)
	ordinal = is.launches
	is.launches++
	return ordinal, true
}

// LaunchEnded takes the end of a launch: all its records came, or it went into a graph, or was given up.
func (a *Assembler) LaunchEnded(l *cupti.Launch) {
	if is := a.issues[l.Owner]; is != nil {
		is.waiting--
		switch {
		case l.Uncertain():
			is.fail(EndUnknown)
		case l.Expired():
			is.fail(MissingRecords)
		}
	}
}

// Step is the open step's part on a device, or nil if the step is not open.
func (a *Assembler) Step(id ranges.ID, device uint16) *Step {
	is := a.issues[id]
	if is == nil {
		return nil
	}
	for _, s := range is.devices {
		if s.Device == device {
			return s
		}
	}
	a.device = device
	s := is.on(device)
	if n := min(a.sizes[is.info.Program], maxRoom); n > 0 && len(a.issues) <= openSteps {
		s.recorded.Expect(n)
	}
	return s
}

// on adds a device to those of the issue.
func (is *issue) on(device uint16) *Step {
	s := &Step{
		Step: is.info, ID: is.id, Thread: is.thread, Begun: is.begun, Frame: is.frame, Number: is.number, Sure: is.sure,
		Joined: is.joined, Device: device, Occurrence: is.occurrence,
	}
	if is.devices == nil {
		is.devices = is.one[:0]
	}
	is.devices = append(is.devices, s)
	return s
}

// Took notes what a run appended to the step's recorded columns, its extent, and whether it lacks records that came.
func (s *Step) Took(r cupti.Run, o *cupti.Outcome) {
	s.invalid = s.invalid || o.Bad() > 0
	if o.Taken == 0 {
		return
	}
	if s.Last == 0 || o.Extent.First < s.First {
		s.First = o.Extent.First
	}
	s.Last = max(s.Last, o.Extent.End)
	if n := len(s.parts); n > 0 && s.parts[n-1].ordinal == r.Ordinal {
		s.parts[n-1].n += o.Taken
		return
	}
	p := part{ordinal: r.Ordinal, correlation: r.Records[0].Correlation(), n: o.Taken, static: o.Static}
	if l := r.Launch; l != nil {
		p.label, p.comm, p.graph = l.Label, l.Comm, l.Replays()
	}
	s.parts = append(s.parts, p)
}

// Parts is how many launches, or parts of launches, the step has kernels of: the ordinal of the next
// one outside any step.
func (s *Step) Parts() uint32 { return uint32(len(s.parts)) }

// Outside returns a step that stands for kernels of no step on a device, to be filled like one.
func Outside(device uint16) *Step { return &Step{Device: device} }

// Finish puts the kernels of a step that Outside made in order and works out what they are.
func (a *Assembler) Finish(s *Step) {
	s.Columns = s.recorded
	if s.recorded.Unordered {
		s.order()
	}
	positions, kernels := a.positions(s)
	a.classAll(s.Program, positions, kernels)
	of, key := hash(positions, kernels)
	s.Shape = &Shape{Shape: model.Shape{Hash: of, Positions: positions}, key: key}
}

// Held is the first frame that an open step rests on; false if none is open.
func (a *Assembler) Held() (frame uint64, ok bool) {
	for _, is := range a.order {
		if is != nil && (!ok || is.frame < frame) {
			frame, ok = is.frame, true
		}
	}
	return frame, ok
}

// trim lets go of closed issues once they are half of all: a step that never ends keeps none of those after it.
func (a *Assembler) trim() {
	if 2*a.closed >= len(a.order) {
		a.order = slices.DeleteFunc(a.order, func(is *issue) bool { return is == nil })
		a.closed = 0
	}
}

// Pending is how many kernels on a device are in open steps.
func (a *Assembler) Pending(device uint16) (n int) {
	for _, is := range a.order {
		if is == nil {
			continue
		}
		for _, s := range is.devices {
			if s.Device == device {
				n += len(s.recorded.Spans)
			}
		}
	}
	return n
}

// IsOpen reports whether a step is open.
func (a *Assembler) IsOpen(id ranges.ID) bool { return a.issues[id] != nil }

// Opened is how many steps are open.
func (a *Assembler) Opened() int { return len(a.issues) }

// Bytes is about what the open steps take, in bytes.
func (a *Assembler) Bytes() (n int) {
	for _, is := range a.order {
		if is == nil {
			continue
		}
		n += openBytes + 2*len(is.info.Text) + requestBytes*len(is.requests) // what the text says are parts of it, or copies
		for _, s := range is.devices {
			n += s.kernelBytes()
		}
	}
	return n
}

// Bytes is about what the step takes, in bytes.
func (s *Step) Bytes() int {
	return openBytes + 2*len(s.Text) + requestBytes*len(s.Requests) + s.kernelBytes()
}

func (s *Step) kernelBytes() int {
	const kernel, part = 24, 80 // a span and a ref; a launch
	return kernel*len(s.recorded.Spans) + part*len(s.parts)
}

// Any reports whether an open step has kernels on a device.
func (a *Assembler) Any(device uint16) bool {
	for _, is := range a.order {
		if is == nil {
			continue
		}
		for _, s := range is.devices {
			if s.Device == device && len(s.recorded.Spans) > 0 {
				return true
			}
		}
	}
	return false
}

// Program is what an open step runs, and its text; false: it is not open.
func (a *Assembler) Program(id ranges.ID) (program, text string, ok bool) {
	is := a.issues[id]
	if is == nil {
		return "", "", false
	}
	return is.info.Program, is.info.Text, true
}

// ClassOf is what the kernels of a call count as, in any shape that is known.
func (a *Assembler) ClassOf(call string) (span.Class, bool) { return a.table.ClassOf(call) }
