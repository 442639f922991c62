package krec

import (
	"fmt"
	"regexp"
	"strings"
)

func isStep(text string) bool { return strings.HasPrefix(text, "step:") }

// steps are the pushes of step ranges.
func (m *mutator) steps() []*Push {
	var steps []*Push
	for _, f := range m.r.Frames {
		if p, ok := f.(*Push); ok && p.Domain == 0 && isStep(p.Text) {
			steps = append(steps, p)
		}
	}
	return steps
}

// renameLabels gives half of the calls and programs other names, the same text always the same.
func (m *mutator) renameLabels() {
	renamed := map[string]string{}
	rename := func(old string) string {
		text, ok := renamed[old]
		if !ok {
			text = old
			if m.chance(2) {
				text = fmt.Sprintf("%s.%x", strings.ReplaceAll(old, "layers", "blöcke"), m.rng.Uint32())
			}
			renamed[old] = text
		}
		return text
	}
	for _, f := range m.r.Frames {
		if p, ok := f.(*Push); ok {
			if program, pairs, _ := strings.Cut(p.Text, " "); isStep(p.Text) {
				p.Text = rename(program) + " " + pairs
			} else {
				p.Text = rename(p.Text)
			}
		}
	}
}

var seqPair = regexp.MustCompile(`\bseq=\d+,?`)

// stripSeq takes the seq from all steps' texts or, in one case of four, from half of them.
func (m *mutator) stripSeq() {
	half := m.chance(4)
	for _, p := range m.steps() {
		if !half || m.chance(2) {
			p.Text = strings.TrimRight(seqPair.ReplaceAllString(p.Text, ""), ", ")
		}
	}
}

// duplicateTexts gives some steps the very text of an earlier one.
func (m *mutator) duplicateTexts() {
	steps := m.steps()
	for i := 1; i < len(steps); i++ {
		if m.chance(4) {
			steps[i].Text = steps[m.rng.IntN(i)].Text
		}
	}
}

// apart says whether a range may begin or end before frame i: not inside a launch call.
func (m *mutator) apart(i int) bool {
	if i == len(m.r.Frames) {
		return true
	}
	switch m.r.Frames[i].(type) {
	case *Meta, *NodeCreated, *NodeCloned, *Captured, *GraphExec:
		return false
	}
	return true
}

// nestedSteps puts a step range around a part of what some steps launch.
func (m *mutator) nestedSteps() {
	at, extra, made := times(m.r), map[int][]Frame{}, 0
	for _, span := range m.spans() {
		if !m.chance(8) {
			continue
		}
		var places []int
		depth := 0
		for i := span.push + 1; i <= span.pop; i++ {
			if depth == 0 && m.apart(i) {
				places = append(places, i)
			}
			switch f := m.r.Frames[i].(type) {
			case *Push:
				if f.Thread == span.thread && f.Domain == 0 {
					depth++
				}
			case *Pop:
				if f.Thread == span.thread && f.Domain == 0 {
					depth--
				}
			}
		}
		if len(places) < 2 {
			continue
		}
		first := m.rng.IntN(len(places) - 1)
		from, to := places[first], places[first+1+m.rng.IntN(len(places)-first-1)]
		made++
		extra[from] = append(extra[from], &Push{Time: at[from-1], Thread: span.thread, Text: fmt.Sprintf("step:draft seq=%d,tokens=1", made)})
		extra[to] = append(extra[to], &Pop{Time: at[to-1], Thread: span.thread})
	}
	m.insert(extra)
}

// leakedPushes adds up to a dozen pushes that are never popped, some of them steps', and up to three pops of nothing.
func (m *mutator) leakedPushes() {
	extra := map[int][]Frame{}
	var leaks, empty []int
	depth := map[place]int{}
	for i, f := range m.r.Frames {
		l, ok := f.(*Launch)
		if ok && m.apart(i) {
			leaks = append(leaks, i)
			if depth[place{l.Thread, 0}] == 0 {
				empty = append(empty, i)
			}
		}
		switch f := f.(type) {
		case *Push:
			depth[place{f.Thread, f.Domain}]++
		case *Pop:
			depth[place{f.Thread, f.Domain}] = max(0, depth[place{f.Thread, f.Domain}]-1)
		}
	}
	if len(leaks) == 0 {
		return
	}
	first := len(leaks)
	for k := range 1 + m.rng.IntN(12) {
		drawn := m.rng.IntN(len(leaks))
		first = min(first, drawn)
		i := leaks[drawn]
		launch := m.r.Frames[i].(*Launch)
		text := fmt.Sprintf("leaked.%d", k)
		if m.chance(6) {
			text = fmt.Sprintf("step:leaked seq=%d", 1_000_000+k)
		}
		extra[i] = append(extra[i], &Push{Time: launch.Time, Thread: launch.Thread, Text: text})
	}
	for range m.rng.IntN(4) { // before the first leak, where the stack is still empty
		if len(empty) == 0 {
			break
		}
		if i := empty[m.rng.IntN(len(empty))]; i < leaks[first] {
			launch := m.r.Frames[i].(*Launch)
			extra[i] = append(extra[i], &Pop{Time: launch.Time, Thread: launch.Thread})
		}
	}
	m.insert(extra)
}

// namedDomain moves ranges of the default domain to a new one: all, only calls, or only steps.
func (m *mutator) namedDomain() {
	which := m.rng.IntN(3)
	moves := func(text string) bool { return which == 0 || isStep(text) == (which == 2) }
	var id uint32
	for _, f := range m.r.Frames {
		if d, ok := f.(*Domain); ok {
			id = max(id, d.ID)
		}
	}
	id++
	open := map[uint32][]bool{} // by thread: whether each open range was moved
	for _, f := range m.r.Frames {
		switch f := f.(type) {
		case *Push:
			if f.Domain == 0 {
				moved := moves(f.Text)
				open[f.Thread] = append(open[f.Thread], moved)
				if moved {
					f.Domain = id
				}
			}
		case *Pop:
			if n := len(open[f.Thread]); f.Domain == 0 && n > 0 {
				if open[f.Thread][n-1] {
					f.Domain = id
				}
				open[f.Thread] = open[f.Thread][:n-1]
			}
		}
	}
	m.insert(map[int][]Frame{1: {&Domain{ID: id, Name: "engine"}}})
}
