// Package ranges turns a process's NVTX ranges into the step of each launch, with its call.
//
// Push and pop ranges are stacks, one for each thread and domain:
//
//	          push (a step's text)                pop
//	no step ───────────────────────▶ in a step ─────────▶ no step     the innermost step counts
//	   │                                 ▲
//	   └── one start range of the process is open, and it is a step's
//
// A range that is never popped stays on its stack, and its thread goes on above it. A stack
// therefore counts its ranges, but keeps only open steps and the innermost other ranges.
package ranges

// Limits bound a Tracker.
const (
	MaxDepth  = 64   // ranges of a stack that are kept beside open steps: the innermost
	MaxStacks = 4096 // threads × domains
	MaxStarts = 1024 // open start ranges
	MaxOpen   = 4096 // steps whose ranges are open

	averageLabel = 256 // bytes of a text that is no step's
)

// An ID names a step's range within its session; 0: none.
type ID = uint64

// A Domain is an NVTX domain's number; 0 is the default domain.
type Domain = uint32

// Counts of what did not go as NVTX means it.
type Counts struct {
	Steps     uint64 // step ranges opened
	Underflow uint64 // pops and ends of nothing
	TooDeep   uint64 // ranges that are not kept: MaxDepth others were pushed above them
	Leaked    uint64 // ranges that were open at the end, or given up because too many threads have open ranges
	Refused   uint64 // steps and labels beyond their limits
	Resynced  uint64 // ranges dropped or made up because the sender's depth was another
}

type plainKey struct {
	domain Domain
	text   string
}

// A plain is what is known of a text that was read as no step's.
type plain struct {
	label  uint32
	always bool // no pattern fits it: it need not be read again
}

// An entry is a range that is open.
type entry struct {
	depth uint64 // of its stack with it, from 1
	label uint32 // 0: the text was not kept
	step  ID     // 0: the range is no step's
	heard node   // 0: it is a step's, or was pushed within one
	order uint64 // of its push among all
}

// A stack is the open ranges of one thread in one domain. Those that are not among entries were let
// go, or their pushes were lost.
type stack struct {
	domain  Domain
	depth   uint64
	entries []entry // outermost first
	plain   int     // entries that are no open step's
	hidden  uint64  // no range that is not among entries was pushed after this order
}

// top is the innermost range, if it is known.
func (k *stack) top() *entry {
	if n := len(k.entries); n > 0 && k.entries[n-1].depth == k.depth {
		return &k.entries[n-1]
	}
	return nil
}

// A threadState has a stack for each domain in which it pushed.
type threadState struct {
	stacks []*stack
	steps  []ID   // open, innermost last
	last   uint64 // order of its last push
}

// A started is a range of the process.
type started struct {
	step  ID
	heard node
	order uint64
}

// A Tracker holds the open ranges of a process. It is not safe for concurrent use.
type Tracker struct {
	Counts Counts

	patterns []Pattern
	callIn   map[string]bool // names of domains whose ranges are calls

	domains map[Domain]string
	threads map[uint32]*threadState
	stacks  int                 // of all threads
	of      map[ID]*threadState // whose an open step is; nil: a range of the process
	starts  map[uint64]started  // open start ranges
	started []ID                // open start ranges that are steps
	plain   map[plainKey]plain  // texts that were read as no step's
	texts   []string            // by label
	labels  int                 // that may be in texts
	bytes   int                 // in texts
	order   uint64              // of the last push or start
	firm    uint64              // unix ns of the last step by a pattern that is no fallback
	heard   heard
	next    ID
}

// New returns a Tracker that keeps so many texts of ranges that are no step's. Ranges in the domains that calls names are calls;
// "" is the default domain.
func New(patterns []Pattern, calls []string, labels int) *Tracker {
	t := &Tracker{
		labels: labels, patterns: patterns, callIn: map[string]bool{},
		domains: map[Domain]string{0: ""}, threads: map[uint32]*threadState{}, of: map[ID]*threadState{},
		starts: map[uint64]started{}, plain: map[plainKey]plain{}, texts: []string{""},
	}
	for _, name := range calls {
		t.callIn[name] = true
	}
	return t
}

// Domain takes the name of a domain.
func (t *Tracker) Domain(d Domain, name string) {
	if len(t.domains) < MaxStacks {
		t.domains[d] = name
	}
}

// DomainName is the name of a domain, as far as it was told.
func (t *Tracker) DomainName(d Domain) string { return t.domains[d] }

// A Push is a pushed range.
type Push struct {
	Thread uint32
	Domain Domain
	Text   string
	Depth  uint32 // of its stack with it, or unknownDepth
	Time   uint64 // unix ns
	Again  bool   // it is told again: ranges that were let go need not be told
}

