package manifest

import (
	"regexp"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/classify"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

// A slot is one launch of one call, where a kernel may belong.
type slot struct {
	call *call
	*launch
}

func (s slot) meaning() Meaning {
	m := Meaning{Op: s.call.op, Name: s.call.name, Known: true}
	if s.comm {
		m.Class, m.Fused = span.Comm, s.kind != ncclLaunch
	}
	return m
}

// match gives the kernels of one step their meanings.
func (p *program) match(kernels []Kernel, meanings []Meaning) (mismatches int) {
	var order []string // labels in the order in which they come first
	labelled := map[string][]int{}
	var bare []int
	for i, k := range kernels {
		if k.Call == "" {
			bare = append(bare, i)
			continue
		}
		if labelled[k.Call] == nil {
			order = append(order, k.Call)
		}
		labelled[k.Call] = append(labelled[k.Call], i)
	}
	if len(order) == 0 {
		return p.align(kernels, bare, p.slots(nil), meanings)
	}
	// Kernels without a label belong to calls without one; if there are none they are the engine's own: they mean nothing
	// here, and are no mismatch.
	if p.bare != nil {
		mismatches += p.align(kernels, bare, p.slots(p.bare), meanings)
	}
	for _, label := range order {
		calls := p.labels[label]
		if calls == nil {
			mismatches += len(labelled[label])
			continue
		}
		slots := p.slots(calls)
		mismatches += p.align(kernels, labelled[label], slots, meanings)
		fill(labelled[label], slots, meanings)
	}
	return mismatches
}

// slots are the launches of calls in order; of all calls if there are none.
func (p *program) slots(calls []int) (slots []slot) {
	add := func(c *call) {
		for i := range c.launches {
			slots = append(slots, slot{c, &c.launches[i]})
		}
	}
	if calls == nil {
		for i := range p.calls {
			add(&p.calls[i])
		}
	}
	for _, i := range calls {
		add(&p.calls[i])
	}
	return slots
}

// fill says of kernels that met a call, but none of its launches, what the call's launches have in common.
func fill(which []int, slots []slot, meanings []Meaning) {
	common := slots[0].meaning()
	for _, s := range slots[1:] {
		m := s.meaning()
		if m.Op != common.Op {
			return
		}
		if m != common {
			common = Meaning{Op: m.Op, Name: m.Name} // its launches differ in class
		}
	}
	for _, i := range which {
		if meanings[i].Op == "" {
			meanings[i] = common
		}
	}
}

// align gives kernels the meaning of slots, both in order. As many kernels as slots meet one to one unless a name
// says otherwise; else a kernel meets the next slot that its name fits.
func (p *program) align(kernels []Kernel, which []int, slots []slot, meanings []Meaning) (mismatches int) {
	names := make([]name, len(which))
	for i, k := range which {
		names[i] = p.name(kernels[k].Name)
	}
	if len(which) == len(slots) && agree(names, slots) {
		for i, k := range which {
			meanings[k] = slots[i].meaning()
		}
		return 0
	}
	next := 0 // first slot that no kernel has met
	for i, k := range which {
		if next > 0 && slots[next-1].kind == cublasLaunch && names[i].reduces() {
			meanings[k] = slots[next-1].meaning() // the second kernel of a split product
			continue
		}
		at, skipped := p.find(names[i], slots, next)
		if at < 0 {
			mismatches++
			continue
		}
		mismatches += skipped
		meanings[k] = slots[at].meaning()
		next = at + 1
	}
	for _, s := range slots[next:] {
		if !s.maybe {
			mismatches++
		}
	}
	return mismatches
}

// find is the first slot from next on that the name fits, -1 if there is none, and how many slots before it should
// have had a kernel. Only a name that says where it belongs passes such slots: a library's could be anyone's.
func (p *program) find(n name, slots []slot, next int) (at, skipped int) {
	for at = next; at < min(len(slots), next+lookahead); at++ {
		if n.fits(slots[at]) {
			return at, skipped
		}
		if slots[at].maybe {
			continue
		}
		if skipped++; !n.entry && !n.nccl {
			break
		}
	}
	return -1, 0
}

// lookahead is how many launches in a row may have made no kernel. A layer has some 20, and in order of launches a
// kernel that belongs to none must not send its search over thousands.
const lookahead = 64

// agree reports whether no name contradicts the slot at its place.
func agree(names []name, slots []slot) bool {
	for i, n := range names {
		if (n.entry || n.nccl) && !n.fits(slots[i]) {
			return false
		}
	}
	return true
}

// A name is a kernel's, as far as it says to which launch it may belong.
type name struct {
	full, path string
	entry      bool // some launch of the program has it
	nccl       bool
}

func (p *program) name(full string) name {
	n := name{full: full, path: classify.Path(full)}
	n.entry = p.entries[n.path]
	n.nccl = ncclName.MatchString(n.path)
	return n
}

var (
	ncclName   = regexp.MustCompile(`^nccl\w*Kernel`)
	reduceName = regexp.MustCompile(`(?i)split_?k_?reduce|reduce_1Block`)
)

// reduces reports whether it is the second kernel of a matrix product whose sum was split.
func (n name) reduces() bool { return !n.entry && reduceName.MatchString(n.path) }

// fits reports whether a slot may have made the kernel.
func (n name) fits(s slot) bool {
	switch s.kind {
	case ncclLaunch:
		return n.nccl
	case cublasLaunch: // only the library knows its kernels' names: whatever no other launch has
		return !n.entry && !n.nccl
	}
	return n.full == s.entry || n.path == s.path
}
