package nccl

// MaxJoin bounds the launches of a group that are joined, and its communicators.
const (
	MaxJoin  = 4096
	maxComms = 64
)

// A Joined is a launch, or a graph node, and what it communicates.
type Joined struct {
	Node        uint64 // 0: a launch
	Correlation uint32
	Call        uint32
}

// A group is what an outermost ncclGroupStart holds, on one thread. The range of each call ends before NCCL launches
// anything, so launches are joined to calls when the group's end is over.
type group struct {
	depth    int    // ncclGroupStart without its ncclGroupEnd
	comms    []part // by communicator, in the order of their first call
	unsure   bool   // calls or launches are missing
	calls    int
	bytes    uint64 // of the first call
	same     bool   // each call has as many
	launches int
	made     []Joined // launches, each followed by its nodes
}

// A part is the calls of a group on one communicator.
type part struct {
	comm  uint64
	bytes uint64 // of all its calls
}

func (g *group) begin() {
	if g.depth++; g.depth == 1 {
		g.clear()
	}
}

// end takes an ncclGroupEnd, and reports whether it ends the outermost group. Of one whose start was not seen nothing is known.
func (g *group) end() bool {
	if g.depth == 0 {
		return false
	}
	g.depth--
	return g.depth == 0
}

func (g *group) clear() {
	*g = group{depth: g.depth, comms: g.comms[:0], made: g.made[:0], same: true}
}

// forget drops a group of which events are missing.
func (g *group) forget() {
	g.depth = 0
	g.clear()
	g.unsure = true
}

// add takes a call inside the group.
func (g *group) add(c Call) {
	if g.depth == 0 {
		return
	}
	if g.calls++; g.calls == 1 {
		g.bytes = c.Bytes
	}
	g.same = g.same && c.Bytes == g.bytes
	for i := range g.comms {
		if g.comms[i].comm == c.Comm {
			g.comms[i].bytes += c.Bytes
			return
		}
	}
	if len(g.comms) >= maxComms {
		g.unsure = true
		return
	}
	g.comms = append(g.comms, part{c.Comm, c.Bytes})
}

// launched takes a launch at the group's end, captured a node that was made in the last of those.
func (g *group) launched(correlation uint32) {
	g.launches++
	g.keep(Joined{Correlation: correlation})
}

func (g *group) captured(node uint64) { g.keep(Joined{Node: node}) }

func (g *group) keep(j Joined) {
	if len(g.made) >= MaxJoin {
		g.unsure = true
		return
	}
	g.made = append(g.made, j)
}

// join says what each launch of a group communicates, as far as that is unambiguous.
//
// One communicator: each launch is its. One launch carries all messages; several carry one each if there are as many as
// calls, whose order NCCL changes, so the bytes are known only where all are equal.
//
// Several communicators with one launch each: older versions of NCCL launch them in the order of their first calls, newer
// ones in that of their ids, so they are known where both orders are one.
func (f *Follower) join(g *group) {
	defer g.clear()
	if g.unsure || len(g.comms) == 0 {
		return
	}
	each := Call{}
	if g.same && g.launches == g.calls {
		each.Bytes = g.bytes
	}
	single := len(g.comms) == 1
	if single {
		each.Comm = g.comms[0].comm
		if g.launches == 1 {
			each.Bytes = g.comms[0].bytes
		}
	}
	ordered := !single && g.launches == len(g.comms) && g.ascending()
	at := -1
	for _, j := range g.made {
		if j.Node == 0 {
			at++
		}
		c := each
		if ordered && at >= 0 {
			c = Call{g.comms[at].comm, g.comms[at].bytes}
		}
		if j.Call = f.id(c); j.Call != 0 {
			f.joined = append(f.joined, j)
		}
	}
}

// ascending reports whether the communicators' first calls are in the order of their ids, all known.
func (g *group) ascending() bool {
	last := uint64(0)
	for _, p := range g.comms {
		if p.comm <= last {
			return false
		}
		last = p.comm
	}
	return true
}
