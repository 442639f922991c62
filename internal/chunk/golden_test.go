package chunk_test

import (
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/chunk"
)

var update = flag.Bool("update", false, "write testdata/v3.chunk anew")

// golden is what all versions can say.
func golden() (chunk.Identity, []chunk.Count, []chunk.Step, []chunk.Copy) {
	id := chunk.Identity{Run: "run", Rank: 3, Device: 1, Session: 77, Host: "host", GPU: "GPU-1", GPUName: "B200", Model: "m", Engine: "e", Version: "v", Mode: "hes"}
	counts := []chunk.Count{{Name: "received", Value: 300}, {Name: "late", Value: 1}}
	step := chunk.Step{
		Seq: 130, Pairs: true, Text: "step:decode seq=130,seqs=8,kv=4096", Program: "decode", Vars: "seqs=8", Seqs: 8, KV: 4096,
		Start: 1_795_958_536_239_992_113, End: 1_795_958_536_240_002_113, Compute: 7000, Comm: 2000, Overlap: 10, Idle: 1000, Foreign: 5, Complete: true,
		Shape: &chunk.Shape{Hash: 0x0123456789abcdef, Positions: []chunk.Position{
			{Call: "decode.layers.0.qkv", Op: "gemm", Name: "_Z4gemmv", Stream: 7, Grid: [3]uint32{132, 2, 1}, Block: [3]uint32{256, 1, 1}, Node: 12},
			{Call: "decode.layers.0.allreduce", Op: "ar", Name: "one_shot", Class: chunk.Comm, Fused: true, Stream: 9, Grid: [3]uint32{8, 1, 1}, Block: [3]uint32{512, 1, 1}, Node: 11},
			{Name: "sample", Stream: 7, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{32, 1, 1}, Launch: 2},
		}},
		Launches: []chunk.Launch{{Correlation: 9001, Graph: 4}, {Correlation: 9005}},
		Starts:   []uint64{1_795_958_536_239_992_113, 1_795_958_536_239_992_000, 1_795_958_536_240_002_081}, Durs: []uint64{8000, 2000, 32},
	}
	outside := chunk.Step{Outside: true, Start: step.Start, End: step.End, Shape: step.Shape, Launches: step.Launches, Starts: step.Starts, Durs: step.Durs}
	empty := chunk.Step{Seq: 131, Reason: "range_open", Start: 5, End: 5}
	copies := []chunk.Copy{{Start: 1_795_958_536_239_000_000, Dur: 640, Bytes: 1 << 20, Correlation: 8999, Stream: 7, Kind: 1, InStep: true, Seq: 130}, {Start: 1_795_958_536_239_000_700, Dur: 32, Bytes: 4, Node: 4<<32 | 13, Correlation: 9001, Memset: true}}
	return id, counts, []chunk.Step{step, outside, empty}, copies
}

// requireGolden holds what a file says to what was packed.
func requireGolden(t *testing.T, file []byte, id chunk.Identity, counts []chunk.Count, steps []chunk.Step, copies []chunk.Copy) {
	t.Helper()
	c, err := chunk.Unpack(file)
	require.NoError(t, err)
	require.Equal(t, id, c.Identity)
	require.Equal(t, counts, c.Counts)
	require.Equal(t, copies, c.Copies)
	for i, want := range steps {
		want.Last, want.Kernels = true, len(want.Starts)
		require.Equal(t, want, c.Steps[i])
	}
}

// TestVersion1IsRead holds that chunks of version 1 are still read: they lie in queues and journals over an update.
func TestVersion1IsRead(t *testing.T) {
	file, err := os.ReadFile("testdata/v1.chunk")
	require.NoError(t, err)
	id, counts, steps, copies := golden()
	requireGolden(t, file, id, counts, steps, copies)
}

// golden2 is what version 2 can say, too.
func golden2() (chunk.Identity, []chunk.Count, []chunk.Step, []chunk.Copy) {
	id, counts, steps, copies := golden()
	// What version 2 adds: a group by each source, the bytes of a message, occurrences.
	for _, i := range []int{0, 1} {
		s := *steps[i].Shape
		s.Positions = slices.Clone(s.Positions)
		s.Positions[0].Group, s.Positions[0].GroupBy = "tp:0", chunk.GroupSetting
		s.Positions[1].Group, s.Positions[1].GroupBy, s.Positions[1].Bytes = "nccl:00000000deadbeef", chunk.GroupNCCL, 1<<20
		s.Positions[2].Group, s.Positions[2].GroupBy = "pair0", chunk.GroupText
		steps[i].Shape = &s
	}
	steps[0].Seq, steps[0].Occurrence, steps[0].Group = 1<<61|3<<48|130, 3, "pair0"
	steps[2].Seq = steps[0].Seq + 1 // in its window
	copies[0].Seq, copies[0].Occurrence = steps[0].Seq, 3
	return id, counts, steps, copies
}

// TestVersion2IsRead holds that chunks of version 2 are still read.
func TestVersion2IsRead(t *testing.T) {
	file, err := os.ReadFile("testdata/v2.chunk")
	require.NoError(t, err)
	id, counts, steps, copies := golden2()
	requireGolden(t, file, id, counts, steps, copies)
}

// TestVersion3Stays holds that what is packed, and read, as version 3 never changes.
func TestVersion3Stays(t *testing.T) {
	const file = "testdata/v3.chunk"
	id, counts, steps, copies := golden2()
	// What version 3 adds: what the range says, with an end and without; a step that was not traced; requests.
	steps[0].Issued = chunk.Issued{Push: steps[0].Start - 70_000, Pop: steps[0].Start - 10_000, Thread: 4711, Level: 1, Device: 9_900}
	steps[0].Requests = []chunk.Request{
		{ID: "cmpl-1", Trace: "0af7651916cd43dd8448eb211c80319c", Tokens: 1, Cached: 4095}, {ID: "cmpl-2", Tokens: 7},
	}
	steps[2].Untraced, steps[2].Issued = true, chunk.Issued{Push: 5, Thread: 1 << 31, Level: 2}
	var body []byte
	p := chunk.NewPacker(id, func(s *chunk.Sealed) { body = append(body, s.Body...) })
	p.Count(counts)
	for i := range steps {
		require.NoError(t, p.Add(&steps[i]))
	}
	p.AddCopies(copies)
	p.Cut()
	if *update {
		require.NoError(t, os.WriteFile(file, body, 0o644))
	}
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, written, body)
	requireGolden(t, written, id, counts, steps, copies)
}

// TestShapesOfOneHashKeepTheirGroups: the hash leaves groups out, so it does not name a shape within a chunk.
func TestShapesOfOneHashKeepTheirGroups(t *testing.T) {
	of := func(group string) chunk.Step {
		return chunk.Step{Shape: &chunk.Shape{Hash: 7, Positions: []chunk.Position{{Group: group, GroupBy: chunk.GroupNCCL}}},
			Launches: make([]chunk.Launch, 1), Starts: []uint64{1}, Durs: []uint64{1}}
	}
	steps := []chunk.Step{of("nccl:01"), of("nccl:02")}
	chunks, _ := pack(t, chunk.Identity{}, steps, nil)
	require.Equal(t, steps, whole(t, chunks))
}
