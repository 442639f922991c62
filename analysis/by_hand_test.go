package duckdb_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/analysis/duck"
	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/chunk/chunktest"
)

// handmade is ranks 0 and 1, ten decode steps each. The gemm of step n takes n µs on rank 0 and n + 10 µs on rank 1; then nothing
// runs for 1 µs, then an all-reduce takes 2 µs.
func handmade() (ranks []chunktest.Rank) {
	shape := &chunk.Shape{Positions: []chunk.Position{
		{Call: "mlp", Op: "dense", Name: "gemm"}, {Call: "reduce", Op: "ar", Name: "nccl", Class: chunk.Comm, Launch: 1},
	}}
	for rank := range int64(2) {
		r := chunktest.Rank{Identity: chunk.Identity{Run: "run", Rank: rank, Host: "host"}}
		for n := uint64(1); n <= 10; n++ {
			at, gemm := clock0+n*100_000, (n+10*uint64(rank))*1000
			r.Steps = append(r.Steps, chunk.Step{
				Seq: int64(n), Pairs: true, Complete: n != 10, Program: "decode", Seqs: 8, Tokens: 8, KV: 8 * 2000, Start: at, End: at + gemm + 3000,
				Compute: gemm, Comm: 2000, Idle: 1000, Foreign: 500 * n, Shape: shape, Launches: make([]chunk.Launch, 2),
				Starts: []uint64{at, at + gemm + 1000}, Durs: []uint64{gemm, 2000},
			})
		}
		ranks = append(ranks, r)
	}
	return ranks
}

func inDeltas(t *testing.T, r row, want map[string]float64) {
	t.Helper()
	for name, v := range want {
		require.InDelta(t, v, r.float(name), 1e-9, name)
	}
}

func TestSlowestCallsByHand(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "x", handmade()...)
	rows := open(t, duck.Archive{Dir: dir}).file("slowest_calls.sql")
	require.Len(t, rows, 2)
	for i, texts := range [][3]string{{"mlp", "dense", "compute"}, {"reduce", "ar", "comm"}} {
		require.Equal(t, texts, [3]string{rows[i].text("call"), rows[i].text("op"), rows[i].text("class")})
		require.Equal(t, "decode", rows[i].text("program"))
		require.EqualValues(t, 20, rows[i].int("kernels"))
	}
	// 1 to 10 and 11 to 20 µs: 210 of 250 µs in all. Half of 20 values lie at or below the tenth.
	inDeltas(t, rows[0], map[string]float64{"total_ms": 0.210, "pct": 84, "p50_us": 10, "p99_us": 20, "max_us": 20,
		"slowest_seq": 10, "slowest_occurrence": 0, "slowest_rank": 1})
	inDeltas(t, rows[1], map[string]float64{"total_ms": 0.040, "pct": 16, "p50_us": 2, "p99_us": 2, "max_us": 2})
}

func TestStepsByHand(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "x", handmade()...)
	rows := open(t, duck.Archive{Dir: dir}).file("steps.sql")
	require.Len(t, rows, 1)
	require.Equal(t, [3]string{"decode", "8", "4096"}, [3]string{rows[0].text("program"), rows[0].text("batch"), rows[0].text("kv")})
	// Complete are nine steps a rank: 4 to 12 and 14 to 22 µs. Of 18 values, the 9th, 17th and 18th are these quantiles.
	inDeltas(t, rows[0], map[string]float64{"steps": 18, "p50_ms": 0.012, "p90_ms": 0.021, "p99_ms": 0.022, "max_ms": 0.022,
		"compute_ms": 0.010, "comm_ms": 0.002, "idle_ms": 0.001, "foreign_ms": 0.0025})
}

// TestBubblesByHand: a gap of 1 µs in each step, and what lies between steps: 100 µs less the step.
func TestBubblesByHand(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "x", handmade()...)
	rows := bubbles(t, dir, "")
	require.Len(t, rows, 4)
	require.Equal(t, []any{int64(0), "decode", "(next step)"}, []any{rows[0]["rank"], rows[0]["program"], rows[0]["before"]})
	// Rank 0: 9 gaps of 96 to 88 µs, of 913 µs from the first step's start to the last one's end.
	inDeltas(t, rows[0], map[string]float64{"gaps": 9, "total_ms": 0.828, "copy_ms": 0, "pct": 90.690, "p50_us": 92, "p99_us": 96})
	require.Equal(t, []any{int64(0), "decode", "reduce"}, []any{rows[2]["rank"], rows[2]["program"], rows[2]["before"]})
	inDeltas(t, rows[2], map[string]float64{"gaps": 10, "total_ms": 0.010, "copy_ms": 0, "pct": 1.095, "p50_us": 1, "p99_us": 1})
	require.Equal(t, int64(1), rows[1].int("rank"))
	inDeltas(t, rows[1], map[string]float64{"gaps": 9, "total_ms": 0.738})
}
