// Package ranges follows a process's NVTX ranges, and says for each launch in which step and in
// which call it was made.
//
// Push and pop ranges are stacks, one for each thread and domain:
//
//	          push (a step's text)                pop
//	no step ───────────────────────▶ in a step ─────────▶ no step     the innermost step counts
//	   │                                 ▲
//	   └── one start range of the process is open, and it is a step's
package ranges

// Limits bound a Tracker.
const (
	MaxDepth  = 64   // of a stack; deeper pushes are counted, not kept
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
	TooDeep   uint64 // pushes beyond MaxDepth
	Refused   uint64 // ranges whose stack, start, step or label is beyond its limit
	Resynced  uint64 // entries dropped or made up because the sender's depth was another
}

type stackKey struct {
	thread uint32
	domain Domain
}

type plainKey struct {
	domain Domain
	text   string
}

type entry struct {
	label uint32 // 0: the text was not kept
	step  ID     // 0: the range is no step's
}

// A stack is the open ranges of one thread in one domain.
type stack struct {
	entries []entry
	beyond  int // pushes deeper than MaxDepth
}

// A Tracker holds the open ranges of a process. It is not safe for concurrent use.
type Tracker struct {
	Counts Counts

	patterns []Pattern
	callIn   map[string]bool // names of domains whose ranges are calls

	domains map[Domain]string
	stacks  map[stackKey]*stack
	steps   map[uint32][]ID     // open steps of a thread, innermost last
	starts  map[uint64]ID       // open start ranges; 0: not a step's
	started []ID                // open start ranges that are steps
	plain   map[plainKey]uint32 // label of a text that is no step's
	texts   []string            // by label
	labels  int                 // that may be in texts
	bytes   int                 // in texts
	open    int                 // steps in steps and started
	next    ID
}

