package parquet

import (
	"fmt"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/parquet/pages"
)

// A Column is one column of a table.
type Column struct {
	Name     string
	Type     Type
	Encoding Encoding
	Null     string // when it is null; empty: never
	Doc      string
}

// A Type is what values a column has.
type Type string

// Types of columns. Texts are UTF-8.
const (
	Text  Type = "string"
	Int64 Type = "int64"
	Bool  Type = "bool"
)

// An Encoding is how a column's pages are encoded.
type Encoding string

// Encodings of columns, by what the recordings show: durations repeat, 1,900 different ones in 110,000; starts and what
// counts up are small as deltas; what a shape or a step gives is an index. BYTE_STREAM_SPLIT would be smaller still for
// durations, but DuckDB 1.5 refuses it for integers.
const (
	Dictionary Encoding = "dictionary"
	Delta      Encoding = "delta"
	Repeats    Encoding = "dictionary, or delta where too many values differ"
	Bits       Encoding = "bits"
)

// A value is one value of a column.
type value = pages.Value

func text(s string) value      { return value{Text: s} }
func num[T integer](n T) value { return value{Num: int64(n)} }

type integer interface {
	int | int64 | uint8 | uint16 | uint32 | uint64
}

func session(id *chunk.Identity) value { return text(fmt.Sprintf("%016x", id.Session)) }

func truth(b bool) value {
	if b {
		return value{Num: 1}
	}
	return value{}
}

// A kernelColumn is a column of k. One of the functions gives its values.
type kernelColumn struct {
	Column
	ofChunk  func(*chunk.Identity) value                      // the same for all of a chunk's kernels
	ofStep   func(*chunk.Step) value                          // the same for all of a step's kernels
	ofShape  func(*chunk.Position, func(string) string) value // the same for all steps of a shape; takes what demangles
	ofKernel func(*pages.Delta, *chunk.Step, *placed)         // adds one for each kernel
	times    func(*chunk.Step) []uint64                       // one for each kernel, and no rule in them
}

// A rowColumn is a column of a table whose rows stand for themselves.
type rowColumn[T any] struct {
	Column
	of func(*chunk.Identity, *T) value
}

// When columns are null.
const (
	outside   = "outside any step"
	notTraced = "it was not traced"
)

// traced is a value that a step has if it was traced.
func traced(s *chunk.Step, v value) value {
	if s.Untraced {
		return value{Null: true}
	}
	return v
}

// alwaysThere are the columns of s that were never null before it had the column traced.
var alwaysThere = []string{"end_ns", "compute_ns", "comm_ns", "overlap_ns", "idle_ns", "foreign_compute_ns", "complete"}

