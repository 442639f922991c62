package trace

import (
	"strings"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/classify"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/step"
)

// A plan is all of a step's spans that does not change with its times: worked out once for a shape.
type plan struct {
	tree
	looks []look
	look  []int // of each kernel
}

// A look is what there is to say of a kernel's name.
type look struct {
	title  string // of its span
	name   string // demangled
	symbol string
}

// newPlan works out the spans of a shape whose step runs program.
func newPlan(shape *step.Shape, program string, layout Layout) *plan {
	n := len(shape.Positions)
	p := &plan{look: make([]int, n)}
	p.of, p.parents = make([]int, n), make([]int, n)
	calls, looks, prefixes := map[string]int{}, map[string]int{}, map[string]int{}
	for i := range shape.Positions {
		pos := &shape.Positions[i]
		k, ok := looks[pos.Name]
		if !ok {
			k = len(p.looks)
			looks[pos.Name] = k
			p.looks = append(p.looks, lookOf(pos.Name))
		}
		p.look[i] = k
		p.parents[i] = none
		p.of[i] = none
		if pos.Call == "" {
			continue
		}
		c, ok := calls[pos.Call]
		if !ok {
			c = len(p.calls)
			calls[pos.Call] = c
			p.calls = append(p.calls, newCall(pos.Call, prefixes))
		}
		p.of[i] = c
	}
	if layout == Tree {
		p.plant(bounded(program, maxText))
	}
	return p
}

func newCall(label string, prefixes map[string]int) call {
	c := call{text: bounded(label, maxText)}
	c.ends = levels(c.text)
	for _, end := range c.ends {
		prefix := c.text[:end]
		if _, ok := prefixes[prefix]; !ok {
			prefixes[prefix] = len(prefixes)
		}
		c.ids = append(c.ids, prefixes[prefix])
	}
	return c
}

// plant grows the levels. The first level of a label is often the program's name: that is the step itself.
func (p *plan) plant(program string) {
	for a := 0; a < len(p.of); {
		b, own := a, p.owned(p.of[a], program)
		for b < len(p.of) && p.owned(p.of[b], program) == own {
			b++
		}
		depth := 0
		if own {
			depth = 1
		}
		p.grow(a, b, depth, none)
		a = b
	}
}

// owned reports whether a call's first level is the program's name.
func (p *plan) owned(c int, program string) bool {
	return c != none && len(p.calls[c].ends) > 1 && p.calls[c].text[:p.calls[c].ends[0]] == program
}

// size is the memory of a plan, about, in kernels.
func (p *plan) size() int { return len(p.of) + len(p.levels) }

// maxSymbol is how long symbols are that the shim sends, in bytes; a longer one is cut.
const maxSymbol = 4096

func lookOf(symbol string) look {
	if symbol == "" {
		return look{title: "unknown kernel"}
	}
	symbol = symbol[:min(len(symbol), maxSymbol)]
	name := classify.Whole(symbol)
	title := classify.Path(symbol)
	if strings.TrimSpace(title) == "" {
		title = name
	}
	return look{
		title: bounded(title, maxName), name: bounded(name, maxText), symbol: bounded(symbol, maxText),
	}
}
