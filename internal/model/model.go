// Package model holds what a step of kernels is, for all packages. It imports nothing of ours.
package model

// A Class says what a kernel's time, or a copy's, counts as.
type Class uint8

// Classes. Two bits hold one. The numbers are those of chunks and archives.
const (
	Compute Class = 0
	Comm    Class = 1
	Copying Class = 2 // copies and memsets
	Spin    Class = 3 // a kernel that only waits for the host: idle
)

// ClassNames are the classes as tables write them.
var ClassNames = [4]string{Compute: "compute", Comm: "comm", Copying: "copy", Spin: "spin"}

func (c Class) String() string { return ClassNames[c&3] }

// An Identity says whose steps a chunk holds. Everything but Run, Rank and Device may be empty.
type Identity struct {
	Run     string
	Rank    int64
	Device  uint16
	Session uint64 // of the engine process
	Host    string
	GPU     string // its UUID
	GPUName string
	Model   string
	Engine  string
	Version string // of the engine, or its manifest's hash
	Mode    string // hes, software or off, as it really was
}

// A Position is what is known of the kernel at one place of a step without its times. It is comparable.
type Position struct {
	Call  string // label; empty: none
	Op    string // empty: not known
	Name  string // as CUPTI gave it, mangled or not; empty: not known
	Class Class  // Compute, Comm or Spin
	Fused bool   // communicates and computes
	// Group is the group of ranks that the call communicates with; empty: not known, or it computes.
	Group   string
	GroupBy GroupBy // what gave Group
	Bytes   uint64  // of the call's message; 0: not known
	Stream  uint32
	Grid    [3]uint32
	Block   [3]uint32
	Launch  uint32 // ordinal of its launch in the step; ascends over the positions
	Node    uint32 // low half of the graph node's id; 0 if not from a graph
}

// GroupBy is what gave the group of a call. The numbers are those of the format.
type GroupBy uint8

// What gives the group of a call.
const (
	GroupUnknown GroupBy = 0
	GroupNCCL    GroupBy = 1 // NCCL's range payload
	GroupText    GroupBy = 2 // group= in the text of the step's range
	GroupSetting GroupBy = 3 // the receiver's setting
)

// GroupSources are the names of GroupBy as tables write them.
var GroupSources = [4]string{GroupUnknown: "", GroupNCCL: "nccl", GroupText: "text", GroupSetting: "setting"}

// A Shape is the positions of a step, in order of launch. It is shared and never changes.
type Shape struct {
	Hash      uint64 // of all positions without their groups: equal shapes have equal hashes
	Positions []Position
}

// A Launch is a launch that has kernels in a step.
type Launch struct {
	Correlation uint32
	Graph       uint32 // CUPTI's id of the executable graph; with Position.Node it gives the graph node's id. 0: not a graph's
}

// NodeID is CUPTI's graphNodeId of a kernel at position p, 0 if it is not from a graph.
func (l Launch) NodeID(p *Position) uint64 {
	if l.Graph == 0 {
		return 0
	}
	return uint64(l.Graph)<<32 | uint64(p.Node)
}

// A Step is one step of the rank, or kernels outside any. In a chunk it may be a part of one: a step that fits no chunk
// whole is split over several.
type Step struct {
	Outside bool // kernels of no step: of the fields below only the shape and the columns count

	Seq int64
	// Occurrence counts the steps of the session with this seq in its text, from 0.
	Occurrence uint32
	Pairs      bool // seq is the same as on other ranks
	Text       string
	Program    string
	Vars       string
	Group      string // that Text gives; empty: none
	Seqs       int64
	Tokens     int64
	KV         int64

	Start    uint64 // unix ns: first kernel's start
	End      uint64 // unix ns: last kernel's end
	Compute  uint64 // ns: union of compute kernels
	Comm     uint64 // ns: what comm kernels add to that
	Overlap  uint64 // ns: comm under compute
	Idle     uint64 // ns
	Foreign  uint64 // ns: compute of others since the latest end of an earlier step
	Complete bool
	// Untraced: nothing was traced while it ran. It is neither complete nor incomplete, and of the numbers above only Start counts.
	Untraced bool
	Reason   string // why it is not complete
	Issued   Issued
	Requests []StepRequest // that it computes, as far as the engine says them

	Shape    *Shape
	Launches []Launch // one for each run of positions of equal Launch, in order
	Starts   []uint64 // unix ns, by position
	Durs     []uint64 // ns, by position

	// Of a step that was read: a Packer takes whole ones and does not look at these.
	Offset  int  // of its first kernel in the whole step
	Kernels int  // of the whole step
	Last    bool // this is the last part, or the whole
}

// An Issued is what the range of a step, and marks of its engine, say of it without any kernel.
type Issued struct {
	Push   uint64 // unix ns, by the host: its range began; 0: not known
	Pop    uint64 // likewise: it ended; 0: its end was not seen
	Thread uint32 // that pushed it
	Level  uint32 // steps that were open on the thread, itself counted
	Device uint64 // ns on the device, by the engine's own measure; 0: not known
}

// Range is how long the range was open, ns; false: that is not known.
func (i *Issued) Range() (ns uint64, ok bool) {
	if i.Push == 0 || i.Pop < i.Push {
		return 0, false
	}
	return i.Pop - i.Push, true
}

// A StepRequest is a request in a step.
type StepRequest struct {
	ID     string // the engine's
	Trace  string // id of the request's trace, 32 hexadecimal digits; empty: not known
	Tokens uint32 // that the step computes for it
	Cached uint32 // its tokens in the KV cache before
}

// A Copy is a copy or memset.
type Copy struct {
	Start       uint64 // unix ns
	Dur         uint64 // ns
	Bytes       uint64
	Node        uint64 // CUPTI's graphNodeId; 0: not from a graph
	Correlation uint32
	Stream      uint32
	Memset      bool
	Kind        uint8 // CUpti_ActivityMemcpyKind; 0 for a memset
	InStep      bool
	Seq         int64  // of the step that it was launched in, if InStep
	Occurrence  uint32 // likewise
}

// A Count is one line of a rank's account: how many of its records became what, since its session began.
type Count struct {
	Name  string
	Value uint64
}