var kernelColumns = []kernelColumn{
	{Column{"run", Text, Dictionary, "", "the engine's start that it belongs to; seq counts anew with each"},
		func(id *chunk.Identity) value { return text(id.Run) }, nil, nil, nil, nil},
	{Column{"rank", Int64, Dictionary, "", "rank in the run"},
		func(id *chunk.Identity) value { return num(id.Rank) }, nil, nil, nil, nil},
	{Column{"device", Int64, Dictionary, "", "CUDA device of the engine process"},
		func(id *chunk.Identity) value { return num(id.Device) }, nil, nil, nil, nil},
	{Column{"session", Text, Dictionary, "", "the engine process, 16 hex digits; (run, rank, seq) names a step with or without it"},
		func(id *chunk.Identity) value { return session(id) }, nil, nil, nil, nil},
	{Column{"seq", Int64, Dictionary, outside, "number of the step; the same on all ranks of a run. From 2^61: of a later step with a seq that the session has had, 2^61 + occurrence × 2^48 + that seq. Above 2^62: a step that pairs with no other rank's"},
		nil, func(s *chunk.Step) value { return value{Num: s.Seq, Null: s.Outside} }, nil, nil, nil},
	{Column{"occurrence", Int64, Dictionary, "", "how many steps of the session with the same seq in their texts came before; 0 outside any step"},
		nil, func(s *chunk.Step) value { return num(s.Occurrence) }, nil, nil, nil},
	{Column{"program", Text, Dictionary, "", "what the step ran: prefill, decode, …; empty outside any step"},
		nil, func(s *chunk.Step) value { return text(s.Program) }, nil, nil, nil},
	{Column{"call", Text, Dictionary, "", "label of the call that launched it, such as prefill.target.moe.layers.8.experts; empty: none"},
		nil, nil, func(p *chunk.Position, _ func(string) string) value { return text(p.Call) }, nil, nil},
	{Column{"op", Text, Dictionary, "", "op of the call, from the engine's manifest; empty: not known"},
		nil, nil, func(p *chunk.Position, _ func(string) string) value { return text(p.Op) }, nil, nil},
	{Column{"group", Text, Dictionary, "", "of a comm kernel, the group of ranks that its call communicates with; empty: not known"},
		nil, nil, func(p *chunk.Position, _ func(string) string) value { return text(p.Group) }, nil, nil},
	{Column{"group_source", Text, Dictionary, "", "what gave `group`: nccl (its communicator), text (group= of the step's range) or setting (`groups` of the receiver); empty: nothing"},
		nil, nil, func(p *chunk.Position, _ func(string) string) value { return text(chunk.GroupSources[p.GroupBy&3]) }, nil, nil},
	{Column{"bytes", Int64, Dictionary, "", "of a comm kernel, the bytes of its call's message on this rank; 0: not known"},
		nil, nil, func(p *chunk.Position, _ func(string) string) value { return num(p.Bytes) }, nil, nil},
	{Column{"kernel", Text, Dictionary, "", "name of the kernel, demangled"},
		nil, nil, func(p *chunk.Position, demangled func(string) string) value { return text(demangled(p.Name)) }, nil, nil},
	{Column{"symbol", Text, Dictionary, "", "name of the kernel as CUPTI gave it, mangled where it is"},
		nil, nil, func(p *chunk.Position, _ func(string) string) value { return text(p.Name) }, nil, nil},
	{Column{"class", Text, Dictionary, "", "compute, comm, or spin for one that only waits for the host"},
		nil, nil, func(p *chunk.Position, _ func(string) string) value { return text(chunk.ClassNames[p.Class&3]) }, nil, nil},
	{Column{"fused", Bool, Bits, "", "computes and communicates; its class is comm"},
		nil, nil, func(p *chunk.Position, _ func(string) string) value { return truth(p.Fused) }, nil, nil},
	{Column{"start_ns", Int64, Delta, "", "start, unix ns. Clocks of two GPUs agree to 20 µs at best: don't compare starts across ranks"},
		nil, nil, nil, nil, func(s *chunk.Step) []uint64 { return s.Starts }},
	{Column{"dur_ns", Int64, Repeats, "", "duration, ns"},
		nil, nil, nil, nil, func(s *chunk.Step) []uint64 { return s.Durs }},
	{Column{"stream", Int64, Dictionary, "", "CUDA stream, CUPTI's number"},
		nil, nil, func(p *chunk.Position, _ func(string) string) value { return num(p.Stream) }, nil, nil},
	{Column{"graph_node_id", Int64, Delta, "", "CUPTI's id of the graph node (graph id × 2^32 + node); 0: not launched by a graph"},
		nil, nil, nil, addNodes, nil},
	{Column{"correlation_id", Int64, Delta, "", "CUPTI's id of the launch; all kernels of one graph launch share it"},
		nil, nil, nil, addCorrelations, nil},
	dimension("grid_x", "grid", func(p *chunk.Position) uint32 { return p.Grid[0] }),
	dimension("grid_y", "grid", func(p *chunk.Position) uint32 { return p.Grid[1] }),
	dimension("grid_z", "grid", func(p *chunk.Position) uint32 { return p.Grid[2] }),
	dimension("block_x", "block", func(p *chunk.Position) uint32 { return p.Block[0] }),
	dimension("block_y", "block", func(p *chunk.Position) uint32 { return p.Block[1] }),
	dimension("block_z", "block", func(p *chunk.Position) uint32 { return p.Block[2] }),
	{Column{"pos", Int64, Delta, "", "position of the kernel in its step, in order of launch, from 0"},
		nil, nil, nil, addPositions, nil},
}

func dimension(name, of string, get func(*chunk.Position) uint32) kernelColumn {
	return kernelColumn{Column{name, Int64, Dictionary, "", "size of the " + of}, nil, nil,
		func(p *chunk.Position, _ func(string) string) value { return num(get(p)) }, nil, nil}
}