// fallbackAfter is how long after a step by another pattern a fallback pattern counts again, ns.
const fallbackAfter = 10e9

// unknownDepth is the depth of a sender that does not count.
const unknownDepth = 0xffffffff

// Push takes a pushed range. If it is a step's, id names the step from now on and step says what its
// text says. ended are steps whose pops were lost.
func (t *Tracker) Push(p Push) (id ID, step Step, ended []ID) {
	th, k := t.place(p.Thread, p.Domain)
	if p.Depth != unknownDepth && p.Depth > 0 {
		ended = t.resync(th, k, uint64(p.Depth)-1, p.Again)
	}
	around := t.innermost(th)
	t.order++
	th.last = t.order
	k.depth++
	e := entry{depth: k.depth, order: t.order}
	step, e.label, id = t.read(p.Domain, p.Text, p.Time, th)
	switch {
	case id != 0:
		e.step = id
		t.of[id] = th
		th.steps = append(th.steps, id)
	case len(th.steps) == 0:
		e.heard = t.hear(around, p.Domain, e.label)
	}
	k.entries = append(k.entries, e)
	if id == 0 {
		k.plain++
		t.letGo(k)
	}
	return id, step, ended
}

// PushLabel takes a range that only labels the graph nodes created under it. What was captured in a
// step but in no call of it has no label.
func (t *Tracker) PushLabel(thread uint32, d Domain, text string) {
	th, k := t.place(thread, d)
	t.order++
	th.last = t.order
	k.depth++
	e := entry{depth: k.depth, order: t.order}
	if _, _, ok := Parse(t.patterns, t.domains[d], text); !ok {
		e.label = t.label(d, text, true)
	}
	k.entries = append(k.entries, e)
	k.plain++
	t.letGo(k)
}

// Pop takes the end of the innermost range of a thread in a domain, and returns the steps that it
// ends: one, if the range was a step's; more, if pops were lost. depth is what is left, or unknownDepth.
func (t *Tracker) Pop(thread uint32, d Domain, depth uint32) (ended []ID) {
	th := t.threads[thread]
	k := th.find(d)
	if k == nil || k.depth == 0 && (depth == 0 || depth == unknownDepth) {
		t.Counts.Underflow++
		return nil
	}
	if depth != unknownDepth {
		ended = t.resync(th, k, uint64(depth)+1, false)
	}
	if k.top() != nil {
		ended = t.remove(th, k, ended)
	}
	k.depth--
	return ended
}

// Step is the step in which a thread launches now, or 0.
func (t *Tracker) Step(thread uint32) ID {
	if th := t.threads[thread]; th != nil && len(th.steps) > 0 {
		return th.steps[len(th.steps)-1]
	}
	if len(t.started) == 1 {
		return t.started[0]
	}
	return 0
}

// Call is the label of the call in which a thread launches now, or captures; 0: none. It is the range that
// was pushed last among the innermost ones of the domains of calls. A step's range is no call, and hides
// those around it in its own domain.
func (t *Tracker) Call(thread uint32) (label uint32) {
	th := t.threads[thread]
	if th == nil {
		return 0
	}
	last := uint64(0)
	for _, k := range th.stacks {
		if k.depth == 0 || !t.callIn[t.domains[k.domain]] {
			continue
		}
		if e := k.top(); e == nil {
			if k.hidden > last {
				last, label = k.hidden, 0
			}
		} else if e.step == 0 && e.order > last {
			last, label = e.order, e.label
		}
	}
	return label
}

// Text is the text of a label.
func (t *Tracker) Text(label uint32) string { return t.texts[label] }

// Close forgets a step whose end was not seen: its range stays on the stack, but launches in it are outside.
func (t *Tracker) Close(id ID) {
	th, open := t.of[id]
	if !open {
		return
	}
	t.drop(id)
	if th == nil {
		return
	}
	for _, k := range th.stacks {
		for i := range k.entries {
			if k.entries[i].step == id {
				k.plain++
				t.letGo(k)
				return
			}
		}
	}
}

// Finish takes the end of the process: what is open then was leaked.
func (t *Tracker) Finish() {
	t.Counts.Leaked += t.Open()
	clear(t.threads)
	clear(t.starts)
	t.stacks = 0
}

// Open is how many ranges are open.
func (t *Tracker) Open() (n uint64) {
	for _, th := range t.threads {
		for _, k := range th.stacks {
			n += k.depth
		}
	}
	return n + uint64(len(t.starts))
}
