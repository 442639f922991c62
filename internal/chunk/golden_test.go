package chunk_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/chunk"
)

// TestVersion1Stays holds that what is packed, and read, as version 1 never changes: chunks lie in queues over an update.
func TestVersion1Stays(t *testing.T) {
	const file = "testdata/v1.chunk"
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
	var body []byte
	p := chunk.NewPacker(id, func(s *chunk.Sealed) { body = append(body, s.Body...) })
	p.Count(counts)
	for _, s := range []chunk.Step{step, outside, empty} {
		require.NoError(t, p.Add(&s))
	}
	p.AddCopies(copies)
	p.Cut()
	golden, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, golden, body)
	c, err := chunk.Unpack(golden)
	require.NoError(t, err)
	require.Equal(t, id, c.Identity)
	require.Equal(t, counts, c.Counts)
	require.Equal(t, copies, c.Copies)
	for i, want := range []chunk.Step{step, outside, empty} {
		want.Last, want.Kernels = true, len(want.Starts)
		require.Equal(t, want, c.Steps[i])
	}
}