var stepColumns = []rowColumn[chunk.Step]{
	{Column{"run", Text, Dictionary, "", "as in k"}, func(id *chunk.Identity, _ *chunk.Step) value { return text(id.Run) }},
	{Column{"rank", Int64, Dictionary, "", "as in k"}, func(id *chunk.Identity, _ *chunk.Step) value { return num(id.Rank) }},
	{Column{"device", Int64, Dictionary, "", "as in k"}, func(id *chunk.Identity, _ *chunk.Step) value { return num(id.Device) }},
	{Column{"session", Text, Dictionary, "", "as in k"}, func(id *chunk.Identity, _ *chunk.Step) value { return session(id) }},
	{Column{"seq", Int64, Delta, "", "as in k"}, func(_ *chunk.Identity, s *chunk.Step) value { return num(s.Seq) }},
	{Column{"occurrence", Int64, Dictionary, "", "as in k"}, func(_ *chunk.Identity, s *chunk.Step) value { return num(s.Occurrence) }},
	{Column{"pairs", Bool, Bits, "", "seq is the same as on other ranks"}, func(_ *chunk.Identity, s *chunk.Step) value { return truth(s.Pairs) }},
	{Column{"program", Text, Dictionary, "", "as in k"}, func(_ *chunk.Identity, s *chunk.Step) value { return text(s.Program) }},
	{Column{"text", Text, Dictionary, "", "the range that made the step, as the engine pushed it"}, func(_ *chunk.Identity, s *chunk.Step) value { return text(s.Text) }},
	{Column{"vars", Text, Dictionary, "", "the text's pairs without seq, rank, kv and group, in name order: seqs=1,tokens=32768"}, func(_ *chunk.Identity, s *chunk.Step) value { return text(s.Vars) }},
	{Column{"group", Text, Dictionary, "", "group that the text gives for the step's calls; empty: none"}, func(_ *chunk.Identity, s *chunk.Step) value { return text(s.Group) }},
	{Column{"seqs", Int64, Dictionary, "", "sequences in the batch; 0: not given"}, func(_ *chunk.Identity, s *chunk.Step) value { return num(s.Seqs) }},
	{Column{"tokens", Int64, Dictionary, "", "tokens computed; 0: not given"}, func(_ *chunk.Identity, s *chunk.Step) value { return num(s.Tokens) }},
	{Column{"kv", Int64, Dictionary, "", "context length, the sum over a batch; 0: not given"}, func(_ *chunk.Identity, s *chunk.Step) value { return num(s.KV) }},
	{Column{"start_ns", Int64, Delta, "", "first kernel's start, unix ns; of a step without kernels, and of one that was not traced, when its range began"}, func(_ *chunk.Identity, s *chunk.Step) value { return num(s.Start) }},
	{Column{"end_ns", Int64, Delta, notTraced, "last kernel's end, unix ns; of a step without kernels, `start_ns`"}, func(_ *chunk.Identity, s *chunk.Step) value { return traced(s, num(s.End)) }},
	{Column{"compute_ns", Int64, Delta, notTraced, "union of its compute kernels"}, func(_ *chunk.Identity, s *chunk.Step) value { return traced(s, num(s.Compute)) }},
	{Column{"comm_ns", Int64, Delta, notTraced, "what comm kernels add to that: exposed comm"}, func(_ *chunk.Identity, s *chunk.Step) value { return traced(s, num(s.Comm)) }},
	{Column{"overlap_ns", Int64, Delta, notTraced, "comm under compute"}, func(_ *chunk.Identity, s *chunk.Step) value { return traced(s, num(s.Overlap)) }},
	{Column{"idle_ns", Int64, Delta, notTraced, "first start to last end, less compute_ns and comm_ns"}, func(_ *chunk.Identity, s *chunk.Step) value { return traced(s, num(s.Idle)) }},
	{Column{"foreign_compute_ns", Int64, Delta, notTraced, "compute of this process that is not the step's, between the latest end of an earlier step and its own; 0 for the first"}, func(_ *chunk.Identity, s *chunk.Step) value { return traced(s, num(s.Foreign)) }},
	{Column{"kernels", Int64, Dictionary, "", "kernels of the step: its rows in k"}, func(_ *chunk.Identity, s *chunk.Step) value { return num(s.Kernels) }},
	{Column{"complete", Bool, Bits, notTraced, "each launch of the step has its records, and each record a time that can be believed"}, func(_ *chunk.Identity, s *chunk.Step) value { return traced(s, truth(s.Complete)) }},
	{Column{"reason", Text, Dictionary, "", "why it is not complete, or not_traced; empty: it is complete"}, func(_ *chunk.Identity, s *chunk.Step) value { return text(s.Reason) }},
	{Column{"host", Text, Dictionary, "", "host name"}, func(id *chunk.Identity, _ *chunk.Step) value { return text(id.Host) }},
	{Column{"gpu", Text, Dictionary, "", "UUID of the GPU"}, func(id *chunk.Identity, _ *chunk.Step) value { return text(id.GPU) }},
	{Column{"gpu_name", Text, Dictionary, "", "product name of the GPU"}, func(id *chunk.Identity, _ *chunk.Step) value { return text(id.GPUName) }},
	{Column{"model", Text, Dictionary, "", "model that the engine serves"}, func(id *chunk.Identity, _ *chunk.Step) value { return text(id.Model) }},
	{Column{"engine", Text, Dictionary, "", "name of the engine"}, func(id *chunk.Identity, _ *chunk.Step) value { return text(id.Engine) }},
	{Column{"version", Text, Dictionary, "", "version of the engine, or its manifest's hash"}, func(id *chunk.Identity, _ *chunk.Step) value { return text(id.Version) }},
	{Column{"mode", Text, Dictionary, "", "how kernels were traced: hes, software or off"}, func(id *chunk.Identity, _ *chunk.Step) value { return text(id.Mode) }},
	{Column{"traced", Bool, Bits, "", "kernels were traced while it ran; if not, it is neither complete nor incomplete"}, func(_ *chunk.Identity, s *chunk.Step) value { return truth(!s.Untraced) }},
	{Column{"range_start_ns", Int64, Delta, "not known", "when its range was pushed, unix ns by the host's clock"}, func(_ *chunk.Identity, s *chunk.Step) value {
		return value{Num: int64(s.Issued.Push), Null: s.Issued.Push == 0}
	}},
	{Column{"range_ns", Int64, Delta, "its end was not seen", "from the push of its range to the pop; an engine that runs ahead pops when all is launched"}, func(_ *chunk.Identity, s *chunk.Step) value {
		ns, ok := s.Issued.Range()
		return value{Num: int64(ns), Null: !ok}
	}},
	{Column{"thread", Int64, Dictionary, "", "thread of the engine that pushed it; 0: not known"}, func(_ *chunk.Identity, s *chunk.Step) value { return num(s.Issued.Thread) }},
	{Column{"level", Int64, Dictionary, "", "steps that were open on the thread, itself counted: 1, unless it lies in another; 0: not known"}, func(_ *chunk.Identity, s *chunk.Step) value { return num(s.Issued.Level) }},
	{Column{"device_ns", Int64, Delta, "not known", "its time on the device by the engine's own measure (CUDA events of a hook), traced or not"}, func(_ *chunk.Identity, s *chunk.Step) value {
		return value{Num: int64(s.Issued.Device), Null: s.Issued.Device == 0}
	}},
}

