package parquet

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/chunk"
)

// TestEveryColumnByHand writes one step, a kernel outside any and two copies, of which no two values are equal that could be
// taken for each other, and reads every column of every table.
func TestEveryColumnByHand(t *testing.T) {
	step := chunk.Step{
		Seq: 1<<61 | 2<<48 | 70, Occurrence: 2, Pairs: true, Text: "step:decode seq=70,seqs=8,kv=4096", Program: "decode", Vars: "seqs=8", Group: "tp0",
		Seqs: 8, Tokens: 9, KV: 4096, Start: 1000, End: 2000, Compute: 401, Comm: 302, Overlap: 203, Idle: 297, Foreign: 104,
		Reason: "missing_records", Kernels: 2, Last: true,
		Issued:   chunk.Issued{Push: 900, Pop: 950, Thread: 61, Level: 62, Device: 963},
		Requests: []chunk.Request{{ID: "cmpl-1", Trace: "0af7651916cd43dd8448eb211c80319c", Tokens: 71, Cached: 72}, {ID: "#9", Tokens: 73}},
		Shape: &chunk.Shape{Hash: 1, Positions: []chunk.Position{
			{Call: "a.gemm", Op: "gemm", Name: "_Z4gemmi", Stream: 7, Grid: [3]uint32{11, 12, 13}, Block: [3]uint32{14, 15, 16}, Node: 5},
			{Call: "a.reduce", Op: "ar", Name: "reduce", Class: chunk.Comm, Fused: true, Group: "nccl:00000000deadbeef", GroupBy: chunk.GroupNCCL,
				Bytes: 1 << 20, Stream: 8, Grid: [3]uint32{21, 22, 23}, Block: [3]uint32{24, 25, 26}, Launch: 1},
		}},
		Launches: []chunk.Launch{{Correlation: 501, Graph: 3}, {Correlation: 502}}, Starts: []uint64{1000, 1500}, Durs: []uint64{450, 500},
	}
	outside := chunk.Step{
		Outside: true, Start: 3000, End: 3001, Kernels: 1, Last: true,
		Shape:    &chunk.Shape{Hash: 2, Positions: []chunk.Position{{Name: "hold", Class: chunk.Spin, Stream: 9, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}}},
		Launches: []chunk.Launch{{Correlation: 503}}, Starts: []uint64{3000}, Durs: []uint64{1},
	}
	c := &chunk.Chunk{
		Identity: chunk.Identity{Run: "r", Rank: 31, Device: 32, Session: 0xabc, Host: "h", GPU: "GPU-1", GPUName: "B200", Model: "m", Engine: "e", Version: "v", Mode: "hes"},
		Steps:    []chunk.Step{step, outside},
		Copies: []chunk.Copy{
			{Start: 1100, Dur: 41, Bytes: 42, Node: 3<<32 | 6, Correlation: 501, Stream: 43, Kind: 1, InStep: true, Seq: 70, Occurrence: 2},
			{Start: 4000, Dur: 44, Bytes: 45, Correlation: 504, Stream: 46, Memset: true},
		},
	}
	const seq = int64(1<<61 | 2<<48 | 70)
	type columns map[string][]any
	n := func(values ...int64) (all []any) {
		for _, v := range values {
			all = append(all, v)
		}
		return all
	}
	for table, want := range map[Table]columns{
		Kernels: {
			"run": {"r", "r", "r"}, "rank": n(31, 31, 31), "device": n(32, 32, 32), "session": {"0000000000000abc", "0000000000000abc", "0000000000000abc"},
			"seq": {seq, seq, nil}, "occurrence": n(2, 2, 0), "program": {"decode", "decode", ""},
			"call": {"a.gemm", "a.reduce", ""}, "op": {"gemm", "ar", ""},
			"group": {"", "nccl:00000000deadbeef", ""}, "group_source": {"", "nccl", ""}, "bytes": n(0, 1<<20, 0),
			"kernel": {"gemm(int)", "reduce", "hold"}, "symbol": {"_Z4gemmi", "reduce", "hold"},
			"class": {"compute", "comm", "spin"}, "fused": {false, true, false},
			"start_ns": n(1000, 1500, 3000), "dur_ns": n(450, 500, 1), "stream": n(7, 8, 9),
			"graph_node_id": n(3<<32|5, 0, 0), "correlation_id": n(501, 502, 503), "pos": n(0, 1, 0),
			"grid_x": n(11, 21, 1), "grid_y": n(12, 22, 1), "grid_z": n(13, 23, 1),
			"block_x": n(14, 24, 1), "block_y": n(15, 25, 1), "block_z": n(16, 26, 1),
		},
		Steps: {
			"run": {"r"}, "rank": n(31), "device": n(32), "session": {"0000000000000abc"}, "seq": n(seq), "occurrence": n(2), "pairs": {true},
			"program": {"decode"}, "text": {"step:decode seq=70,seqs=8,kv=4096"}, "vars": {"seqs=8"}, "group": {"tp0"},
			"seqs": n(8), "tokens": n(9), "kv": n(4096), "start_ns": n(1000), "end_ns": n(2000), "compute_ns": n(401), "comm_ns": n(302),
			"overlap_ns": n(203), "idle_ns": n(297), "foreign_compute_ns": n(104), "kernels": n(2), "complete": {false}, "reason": {"missing_records"},
			"host": {"h"}, "gpu": {"GPU-1"}, "gpu_name": {"B200"}, "model": {"m"}, "engine": {"e"}, "version": {"v"}, "mode": {"hes"},
			"traced": {true}, "range_start_ns": n(900), "range_ns": n(50), "thread": n(61), "level": n(62), "device_ns": n(963),
		},
		Requests: {
			"run": {"r", "r"}, "rank": n(31, 31), "device": n(32, 32), "session": {"0000000000000abc", "0000000000000abc"}, "seq": n(seq, seq),
			"occurrence": n(2, 2), "start_ns": n(1000, 1000), "request": {"cmpl-1", "#9"}, "tokens": n(71, 73), "cached": n(72, 0),
			"trace_id": {"0af7651916cd43dd8448eb211c80319c", ""},
		},
		Copies: {
			"run": {"r", "r"}, "rank": n(31, 31), "device": n(32, 32), "session": {"0000000000000abc", "0000000000000abc"}, "seq": {int64(70), nil},
			"occurrence": n(2, 0), "kind": {"HtoD", "memset"}, "bytes": n(42, 45), "start_ns": n(1100, 4000), "dur_ns": n(41, 44),
			"stream": n(43, 46), "graph_node_id": n(3<<32|6, 0), "correlation_id": n(501, 504),
		},
	} {
		b := write(t, table, Options{}, c)
		for reader, read := range readers {
			got := read(t, b)
			for name, values := range want {
				assert.Equal(t, values, got[name], "%s: %s of table %s", reader, name, table)
			}
			require.Len(t, got, len(want), "table %s has columns that this test does not know", table)
		}
	}
}

