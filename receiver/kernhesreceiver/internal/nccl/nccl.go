// Package nccl turns NCCL's NVTX ranges and their payloads into the communicator and message size of each launch.
//
// A collective's own range holds its launches, unless the engine opened a group around it: then NCCL launches at the
// group's end.
//
//	ncclAllReduce ──launch──▶ its communicator, its bytes
//
//	ncclGroupStart, ncclSend, ncclRecv, … , ncclGroupEnd ──launches──▶ joined at the end, see group.go
//
// The payloads of communicators' initialisation say who the process is among the ranks; see world.go.
package nccl

import (
	"fmt"
	"strings"

	"github.com/kernhes/kernhes/internal/wire"
)

// Name is the name of NCCL's NVTX domain.
const Name = "NCCL"

// Limits bound a Follower.
const (
	MaxThreads = 4096
	MaxDepth   = 64      // ranges of a thread; deeper ones are counted, not kept
	MaxCalls   = 1 << 16 // different pairs of communicator and bytes
)

// A Call is what a launch communicates.
type Call struct {
	Comm  uint64 // id of the communicator; 0: not known
	Bytes uint64 // of the messages that the launch carries; 0: not known
}

// Counts of what did not fit.
type Counts struct {
	Payloads uint64 // taken
	Unread   uint64 // payloads whose schema is not known, or is ambiguous
	Refused  uint64 // threads, ranges and calls beyond the limits
}

// What a range is, by its text.
type kind uint8

const (
	other kind = iota
	initialises
	groupStart
	groupEnd
)

func kindOf(text string) kind {
	switch {
	case strings.HasPrefix(text, "ncclCommInit"):
		return initialises
	case text == "ncclGroupStart":
		return groupStart
	case text == "ncclGroupEnd", text == "ncclGroupSimulateEnd":
		return groupEnd
	}
	return other
}

// An open range of NCCL's domain.
type open struct {
	kind kind
	call uint32 // what launches in it communicate; 0: not known
	ends bool   // it ends the outermost group
}

// A thread is what is open on one.
type thread struct {
	open   []open
	beyond int // pushes deeper than MaxDepth
	group  group
}

func (t *thread) idle() bool { return len(t.open) == 0 && t.beyond == 0 && t.group.depth == 0 }

// A Follower follows NCCL in one process. It is not safe for concurrent use.
type Follower struct {
	Counts Counts

	domain  uint32
	named   bool // the domain is known
	heard   bool // a payload came
	schemas schemas
	threads map[uint32]*thread // those that have something open
	spare   []*thread
	calls   []Call // by id
	ids     map[Call]uint32
	groups  map[uint64]string // text of a communicator
	world   world
	joined  []Joined
}

// New returns a Follower of a process that has sent nothing yet.
func New() *Follower {
	return &Follower{
		schemas: schemas{layouts: map[schemaKey][]layout{}, enums: map[schemaKey]uint8{}},
		threads: map[uint32]*thread{}, calls: []Call{{}}, ids: map[Call]uint32{}, groups: map[uint64]string{},
	}
}

// Refused is what did not fit: threads, ranges, calls, layouts.
func (f *Follower) Refused() uint64 { return f.Counts.Refused + f.schemas.refused }

// Open is how many ranges of NCCL's domain are open.
func (f *Follower) Open() (n int) {
	for _, t := range f.threads {
		n += len(t.open) + t.beyond
	}
	return n
}

// Domain takes the name of an NVTX domain.
func (f *Follower) Domain(d uint32, name string) {
	if name == Name && !f.named {
		f.domain, f.named = d, true
	}
}

// Follows reports whether a domain is NCCL's: the Follower wants its pushes and pops.
func (f *Follower) Follows(d uint32) bool { return f.named && d == f.domain }

// Schema takes a SCHEMA.
func (f *Follower) Schema(e wire.Event) {
	if f.Follows(e.Domain()) {
		f.schemas.add(e)
	}
}

// Push takes a pushed range of NCCL's domain. depth is the thread's, after; or wire.DepthUnknown.
func (f *Follower) Push(id uint32, text string, depth uint32) {
	t := f.threads[id]
	if t == nil {
		if t = f.fresh(); t == nil {
			f.Counts.Refused++
			return
		}
		f.threads[id] = t
	}
	t.sync(depth, 1)
	if len(t.open) >= MaxDepth {
		t.beyond++
		f.Counts.Refused++
		return
	}
	o := open{kind: kindOf(text)}
	if id != wire.ThreadLabels { // there ranges only label nodes
		switch o.kind {
		case groupStart:
			t.group.begin()
		case groupEnd:
			o.ends = t.group.end()
		}
	}
	t.open = append(t.open, o)
}