var copyColumns = []rowColumn[chunk.Copy]{
	{Column{"run", Text, Dictionary, "", "as in k"}, func(id *chunk.Identity, _ *chunk.Copy) value { return text(id.Run) }},
	{Column{"rank", Int64, Dictionary, "", "as in k"}, func(id *chunk.Identity, _ *chunk.Copy) value { return num(id.Rank) }},
	{Column{"device", Int64, Dictionary, "", "as in k"}, func(id *chunk.Identity, _ *chunk.Copy) value { return num(id.Device) }},
	{Column{"session", Text, Dictionary, "", "as in k"}, func(id *chunk.Identity, _ *chunk.Copy) value { return session(id) }},
	{Column{"seq", Int64, Dictionary, outside + ", or not known", "step that it was launched in: that of its graph launch, or else of the launches both before and after it by correlation_id"}, func(_ *chunk.Identity, c *chunk.Copy) value { return value{Num: c.Seq, Null: !c.InStep} }},
	{Column{"occurrence", Int64, Dictionary, "", "as in k"}, func(_ *chunk.Identity, c *chunk.Copy) value { return num(c.Occurrence) }},
	{Column{"kind", Text, Dictionary, "", "HtoD, DtoH, HtoA, AtoH, AtoA, AtoD, DtoA, DtoD, HtoH, PtoP, unknown, or memset"}, func(_ *chunk.Identity, c *chunk.Copy) value { return text(chunk.CopyName(c.Memset, uint8(c.Kind))) }},
	{Column{"bytes", Int64, Dictionary, "", "bytes copied or set"}, func(_ *chunk.Identity, c *chunk.Copy) value { return num(c.Bytes) }},
	{Column{"start_ns", Int64, Delta, "", "start, unix ns"}, func(_ *chunk.Identity, c *chunk.Copy) value { return num(c.Start) }},
	{Column{"dur_ns", Int64, Repeats, "", "duration, ns"}, func(_ *chunk.Identity, c *chunk.Copy) value { return num(c.Dur) }},
	{Column{"stream", Int64, Dictionary, "", "as in k"}, func(_ *chunk.Identity, c *chunk.Copy) value { return num(c.Stream) }},
	{Column{"graph_node_id", Int64, Delta, "", "as in k"}, func(_ *chunk.Identity, c *chunk.Copy) value { return num(c.Node) }},
	{Column{"correlation_id", Int64, Delta, "", "as in k"}, func(_ *chunk.Identity, c *chunk.Copy) value { return num(c.Correlation) }},
}

