package trace

import "strings"

// maxLevels bounds how deep a label reaches; its last level takes the rest. Labels of engines have three to five.
const maxLevels = 8

// levels are the ends of a label's levels in bytes. A level is a word between dots, with the number or the nothing that
// follows it: prefill · target · moe · layers.8 · experts.
func levels(label string) (ends []int) {
	if label == "" {
		return nil
	}
	for i := 1; i < len(label) && len(ends) < maxLevels-1; i++ {
		if label[i] == '.' && !number(label[i+1:]) {
			ends = append(ends, i)
		}
	}
	return append(ends, len(label))
}

// number reports whether the first word of a label's rest is a number or empty.
func number(rest string) bool {
	word, _, _ := strings.Cut(rest, ".")
	return strings.Trim(word, "0123456789") == ""
}

// A call is a label as a plan has it.
type call struct {
	text string // bounded
	ends []int
	ids  []int // of the text up to each end: equal prefixes have equal ids
}

// A level is a span between the step and its kernels: kernels in a row whose labels begin alike.
type level struct {
	name   string // what it adds to its parent's label
	label  string
	parent int // index of a level; none: the step
	from   int // first kernel
	to     int // after the last kernel
}

// none stands for the step, as a parent, and for no call.
const none = -1

// A tree is the levels of a step.
type tree struct {
	calls   []call
	of      []int // call of each kernel, or none
	levels  []level
	parents []int // of each kernel: a level, or none
}

// grow makes levels of the kernels from from to to, whose labels have depth levels in common, under parent. Levels that
// hold the same kernels are one.
func (t *tree) grow(from, to, depth, parent int) {
	for a := from; a < to; {
		c := t.of[a]
		if c == none || len(t.calls[c].ids) <= depth {
			t.parents[a] = parent
			a++
			continue
		}
		b := a + 1
		for b < to && t.same(c, t.of[b], depth) {
			b++
		}
		common := depth + 1
		for common < len(t.calls[c].ids) && t.all(c, a, b, common) {
			common++
		}
		text, ends := t.calls[c].text, t.calls[c].ends
		begin := 0
		if depth > 0 {
			begin = ends[depth-1] + 1
		}
		t.levels = append(t.levels, level{
			name: bounded(text[begin:ends[common-1]], maxName), label: text[:ends[common-1]], parent: parent, from: a, to: b,
		})
		t.grow(a, b, common, len(t.levels)-1)
		a = b
	}
}

// same reports whether call b has the level of call a at a depth.
func (t *tree) same(a, b, depth int) bool {
	return a == b || b != none && len(t.calls[b].ids) > depth && t.calls[b].ids[depth] == t.calls[a].ids[depth]
}

func (t *tree) all(c, from, to, depth int) bool {
	for _, other := range t.of[from:to] {
		if !t.same(c, other, depth) {
			return false
		}
	}
	return true
}
