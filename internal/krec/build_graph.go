package krec

// A Graph is a graph under construction, or an executable one made of it.
type Graph struct {
	b     *Builder
	id    uint32
	nodes []graphNode
}

type graphNode struct {
	id     uint64
	name   string // of a kernel; a copy has none
	stream uint32
}

// Capture begins a graph.
func (b *Builder) Capture() *Graph {
	b.graphs++
	return &Graph{b: b, id: b.graphs}
}

// Kernel captures a kernel launch: a launch call, within it the creation of a node.
func (g *Graph) Kernel(name string, stream uint32) {
	launch := g.b.Launch()
	g.node(graphNode{name: name, stream: stream})
	g.b.add(&Captured{Correlation: launch})
}

// Copy captures a copy: a node that no launch call makes.
func (g *Graph) Copy(stream uint32) { g.node(graphNode{stream: stream}) }

func (g *Graph) node(n graphNode) {
	n.id = uint64(g.id)<<32 | uint64(len(g.nodes))
	g.nodes = append(g.nodes, n)
	g.b.add(&NodeCreated{Node: n.id, Thread: g.b.thread})
}

// Instantiate makes an executable graph: as CUPTI tells it, each of its nodes is created and then a clone.
func (g *Graph) Instantiate() *Graph {
	g.b.graphs++
	exec := &Graph{b: g.b, id: g.b.graphs}
	for _, n := range g.nodes {
		original := n.id
		exec.node(n)
		g.b.add(&NodeCloned{Original: original, Clone: exec.nodes[len(exec.nodes)-1].id})
	}
	g.b.add(&GraphExec{Graph: g.id, Exec: exec.id})
	return exec
}

// Update gives an executable graph the nodes of another graph, as cuGraphExecUpdate does: its ids stay.
func (exec *Graph) Update(g *Graph) {
	for i, n := range g.nodes {
		exec.nodes[i].name, exec.nodes[i].stream = n.name, n.stream
		exec.b.add(&NodeCloned{Original: n.id, Clone: exec.nodes[i].id})
	}
}

// Launch launches an executable graph: its nodes run one after the other from after ns from now on, each for long ns
// with gap ns between two. It returns the correlation id.
func (exec *Graph) Launch(after, long, gap uint64) uint32 {
	id := exec.b.launch(514)
	at := exec.b.now + after
	for _, n := range exec.nodes {
		if n.name == "" {
			exec.b.Copy(id, n.stream, n.id, at, at+long, 1<<20)
		} else {
			exec.b.Kernel(id, n.name, n.stream, n.id, at, at+long)
		}
		at += long + gap
	}
	return id
}