// Pop takes the end of a range of NCCL's domain. It returns the launches and nodes of a group that ended, with what each
// communicates: valid until the next call.
func (f *Follower) Pop(id, depth uint32) []Joined {
	t := f.threads[id]
	if t == nil {
		return nil
	}
	t.sync(depth, -1)
	f.joined = f.joined[:0]
	if t.beyond > 0 {
		t.beyond--
	} else if n := len(t.open); n > 0 {
		if t.open[n-1].ends {
			f.join(&t.group)
		}
		t.open = t.open[:n-1]
	}
	if t.idle() {
		delete(f.threads, id)
		f.spare = append(f.spare, t)
	}
	return f.joined
}

// sync makes a stack as deep as the sender says that it was before a push (change 1) or a pop (-1): events can be lost on
// the way. Of a group that was open meanwhile nothing is known.
func (t *thread) sync(depth uint32, change int) {
	want := int(depth) - change
	if depth == wire.DepthUnknown || want < 0 || want == len(t.open)+t.beyond {
		return
	}
	t.group.forget()
	t.open = t.open[:min(want, len(t.open))]
	for len(t.open) < min(want, MaxDepth) {
		t.open = append(t.open, open{})
	}
	t.beyond = want - len(t.open)
}

// Lost takes word that events are missing: what is open may be something else.
func (f *Follower) Lost() {
	for _, t := range f.threads {
		t.group.forget()
		for i := range t.open {
			t.open[i].call, t.open[i].ends = 0, false
		}
	}
}

// fresh returns a thread with nothing open, or nil where there are too many.
func (f *Follower) fresh() *thread {
	if len(f.threads) >= MaxThreads {
		return nil
	}
	if n := len(f.spare); n > 0 {
		t := f.spare[n-1]
		f.spare = f.spare[:n-1]
		return t
	}
	return &thread{}
}

// Payload takes a PAYLOAD.
func (f *Follower) Payload(e wire.Event) {
	if !f.Follows(e.Domain()) {
		return
	}
	f.heard = true
	f.Counts.Payloads++
	said, ok := f.schemas.read(e)
	if !ok {
		f.Counts.Unread++
		return
	}
	t := f.threads[e.Thread()]
	if t == nil || t.beyond > 0 || len(t.open) == 0 || e.Site() != wire.EventPush && e.Site() != wire.EventPop {
		return
	}
	if d := e.Depth(); d != wire.DepthUnknown && int(d) != len(t.open) {
		return // the push that it belongs to was lost
	}
	o := &t.open[len(t.open)-1]
	if o.kind == initialises {
		f.world.add(&said)
	}
	if e.Site() == wire.EventPush {
		f.take(t, o, &said)
	}
}

// take takes what came with the push of a range: a message makes it a call.
func (f *Follower) take(t *thread, o *open, said *Said) {
	bytes, ok := said.Get(Bytes)
	if !ok || o.call != 0 {
		return
	}
	comm, _ := said.Get(Comm)
	c := Call{comm, bytes}
	o.call = f.id(c)
	t.group.add(c)
}

// id gives a call its id; 0 where there are too many, or nothing is known.
func (f *Follower) id(c Call) uint32 {
	if c == (Call{}) {
		return 0
	}
	id, ok := f.ids[c]
	if !ok {
		if len(f.calls) > MaxCalls {
			f.Counts.Refused++
			return 0
		}
		id = uint32(len(f.calls))
		f.calls = append(f.calls, c)
		f.ids[c] = id
	}
	return id
}

// Call is what an id stands for; the zero Call of 0.
func (f *Follower) Call(id uint32) Call { return f.calls[id] }

// Group is what an id stands for as text and number: the group's name, empty where the communicator is not known, and bytes.
func (f *Follower) Group(id uint32) (group string, bytes uint64) {
	c := f.calls[id]
	if c.Comm == 0 {
		return "", c.Bytes
	}
	group, ok := f.groups[c.Comm]
	if !ok {
		group = fmt.Sprintf("nccl:%016x", c.Comm)
		f.groups[c.Comm] = group // no more than calls
	}
	return group, c.Bytes
}

// Launch takes a launch on a thread, and returns the id of what it communicates; 0: not known, or not yet.
func (f *Follower) Launch(id, correlation uint32) uint32 {
	t := f.busy(id)
	if t == nil {
		return 0
	}
	if n := len(t.open); n > 0 && t.open[n-1].ends {
		t.group.launched(correlation)
		return 0
	}
	return t.call()
}

// Node takes a graph node that was made on a thread, inside a launch call or not, and returns the same for it.
func (f *Follower) Node(id uint32, node uint64, inLaunch bool) uint32 {
	t := f.busy(id)
	if t == nil {
		return 0
	}
	if n := len(t.open); n > 0 && t.open[n-1].ends {
		if inLaunch {
			t.group.captured(node)
		}
		return 0
	}
	return t.call()
}

// busy is the thread of an id if payloads come and it has something open, else nil.
func (f *Follower) busy(id uint32) *thread {
	if !f.heard || len(f.threads) == 0 {
		return nil
	}
	return f.threads[id]
}

// call is the innermost call that is open.
func (t *thread) call() uint32 {
	for i := len(t.open) - 1; i >= 0; i-- {
		if c := t.open[i].call; c != 0 {
			return c
		}
	}
	return 0
}
