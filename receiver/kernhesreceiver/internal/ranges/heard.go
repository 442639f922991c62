package ranges

import (
	"cmp"
	"slices"
	"strings"
)

// Limits of what is remembered of texts that matched no pattern.
const (
	maxHeard  = 128  // texts, with their digits folded
	maxNodes  = 1024 // places of them in one another
	maxFolded = 256  // bytes of a text
)

// A node is a place of ranges in one another, outside any step: a text and the ranges around it. 0: none.
type node uint32

// An Unmatched is a text that matched no pattern, with digits folded, and what was launched inside such ranges and outside
// any step.
type Unmatched struct {
	Text    string // each number in it is "#"
	Example string // the first such text
	Domain  string
	Ranges  uint64
	Kernels uint64
	NS      uint64
}

// heard is what texts were open around launches that are in no step.
type heard struct {
	texts []Unmatched
	ids   map[plainKey]int // in texts, of folded ones
	nodes []place          // by node; the first stands for none
	at    map[place]node
}

// A place is a text within another place.
type place struct {
	around node
	text   int
}

// hear takes a range that is no step's, outside any step of its thread, in a place, and returns its own place.
func (t *Tracker) hear(around node, d Domain, label uint32) node {
	if label == 0 {
		return around
	}
	text, ok := t.heard.text(d, t.domains[d], t.texts[label])
	if !ok {
		return around
	}
	t.heard.texts[text].Ranges++
	return t.heard.in(around, text)
}

// innermost is the place of the range that was pushed last among a thread's, or 0.
func (t *Tracker) innermost(th *threadState) (n node) {
	if th == nil {
		return 0
	}
	last := uint64(0)
	for _, k := range th.stacks {
		if e := k.top(); e != nil && e.order > last {
			last, n = e.order, e.heard
		}
	}
	return n
}

// Around is the place in which a thread launches now; 0: in no range, or in a step.
func (t *Tracker) Around(thread uint32) uint32 {
	if n := t.innermost(t.threads[thread]); n != 0 {
		return uint32(n)
	}
	if len(t.starts) == 1 {
		for _, s := range t.starts {
			return uint32(s.heard)
		}
	}
	return 0
}

// Launched counts kernels that were launched in a place, and their time.
func (t *Tracker) Launched(around uint32, kernels, ns uint64) {
	for n := node(around); n != 0; n = t.heard.nodes[n].around {
		u := &t.heard.texts[t.heard.nodes[n].text]
		u.Kernels += kernels
		u.NS += ns
	}
}

// Unmatched are the texts that matched no pattern, those with the most kernel time first.
func (t *Tracker) Unmatched(most int) []Unmatched {
	all := slices.Clone(t.heard.texts)
	slices.SortStableFunc(all, func(a, b Unmatched) int {
		return cmp.Or(cmp.Compare(b.NS, a.NS), cmp.Compare(b.Kernels, a.Kernels), cmp.Compare(b.Ranges, a.Ranges))
	})
	return all[:min(most, len(all))]
}

// A Leak is ranges of one thread and domain that are open.
type Leak struct {
	Thread  uint32
	Domain  string
	Text    string // the one that is open most often
	Open    uint64 // all of them
	Leaking bool   // so many are open that they are surely not popped
}

// leaking is how often one text is open in a stack that is surely leaked: no model nests a module in itself so often.
const leaking = 8

// Leaks are the threads and domains with the most open ranges; those that surely leak first.
func (t *Tracker) Leaks(most int) []Leak {
	all := []Leak{}
	for id, th := range t.threads {
		for _, k := range th.stacks {
			if k.depth == 0 {
				continue
			}
			count, label, n := map[uint32]int{}, uint32(0), 0
			for _, e := range k.entries {
				if e.label == 0 {
					continue
				}
				if count[e.label]++; count[e.label] > n {
					n, label = count[e.label], e.label
				}
			}
			all = append(all, Leak{id, t.domains[k.domain], t.texts[label], k.depth, k.depth > MaxDepth || n >= leaking})
		}
	}
	slices.SortFunc(all, func(a, b Leak) int {
		if a.Leaking != b.Leaking {
			if a.Leaking {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Open, a.Open), cmp.Compare(a.Thread, b.Thread), cmp.Compare(a.Domain, b.Domain))
	})
	return all[:min(most, len(all))]
}

// text is the number of a text with its digits folded; false: there is no room for it.
func (h *heard) text(d Domain, domain, text string) (int, bool) {
	key := plainKey{d, fold(text)}
	i, ok := h.ids[key]
	if ok {
		return i, true
	}
	if len(h.texts) >= maxHeard {
		return 0, false
	}
	if h.ids == nil {
		h.ids, h.at, h.nodes = map[plainKey]int{}, map[place]node{}, make([]place, 1)
	}
	i = len(h.texts)
	h.ids[key] = i
	h.texts = append(h.texts, Unmatched{Text: key.text, Example: cut(text), Domain: domain})
	return i, true
}

// in is the node of a text within another node. A text that is open already is there once.
func (h *heard) in(around node, text int) node {
	for n := around; n != 0; n = h.nodes[n].around {
		if h.nodes[n].text == text {
			return around
		}
	}
	p := place{around, text}
	n, ok := h.at[p]
	if !ok {
		if len(h.nodes) >= maxNodes {
			return around
		}
		n = node(len(h.nodes))
		h.nodes = append(h.nodes, p)
		h.at[p] = n
	}
	return n
}

// cut bounds a text, at a character.
func cut(text string) string {
	if len(text) > maxFolded {
		return strings.ToValidUTF8(text[:maxFolded], "")
	}
	return strings.Clone(text)
}

// fold writes "#" for each number in a text.
func fold(text string) string {
	var b strings.Builder
	b.Grow(min(len(text), maxFolded))
	if len(text) > maxFolded {
		text = cut(text)
	}
	for i := range len(text) {
		switch digit := text[i] >= '0' && text[i] <= '9'; {
		case !digit:
			b.WriteByte(text[i])
		case i == 0 || text[i-1] < '0' || text[i-1] > '9':
			b.WriteByte('#')
		}
	}
	return b.String()
}
