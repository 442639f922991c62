package ranges

import (
	"cmp"
	"slices"
)

// find is the thread's stack in a domain, or nil.
func (th *threadState) find(d Domain) *stack {
	if th == nil {
		return nil
	}
	for _, k := range th.stacks {
		if k.domain == d {
			return k
		}
	}
	return nil
}

// remove takes the innermost known range off a stack, and appends the step that it ends.
func (t *Tracker) remove(th *threadState, k *stack, ended []ID) []ID {
	e := k.entries[len(k.entries)-1]
	k.entries = k.entries[:len(k.entries)-1]
	if e.step == 0 || !t.drop(e.step) {
		k.plain--
		if e.step == 0 {
			return ended
		}
	}
	return append(ended, e.step)
}

// letGo keeps no more than MaxDepth ranges of a stack that are no open step's.
func (t *Tracker) letGo(k *stack) {
	if k.plain <= MaxDepth {
		return
	}
	i := slices.IndexFunc(k.entries, func(e entry) bool { return !t.isOpen(e.step) })
	k.hidden = max(k.hidden, k.entries[i].order)
	k.entries = slices.Delete(k.entries, i, i+1)
	k.plain--
	t.Counts.TooDeep++
}

// isOpen reports whether id names a step that is open.
func (t *Tracker) isOpen(id ID) bool {
	_, open := t.of[id]
	return open
}

// resync makes a stack as deep as the sender says that it is: events can be lost on the way. It
// returns the steps that end thereby.
func (t *Tracker) resync(th *threadState, k *stack, depth uint64, again bool) (ended []ID) {
	switch {
	case depth > k.depth:
		if !again {
			t.Counts.Resynced += depth - k.depth
		}
		k.depth, k.hidden = depth, t.order
	case depth < k.depth:
		t.Counts.Resynced += k.depth - depth
		for n := len(k.entries); n > 0 && k.entries[n-1].depth > depth; n-- {
			ended = t.remove(th, k, ended)
		}
		k.depth = depth
	}
	return ended
}

// read reads a text by the patterns of its domain, in order. It is a step's, with a new id, or has a label. Texts that are
// never a step's repeat, so they are read once.
func (t *Tracker) read(d Domain, text string, time uint64, th *threadState) (s Step, label uint32, id ID) {
	if p, ok := t.plain[plainKey{d, text}]; ok && p.always {
		return s, p.label, 0
	}
	s, pattern, ok := Parse(t.patterns, t.domains[d], text)
	if !ok {
		return s, t.label(d, text, true), 0
	}
	switch {
	case !pattern.Fallback:
		t.firm = time
	case t.firm != 0 && time-t.firm < fallbackAfter, th != nil && len(th.steps) > 0:
		return Step{}, t.label(d, text, false), 0
	}
	if len(t.of) >= MaxOpen {
		t.Counts.Refused++
		return Step{}, 0, 0
	}
	t.Counts.Steps++
	t.next++
	return s, 0, t.next
}

// label is the number of a text that is no step's now; 0: there is no room for it. always says that it never is.
func (t *Tracker) label(d Domain, text string, always bool) uint32 {
	key := plainKey{d, text}
	if p, ok := t.plain[key]; ok {
		return p.label
	}
	if len(t.texts) > t.labels || t.bytes+len(text) > averageLabel*t.labels {
		t.Counts.Refused++
		return 0
	}
	label := uint32(len(t.texts))
	t.texts = append(t.texts, text)
	t.bytes += len(text)
	t.plain[key] = plain{label, always}
	return label
}

// place is a thread's stack in a domain, made if need be.
func (t *Tracker) place(thread uint32, d Domain) (*threadState, *stack) {
	if th := t.threads[thread]; th.find(d) != nil {
		return th, th.find(d)
	}
	if t.stacks >= MaxStacks {
		t.prune()
	}
	th := t.threads[thread]
	if th == nil {
		th = &threadState{last: t.order}
		t.threads[thread] = th
	}
	k := &stack{domain: d}
	th.stacks = append(th.stacks, k)
	t.stacks++
	return th, k
}

// prune makes room for stacks: empty ones go, then those of the threads that pushed nothing for longest.
func (t *Tracker) prune() {
	type aged struct {
		id uint32
		*threadState
	}
	var all []aged
	for id, th := range t.threads {
		before := len(th.stacks)
		th.stacks = slices.DeleteFunc(th.stacks, func(k *stack) bool { return k.depth == 0 })
		t.stacks -= before - len(th.stacks)
		if len(th.stacks) == 0 {
			delete(t.threads, id)
		} else {
			all = append(all, aged{id, th})
		}
	}
	slices.SortFunc(all, func(a, b aged) int {
		return cmp.Or(cmp.Compare(min(1, len(a.steps)), min(1, len(b.steps))), cmp.Compare(a.last, b.last))
	})
	for _, th := range all {
		if t.stacks <= MaxStacks/2 {
			return
		}
		for _, k := range th.stacks {
			t.Counts.Leaked += k.depth
		}
		t.stacks -= len(th.stacks)
		delete(t.threads, th.id)
	}
}

// drop takes a step off the open ones, and reports whether it was one.
func (t *Tracker) drop(id ID) bool {
	th, open := t.of[id]
	if !open {
		return false
	}
	delete(t.of, id)
	is := func(other ID) bool { return other == id }
	if th == nil {
		t.started = slices.DeleteFunc(t.started, is)
	} else {
		th.steps = slices.DeleteFunc(th.steps, is)
	}
	return true
}