// TestAStepThatWasNotTracedByHand has what its range says, and nothing of a device.
func TestAStepThatWasNotTracedByHand(t *testing.T) {
	c := &chunk.Chunk{Steps: []chunk.Step{
		{Seq: 7, Start: 900, End: 900, Untraced: true, Reason: "not_traced", Last: true, Issued: chunk.Issued{Push: 900, Pop: 950, Thread: 61, Level: 1}},
		{Seq: 8, Start: 990, End: 990, Untraced: true, Reason: "range_open", Last: true, Issued: chunk.Issued{Push: 990, Thread: 61, Level: 1, Device: 5}},
	}}
	b := write(t, Steps, Options{}, c)
	for reader, read := range readers {
		got := read(t, b)
		for name, want := range map[string][]any{
			"traced": {false, false}, "complete": {nil, nil}, "end_ns": {nil, nil}, "compute_ns": {nil, nil}, "comm_ns": {nil, nil}, "overlap_ns": {nil, nil},
			"idle_ns": {nil, nil}, "foreign_compute_ns": {nil, nil}, "start_ns": {int64(900), int64(990)}, "range_start_ns": {int64(900), int64(990)},
			"range_ns": {int64(50), nil}, "device_ns": {nil, int64(5)}, "reason": {"not_traced", "range_open"}, "seq": {int64(7), int64(8)},
		} {
			assert.Equal(t, want, got[name], "%s: %s", reader, name)
		}
	}
}

// TestKindsOfCopiesByHand: CUpti_ActivityMemcpyKind of cupti_activity.h.
func TestKindsOfCopiesByHand(t *testing.T) {
	for kind, want := range map[uint8]string{0: "unknown", 1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD",
		9: "HtoH", 10: "PtoP", 11: "unknown", 255: "unknown"} {
		assert.Equal(t, want, chunk.CopyName(false, kind), "%d", kind)
	}
}