// A requestRow is a request in a step.
type requestRow struct {
	step *chunk.Step
	*chunk.Request
}

var requestColumns = []rowColumn[requestRow]{
	{Column{"run", Text, Dictionary, "", "as in k"}, func(id *chunk.Identity, _ *requestRow) value { return text(id.Run) }},
	{Column{"rank", Int64, Dictionary, "", "as in k; ranks that share their requests have them once, with the first"}, func(id *chunk.Identity, _ *requestRow) value { return num(id.Rank) }},
	{Column{"device", Int64, Dictionary, "", "as in k"}, func(id *chunk.Identity, _ *requestRow) value { return num(id.Device) }},
	{Column{"session", Text, Dictionary, "", "as in k"}, func(id *chunk.Identity, _ *requestRow) value { return session(id) }},
	{Column{"seq", Int64, Delta, "", "step that it was in, as in s"}, func(_ *chunk.Identity, r *requestRow) value { return num(r.step.Seq) }},
	{Column{"occurrence", Int64, Dictionary, "", "as in k"}, func(_ *chunk.Identity, r *requestRow) value { return num(r.step.Occurrence) }},
	{Column{"start_ns", Int64, Delta, "", "of the step, as in s"}, func(_ *chunk.Identity, r *requestRow) value { return num(r.step.Start) }},
	{Column{"request", Text, Dictionary, "", "id of the request, the engine's; # and a number where the collector did not hear it"}, func(_ *chunk.Identity, r *requestRow) value { return text(r.ID) }},
	{Column{"tokens", Int64, Dictionary, "", "tokens that the step computes for it"}, func(_ *chunk.Identity, r *requestRow) value { return num(r.Tokens) }},
	{Column{"cached", Int64, Repeats, "", "its tokens in the KV cache before the step"}, func(_ *chunk.Identity, r *requestRow) value { return num(r.Cached) }},
	{Column{"trace_id", Text, Dictionary, "", "id of the request's trace, 32 hex digits; empty: the engine gives none"}, func(_ *chunk.Identity, r *requestRow) value { return text(r.Trace) }},
}

// Columns are the columns of a table.
func Columns(t Table) (columns []Column) {
	switch t {
	case Kernels:
		for _, c := range kernelColumns {
			columns = append(columns, c.Column)
		}
	case Steps:
		for _, c := range stepColumns {
			columns = append(columns, c.Column)
		}
	case Copies:
		for _, c := range copyColumns {
			columns = append(columns, c.Column)
		}
	case Requests:
		for _, c := range requestColumns {
			columns = append(columns, c.Column)
		}
	}
	return columns
}