// New returns a Tracker that keeps so many texts of ranges that are no step's. Ranges in the domains that calls names are calls;
// "" is the default domain.
func New(patterns []Pattern, calls []string, labels int) *Tracker {
	t := &Tracker{
		labels: labels, patterns: patterns, callIn: map[string]bool{},
		domains: map[Domain]string{0: ""}, stacks: map[stackKey]*stack{}, steps: map[uint32][]ID{},
		starts: map[uint64]ID{}, plain: map[plainKey]uint32{}, texts: []string{""},
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

// Push takes a pushed range. If it is a step's, id names the step from now on and step says what its
// text says. ended are steps whose pops were lost.
func (t *Tracker) Push(thread uint32, d Domain, text string, depth uint32) (id ID, step Step, ended []ID) {
	k := t.stack(thread, d)
	if k == nil {
		return 0, step, nil
	}
	ended = t.resync(thread, k, depth, 1)
	if len(k.entries) >= MaxDepth {
		k.beyond++
		t.Counts.TooDeep++
		return 0, step, ended
	}
	step, label, ok := t.read(d, text)
	if ok && t.admit() {
		id = t.newID()
		t.steps[thread] = append(t.steps[thread], id)
	}
	k.entries = append(k.entries, entry{label, id})
	return id, step, ended
}

// PushLabel takes a range that only labels the graph nodes created under it. What was captured in a
// step but in no call of it has no label.
func (t *Tracker) PushLabel(thread uint32, d Domain, text string) {
	if k := t.stack(thread, d); k != nil && len(k.entries) < MaxDepth {
		_, label, _ := t.read(d, text)
		k.entries = append(k.entries, entry{label: label})
	}
}

// Pop takes the end of the innermost range of a thread in a domain, and returns the steps that it
// ends: one, if the range was a step's; more, if pops were lost.
func (t *Tracker) Pop(thread uint32, d Domain, depth uint32) (ended []ID) {
	k := t.stack(thread, d)
	if k == nil {
		return nil
	}
	ended = t.resync(thread, k, depth, -1)
	if k.beyond > 0 {
		k.beyond--
		return ended
	}
	n := len(k.entries)
	if n == 0 {
		t.Counts.Underflow++
		return ended
	}
	e := k.entries[n-1]
	k.entries = k.entries[:n-1]
	if e.step != 0 {
		t.drop(thread, e.step)
		ended = append(ended, e.step)
	}
	return ended
}

// Start takes the start of a range of the process.
func (t *Tracker) Start(r uint64, d Domain, text string) (id ID, s Step) {
	if len(t.starts) >= MaxStarts {
		t.Counts.Refused++
		return 0, s
	}
	s, _, ok := t.read(d, text)
	if ok && t.admit() {
		id = t.newID()
		t.started = append(t.started, id)
	}
	t.starts[r] = id
	return id, s
}

// End takes the end of a range of the process, and returns the step that it ends, or 0.
func (t *Tracker) End(r uint64) ID {
	id, ok := t.starts[r]
	if !ok {
		t.Counts.Underflow++
		return 0
	}
	delete(t.starts, r)
	if id != 0 {
		t.started = t.without(t.started, id)
	}
	return id
}

// Step is the step in which a thread launches now, or 0.
func (t *Tracker) Step(thread uint32) ID {
	if s := t.steps[thread]; len(s) > 0 {
		return s[len(s)-1]
	}
	if len(t.started) == 1 {
		return t.started[0]
	}
	return 0
}

// Call is the label of the call in which a thread launches now, or captures; 0: none.
func (t *Tracker) Call(thread uint32) uint32 {
	if len(t.callIn) == 1 && t.callIn[""] {
		return t.top(thread, 0)
	}
	for d, name := range t.domains {
		if t.callIn[name] {
			if l := t.top(thread, d); l != 0 {
				return l
			}
		}
	}
	return 0
}

func (t *Tracker) top(thread uint32, d Domain) uint32 {
	k := t.stacks[stackKey{thread, d}]
	if k == nil || len(k.entries) == 0 {
		return 0
	}
	return k.entries[len(k.entries)-1].label
}

// Text is the text of a label.
func (t *Tracker) Text(label uint32) string { return t.texts[label] }

// Close forgets a step whose end was not seen: its range stays on the stack, but launches in it are outside.
func (t *Tracker) Close(id ID) {
	for thread := range t.steps {
		t.drop(thread, id)
	}
	t.started = t.without(t.started, id)
}

// read reads a text by the patterns of its domain, in order: it is a step's, or has a label.
// Texts that are no step's repeat, so they are read once.
func (t *Tracker) read(d Domain, text string) (s Step, label uint32, ok bool) {
	if label, ok := t.plain[plainKey{d, text}]; ok {
		return s, label, false
	}
	if s, ok = Parse(t.patterns, t.domains[d], text); ok {
		return s, 0, true
	}
	if len(t.texts) > t.labels || t.bytes+len(text) > averageLabel*t.labels {
		t.Counts.Refused++
		return s, 0, false
	}
	label = uint32(len(t.texts))
	t.texts = append(t.texts, text)
	t.bytes += len(text)
	t.plain[plainKey{d, text}] = label
	return s, label, false
}

// admit reports whether one more step may be open.
func (t *Tracker) admit() bool {
	if t.open < MaxOpen {
		return true
	}
	t.Counts.Refused++
	return false
}

func (t *Tracker) newID() ID {
	t.open++
	t.Counts.Steps++
	t.next++
	return t.next
}

func (t *Tracker) stack(thread uint32, d Domain) *stack {
	key := stackKey{thread, d}
	k := t.stacks[key]
	if k == nil {
		if len(t.stacks) >= MaxStacks {
			t.Counts.Refused++
			return nil
		}
		k = &stack{}
		t.stacks[key] = k
	}
	return k
}

// resync makes a stack as deep as the sender says that it was before a push (change 1) or a pop
// (-1): events can be lost on the way. It returns the steps that end thereby.
func (t *Tracker) resync(thread uint32, k *stack, depth uint32, change int) (ended []ID) {
	const unknown = 0xffffffff
	if depth == unknown {
		return nil
	}
	want := int(depth) - change
	if want == len(k.entries)+k.beyond || want < 0 {
		return nil
	}
	if over := min(len(k.entries)+k.beyond-want, k.beyond); over > 0 {
		k.beyond -= over
		t.Counts.Resynced += uint64(over)
	}
	for want < len(k.entries) {
		e := k.entries[len(k.entries)-1]
		k.entries = k.entries[:len(k.entries)-1]
		t.Counts.Resynced++
		if e.step != 0 {
			t.drop(thread, e.step)
			ended = append(ended, e.step)
		}
	}
	for len(k.entries) < min(want, MaxDepth) {
		k.entries = append(k.entries, entry{})
		t.Counts.Resynced++
	}
	k.beyond = max(0, want-len(k.entries))
	return ended
}

// drop takes a step off the open ones of a thread.
func (t *Tracker) drop(thread uint32, id ID) {
	if s := t.without(t.steps[thread], id); len(s) > 0 {
		t.steps[thread] = s
	} else {
		delete(t.steps, thread)
	}
}

// without takes an open step out of s, if it is there.
func (t *Tracker) without(s []ID, id ID) []ID {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == id {
			t.open--
			return append(s[:i], s[i+1:]...)
		}
	}
	return s
}
