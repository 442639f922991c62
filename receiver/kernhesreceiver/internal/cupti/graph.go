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
	kernel bool   // made inside a launch call, so each replay gives one kernel
	copy   bool   // a replay gave a copy or memset, so each does
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
	kernels   int               // nodes that give a kernel
	copies    int               // nodes that give a copy or memset, as far as a replay has shown
	guessed   bool              // kernels came from nodes not captured in a launch: the count says nothing
	forgotten bool
	classes   uint32 // the Joiner's when its nodes were classed
}

// Kernels is how many kernels a replay gives.
func (g *Graph) Kernels() int { return g.kernels }

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
	return &g.Nodes[len(g.Nodes)-1]
}

// set gives a node its label and what it communicates, and says whether it is a kernel.
func (g *Graph) set(n *Node, label, comm uint32, kernel bool) {
	if n.copy { // it may be another node now
		n.copy = false
		g.copies--
	}
	if n.kernel != kernel {
		if n.kernel = kernel; kernel {
			g.kernels++
		} else {
			g.kernels--
		}
	}
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
	} else if len(j.graphs) >= j.limits.Graphs {
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
	if j.nodes >= j.limits.Nodes {
		j.Refused.Nodes++
		return g, nil
	}
	j.nodes++
	return g, g.add(uint32(id))
}

// NodeCreated takes a node made while the label was open on its thread, and what it communicates.
func (j *Joiner) NodeCreated(id uint64, inLaunch bool, label, comm uint32) {
	if g, n := j.node(id); n != nil {
		g.set(n, label, comm, inLaunch)
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
		g.set(n, n.Label, comm, n.kernel)
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
	if g, n := j.node(clone); n != nil {
		g.set(n, from.Label, from.Comm, from.kernel)
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
			g.set(&g.Nodes[p], 0, 0, false)
		}
	}
}

// maxForgotten is how many ended graphs are kept for records that are still to come.
const maxForgotten = 64
