package cupti

import (
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

// A Node is a node of a graph, as far as it matters to kernels.
type Node struct {
	Label  uint32      // call in which it was captured; 0: none
	Comm   uint32      // what it communicates, by nccl.Follower; 0: not known
	Static wire.Static // of its last kernel
	Class  span.Class
	low    uint32 // of its id
	kind   kind
}

// A kind is what is known of a node's records.
type kind uint8

const (
	unknown  kind = iota // no replay gave a record of it so far
	launched             // made inside a launch call: each replay gives one kernel
	built                // a replay gave a kernel, though no launch call made the node
	copied               // a replay gave a copy or memset, so each does
	silent               // CUPTI says that it is of a type that gives no record
	gone                 // forgotten
	kinds
)

// gives reports whether the node gives kernels.
func (n *Node) gives() bool { return n.kind == launched || n.kind == built }

// kindOf is the kind of a new node. CUPTI gives the CUgraphNodeType of some nodes, and 0 otherwise.
func kindOf(inLaunch bool, nodeType uint32) kind {
	const host, empty, waitEvent, batchMemOp = 3, 5, 6, 12 // and between the last two: events, semaphores, memory
	switch {
	case inLaunch:
		return launched
	case nodeType == host, nodeType == empty, nodeType >= waitEvent && nodeType <= batchMemOp:
		return silent
	}
	return unknown
}

// Low is the low half of the node's id, which is its index in its graph.
func (n *Node) Low() uint32 { return n.low }

// A Graph is the nodes of one graph or executable graph, by its CUPTI graph id. The position of a
// node in Nodes orders the kernels of a replay, whatever order they ran in.
type Graph struct {
	ID      uint32
	Serial  uint64 // of the graph in its session: ids are used again
	Nodes   []Node
	Version uint32 // changes when a node's label or static does

	index     map[uint32]uint32 // low id → position, of nodes whose position is another
	count     [kinds]int        // nodes by kind
	partial   bool              // records came of nodes whose creation was not seen, or of a child graph
	proven    bool              // a replay was seen to its end, so nodes that are unknown gave nothing in it
	changes   uint32            // of its nodes
	forgotten bool
	classes   uint32 // the Joiner's when its nodes were classed
}

// Kernels is how many kernels a replay gives, as far as that is known.
func (g *Graph) Kernels() int { return g.count[launched] + g.count[built] }

// counted reports whether a replay that has a record of each kernel and copy is whole. It is if all nodes are known for
// what they give. Nodes that a whole replay had no record of, events say, give nothing: but a node that gives a kernel
// although no launch made it shows that there are others than stream capture makes, which may be switched on and off.
func (g *Graph) counted() bool {
	return !g.partial && len(g.Nodes) > 0 && (g.count[unknown] == 0 || g.proven && g.count[built] == 0)
}

// unchecked reports whether a kernel that is missing in a replay need not show.
func (g *Graph) unchecked() bool {
	return g.partial || len(g.Nodes) == 0 || g.count[unknown] > 0 && g.count[built] > 0
}

// Node is the node at a position, or nil.
func (g *Graph) Node(position uint32) *Node {
	if int(position) >= len(g.Nodes) {
		return nil
	}
	return &g.Nodes[position]
}

// reclass asks anew for the classes of a graph's nodes.
func (j *Joiner) reclass(g *Graph) {
	g.classes = j.classes
	for i := range g.Nodes {
		if n := &g.Nodes[i]; n.Static != (wire.Static{}) {
			id := n.Static.Name()
			n.Class = j.class(n.Label, id, j.Kernel(id))
		}
	}
}

// position finds a node by the low half of its id.
func (g *Graph) position(low uint32) (int, bool) {
	if int(low) < len(g.Nodes) && g.Nodes[low].low == low {
		return int(low), true
	}
	p, ok := g.index[low]
	return int(p), ok
}

// add appends a node.
func (g *Graph) add(low uint32) *Node {
	if int(low) != len(g.Nodes) {
		if g.index == nil {
			g.index = map[uint32]uint32{}
		}
		g.index[low] = uint32(len(g.Nodes))
	}
	g.Nodes = append(g.Nodes, Node{low: low})
	g.count[unknown]++
	g.changed()
	return &g.Nodes[len(g.Nodes)-1]
}

// changed takes note that nodes are other ones: what replays showed of those that were unknown says nothing any more.
func (g *Graph) changed() {
	g.changes++
	g.proven = false
}

// turn gives a node its kind.
func (g *Graph) turn(n *Node, to kind) {
	g.count[n.kind]--
	g.count[to]++
	n.kind = to
}

// set makes a node anew, with a label, what it communicates, and a kind.
func (g *Graph) set(n *Node, label, comm uint32, to kind) {
	g.turn(n, to)
	g.changed()
	g.describe(n, label, comm)
}

// describe gives a node its label and what it communicates.
func (g *Graph) describe(n *Node, label, comm uint32) {
	if n.Label != label {
		n.Label = label
		g.Version++
		g.classes = 0
	}
	if n.Comm != comm {
		n.Comm = comm
		g.Version++
	}
}

// graph returns the graph with an id; make says to begin it anew if it is unknown or was forgotten, unless there is no room.
func (j *Joiner) graph(id uint32, make bool) *Graph {
	g := j.graphs[id]
	if !make || g != nil && !g.forgotten {
		return g
	}
	if g != nil {
		j.nodes -= len(g.Nodes)
	} else if j.Full || len(j.graphs) >= j.limits.Graphs {
		return nil
	}
	j.serial++
	g = &Graph{ID: id, Serial: j.serial}
	j.graphs[id] = g
	return g
}

// node returns the node with an id, making it if there is room for it.
func (j *Joiner) node(id uint64) (*Graph, *Node) {
	g := j.graph(uint32(id>>32), true)
	if g == nil {
		j.Refused.Nodes++
		return nil, nil
	}
	if p, ok := g.position(uint32(id)); ok {
		return g, &g.Nodes[p]
	}
	if j.Full || j.nodes >= j.limits.Nodes {
		j.Refused.Nodes++
		return g, nil
	}
	j.nodes++
	return g, g.add(uint32(id))
}

// NodeCreated takes a node of a CUgraphNodeType made while the label was open on its thread, and what it communicates.
func (j *Joiner) NodeCreated(id uint64, inLaunch bool, nodeType, label, comm uint32) {
	if g, n := j.node(id); n != nil {
		g.set(n, label, comm, kindOf(inLaunch, nodeType))
	}
}

// NodeCommunicates takes what a node communicates, where that became known after it was made.
func (j *Joiner) NodeCommunicates(id uint64, comm uint32) {
	g := j.graph(uint32(id>>32), false)
	if g == nil || g.forgotten {
		return
	}
	if p, ok := g.position(uint32(id)); ok {
		n := &g.Nodes[p]
		g.describe(n, n.Label, comm)
	}
}

// NodeCloned gives a clone the label of its original; also when an executable graph is updated.
// A clone of an unseen original has none: what was open while it was instantiated says nothing.
func (j *Joiner) NodeCloned(original, clone uint64) {
	var from Node
	if g := j.graph(uint32(original>>32), false); g != nil {
		if p, ok := g.position(uint32(original)); ok {
			from = g.Nodes[p]
		}
	}
	if from.kind != launched && from.kind != silent { // what a replay showed, it showed of another graph
		from.kind = unknown
	}
	if g, n := j.node(clone); n != nil {
		g.set(n, from.Label, from.Comm, from.kind)
	}
}

// GraphForgotten takes the end of a graph. Its nodes stay until the id is used again, for replays
// that are still running, but no more than the limit.
func (j *Joiner) GraphForgotten(id uint32) {
	g := j.graphs[id]
	if g == nil || g.forgotten {
		return
	}
	g.forgotten = true
	j.forgotten = append(j.forgotten, g)
	for len(j.forgotten) > maxForgotten {
		old := j.forgotten[0]
		j.forgotten = j.forgotten[1:]
		if j.graphs[old.ID] == old {
			delete(j.graphs, old.ID)
			j.nodes -= len(old.Nodes)
		}
	}
}

// NodeForgotten takes the end of a node.
func (j *Joiner) NodeForgotten(id uint64) {
	if g := j.graphs[uint32(id>>32)]; g != nil && !g.forgotten {
		if p, ok := g.position(uint32(id)); ok {
			g.set(&g.Nodes[p], 0, 0, gone)
		}
	}
}

// maxForgotten is how many ended graphs are kept for records that are still to come.
const maxForgotten = 64
