// Package digest turns a packed step into what the ranks of a run are compared by: the times of its communication calls.
package digest

// A Kind says whether the ranks of a call leave it together.
type Kind uint8

// Kinds of calls. The numbers are those of the format.
const (
	Unknown       Kind = 0 // nothing is known: whether its ranks leave together shows in its times
	AllReduce     Kind = 1
	AllGather     Kind = 2
	ReduceScatter Kind = 3
	Meeting       Kind = 4 // a barrier, or a fused kernel that all ranks leave together
	NotComparable Kind = 5 // ranks leave when they are done themselves: send and recv, unequal all-to-all, one-sided puts
)

// Meets reports whether calls of the kind can be compared.
func (k Kind) Meets() bool { return k != NotComparable }

// A Site is one communication call of a shape, without its times.
type Site struct {
	Call     string // label; empty: none
	Name     string // of the kernel
	Group    string // of ranks that it communicates with; empty: not known
	Kind     Kind
	Bytes    uint64 // of its message; 0: not known
	Position int    // of its kernel in the step
}

// A Position is what is known of one kernel of a step, as far as ranks are compared by it.
type Position struct {
	Call, Name string
	Comm       bool
}

// A Shape is what steps have in common without their times. It is shared and never changes.
type Shape struct {
	Work      uint64 // hash of the positions: equal work has equal hashes, whatever the grids
	Kernels   int
	Sites     []Site
	Groups    []Group
	Positions []Position // nil: not known, in a digest that came from another collector
	Families  []string   // of calls: labels, with each number as *
	Family    []uint16   // by position; nil like Positions
}

// A Group is the sites of a shape that communicate with one group of ranks and can be compared, in order.
type Group struct {
	Name  string // empty: not known
	Sites []int
}

// A Call is the times of one site in a step.
type Call struct {
	Start  uint64 // unix ns, of the rank's own clock
	Dur    uint64 // ns
	Before uint64 // ns: union of the step's compute kernels up to its start
	Until  uint64 // ns: the same up to its end
}

// End is when the call ends, unix ns of the rank's own clock.
func (c *Call) End() uint64 { return c.Start + c.Dur }

// A Step is one step of one rank.
type Step struct {
	Seq      int64
	Pairs    bool // seq is the same as on other ranks
	Complete bool
	Graph    bool // a graph launched its kernels
	Program  string
	Seqs     int64
	Tokens   int64
	KV       int64 // summed over the sequences
	Start    uint64
	End      uint64
	Compute  uint64 // ns: union of compute kernels
	Typical  uint64 // ns: median duration of its compute kernels
	Idle     uint64 // ns: in which no kernel of the step ran
	Foreign  uint64 // ns: compute of others since the latest end of an earlier step
	Shape    *Shape
	Calls    []Call // by site
}

// Sums are what the kernels of steps of one shape took, by family of calls.
type Sums struct {
	Program string
	Shape   *Shape
	Steps   uint64
	NS      []uint64 // by family
}

// maxFamilies bounds the families of a shape; further calls are in the last one.
const maxFamilies = 256

// family is the index of a call's family, which is added if need be.
func (s *Shape) family(call string) uint16 {
	name := starred(call)
	for i := range s.Families {
		if s.Families[i] == name {
			return uint16(i)
		}
	}
	if len(s.Families) == maxFamilies {
		return maxFamilies - 1
	}
	s.Families = append(s.Families, name)
	return uint16(len(s.Families) - 1)
}

// starred is a label with each number as *.
func starred(call string) string {
	b := make([]byte, 0, len(call))
	for i := range len(call) {
		switch c := call[i]; {
		case c < '0' || c > '9':
			b = append(b, c)
		case len(b) == 0 || b[len(b)-1] != '*':
			b = append(b, '*')
		}
	}
	return string(b)
}

// Bytes is how much memory a step takes, as estimated. Its shape is shared.
func (s *Step) Bytes() int { return 256 + 32*len(s.Calls) }

// groupsOf gathers the sites of each group, in order of their first site.
func groupsOf(sites []Site) (groups []Group) {
	for i := range sites {
		s := &sites[i]
		if !s.Kind.Meets() {
			continue
		}
		at := -1
		for g := range groups {
			if groups[g].Name == s.Group {
				at = g
			}
		}
		if at < 0 {
			at = len(groups)
			groups = append(groups, Group{Name: s.Group})
		}
		groups[at].Sites = append(groups[at].Sites, i)
	}
	return groups
}
