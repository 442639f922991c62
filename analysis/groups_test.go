package duckdb_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/analysis/duck"
	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/chunk/chunktest"
)

// A collective is one all-reduce: what it takes on each rank, µs, and their group. 0: the rank has no such kernel.
type collective struct {
	seq    int64
	groups map[int64]string
	durs   map[int64]uint64
}

// meeting are ranks that compute 5 µs and then meet in all-reduces. Ranks without any still compute.
func meeting(ranks int64, all ...collective) (out []chunktest.Rank) {
	for rank := range ranks {
		r := chunktest.Rank{Identity: chunk.Identity{Run: "run", Rank: rank, Session: 0xab00 + uint64(rank), Version: "v1", Host: "host"}}
		for i, one := range all {
			at := clock0 + uint64(i)*1_000_000
			s := chunk.Step{Seq: one.seq, Pairs: true, Complete: true, Program: "decode", Vars: "seqs=1", Seqs: 1, Start: at, End: at + 5000,
				Shape:    &chunk.Shape{Hash: uint64(i), Positions: []chunk.Position{{Call: "mlp", Name: "gemm"}}},
				Launches: []chunk.Launch{{Correlation: 1}}, Starts: []uint64{at}, Durs: []uint64{5000}}
			if dur := one.durs[rank] * 1000; dur > 0 {
				p := chunk.Position{Call: "all_reduce", Name: "ncclDevKernel_AllReduce", Class: chunk.Comm, Launch: 1, Group: one.groups[rank]}
				if p.Group != "" {
					p.GroupBy, p.Bytes = chunk.GroupSetting, 8192
				}
				s.Shape.Positions = append(s.Shape.Positions, p)
				s.Launches = append(s.Launches, chunk.Launch{Correlation: 2})
				s.Starts, s.Durs, s.End = append(s.Starts, at+5000), append(s.Durs, dur), at+5000+dur
			}
			r.Steps = append(r.Steps, s)
		}
		out = append(out, r)
	}
	return out
}

// A meet is a row of waits.sql, µs; -1: nothing is said.
type meet struct {
	group                             string
	rank, ranks, times, missing       int64
	wait, blame, transfer, lastPermil int64
}

func meets(t *testing.T, dir string) (all []meet) {
	t.Helper()
	us := func(r row, name string, by float64) int64 {
		if r[name] == nil {
			return -1
		}
		return int64(r.float(name)*by + 0.5)
	}
	for _, r := range open(t, duck.Archive{Dir: dir}).file("waits.sql") {
		require.Equal(t, "all_reduce", r.text("call"))
		all = append(all, meet{r.text("group"), r.int("rank"), r.int("ranks"), r.int("times"), r.int("missing"),
			us(r, "wait_ms", 1000), us(r, "blame_ms", 1000), us(r, "transfer_ms", 1000), us(r, "last_pct", 10)})
	}
	return all
}

var pairs = map[int64]string{0: "tp:0", 1: "tp:0", 2: "tp:1", 3: "tp:1"}

func TestWaitsAreWithinAGroup(t *testing.T) {
	check := func(name string, want []meet, ranks ...chunktest.Rank) {
		t.Helper()
		dir := t.TempDir()
		write(t, dir, "x", ranks...)
		require.ElementsMatch(t, want, meets(t, dir), name)
	}
	two := func(groups map[int64]string) []collective {
		return []collective{
			{1, groups, map[int64]uint64{0: 10, 1: 13, 2: 1010, 3: 1010}},
			{2, groups, map[int64]uint64{0: 10, 1: 10, 2: 14, 3: 10}},
		}
	}
	check("two pairs", []meet{
		{"tp:0", 0, 2, 2, 0, 0, 3, 20, 1000}, {"tp:0", 1, 2, 2, 0, 3, 0, 20, 0},
		{"tp:1", 2, 2, 2, 0, 4, 0, 1020, 500}, {"tp:1", 3, 2, 2, 0, 0, 4, 1020, 500},
	}, meeting(4, two(pairs)...)...)
	check("two pairs of which nothing is known", []meet{
		{"assumed: all 4 ranks", 0, 4, 2, 0, 0, 2003 + 4, 20, 1000}, {"assumed: all 4 ranks", 1, 4, 2, 0, 3, 0, 20, 0},
		{"assumed: all 4 ranks", 2, 4, 2, 0, 1004, 0, 20, 0}, {"assumed: all 4 ranks", 3, 4, 2, 0, 1000, 0, 20, 0},
	}, meeting(4, two(nil)...)...)
	check("a rank without collectives", []meet{
		{"assumed: 2 of 3 ranks", 0, 2, 1, 0, 2, 0, 10, 0}, {"assumed: 2 of 3 ranks", 1, 2, 1, 0, 0, 2, 10, 1000},
	}, meeting(3, collective{1, nil, map[int64]uint64{0: 12, 1: 10}})...)
	check("a rank that is missing once", []meet{
		{"tp:0", 0, 2, 1, 1, 2, 0, 10, 0}, {"tp:0", 1, 2, 1, 0, 0, 2, 10, 1000},
	}, meeting(2, collective{1, pairs, map[int64]uint64{0: 12, 1: 10}}, collective{2, pairs, map[int64]uint64{0: 500}})...)
	check("a rank whose pair is not in the archive", []meet{
		{"tp:0", 0, 2, 1, 0, 2, 0, 10, 0}, {"tp:0", 1, 2, 1, 0, 0, 2, 10, 1000}, {"tp:1", 2, 1, 0, 1, -1, -1, -1, -1},
	}, meeting(3, collective{1, pairs, map[int64]uint64{0: 12, 1: 10, 2: 9}})...)
}

// TestStepsOfOneSeqAreApart: joins by (rank, seq) double nothing, though the engine gave one number to two steps; people read
// the number that it gave.
func TestStepsOfOneSeqAreApart(t *testing.T) {
	const again = 1<<61 | 1<<48 | 7
	dir := t.TempDir()
	ranks := meeting(2, collective{7, nil, map[int64]uint64{0: 12, 1: 10}}, collective{again, nil, map[int64]uint64{0: 10, 1: 15}})
	for i := range ranks {
		ranks[i].Steps[1].Occurrence = 1
	}
	write(t, dir, "x", ranks...)
	d := open(t, duck.Archive{Dir: dir})
	require.EqualValues(t, 8, d.query("select count(*) as n from k join s using (rank, seq)")[0].int("n"))
	require.Equal(t, []row{{"session": "000000000000ab00", "seq": int64(7), "occurrence": int64(0), "n": int64(2)}, {"session": "000000000000ab00", "seq": int64(7), "occurrence": int64(1), "n": int64(2)}},
		d.query("select session, plain_seq(seq) as seq, occurrence, count(*) as n from k where rank = 0 group by all order by all"))
	require.Equal(t, []meet{{"assumed: all 2 ranks", 1, 2, 2, 0, 5, 2, 20, 500}, {"assumed: all 2 ranks", 0, 2, 2, 0, 2, 5, 20, 500}}, sorted(meets(t, dir)))
	slowest := d.file("slowest_calls.sql")[0]
	require.Equal(t, []any{int64(7), int64(1), int64(1)}, []any{slowest["slowest_seq"], slowest["slowest_occurrence"], slowest["slowest_rank"]})
	// An older version gave both steps one number: they are told apart by nothing, so they count for no wait.
	for i := range ranks {
		ranks[i].Steps[1].Seq = 7
	}
	older := t.TempDir()
	write(t, older, "x", ranks...)
	require.Empty(t, meets(t, older))
}

// sorted has rank 1 before 0.
func sorted(all []meet) []meet {
	if len(all) == 2 && all[0].rank == 0 {
		all[0], all[1] = all[1], all[0]
	}
	return all
}

// TestABComparesLikeGroups: of two runs, a pair is compared with the pair of the same ranks, whatever its communicator is
// called; the time of a collective is that of its own last rank.
func TestABComparesLikeGroups(t *testing.T) {
	run := func(name string, number int, slower uint64) []chunktest.Rank {
		groups := map[int64]string{}
		for rank, pair := range pairs {
			groups[rank] = fmt.Sprintf("nccl:%s%d", pair, number)
		}
		var all []collective
		for seq := range int64(60) {
			noise := uint64(seq % 3)
			all = append(all, collective{seq + 1, groups, map[int64]uint64{0: 10 + noise, 1: 30, 2: 1000 + slower + noise, 3: 1050 + slower}})
		}
		ranks := meeting(4, all...)
		for i := range ranks {
			ranks[i].Run = name
			for k := range ranks[i].Steps {
				s := &ranks[i].Steps[k]
				s.Start, s.End = s.Start+uint64(number)*1e12, s.End+uint64(number)*1e12
				for n := range s.Starts {
					s.Starts[n] += uint64(number) * 1e12
				}
			}
		}
		return ranks
	}
	dir := t.TempDir()
	write(t, dir, "a", run("a", 0, 0)...)
	b := run("b", 1, 100)
	b[3].Steps = b[3].Steps[:59] // a rank is missing in one step
	write(t, dir, "b", b...)
	got := map[string][]float64{}
	for _, r := range open(t, duck.Archive{Dir: dir}).file("ab.sql") {
		got[r.text("class")+" "+r.text("group")] = []float64{r.float("us_a"), r.float("us_b"), r.float("steps_a"), r.float("steps_b"), r.float("missing_a"), r.float("missing_b")}
		require.Equal(t, r.text("group") == "ranks 2,3", r["differs"].(bool), r)
	}
	require.Len(t, got, 3)
	require.InDeltaSlice(t, []float64{11, 11, 60, 60, 0, 0}, got["comm ranks 0,1"], 0.001)
	require.InDeltaSlice(t, []float64{1001, 1101, 60, 59, 0, 1}, got["comm ranks 2,3"], 0.05)
	require.InDeltaSlice(t, []float64{5, 5, 60, 60, 0, 0}, got["compute "], 0.001)
}

// TestAnswersSayWhatTheyRestOn: that a group is assumed, and why there is nothing.
func TestAnswersSayWhatTheyRestOn(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "x", newFourRanks("x").ranks...)
	d := open(t, duck.Archive{Dir: dir})
	const assumed = "assumed: 4 of 4 ranks of the run are one group"
	for _, r := range d.file("share.sql") {
		require.Equal(t, map[bool]string{true: assumed}[r.text("what") == "waiting in MoE"], r.text("note"))
	}
	for _, r := range d.file("context.sql") {
		require.Equal(t, map[bool]string{true: assumed}[r.text("what") == "waiting in MoE"], r.text("note"))
	}
	for _, r := range d.file("moe_layers.sql") {
		require.Equal(t, assumed, r.text("note"))
	}
	d = open(t, duck.Archive{Dir: recordings(t)})
	for file, why := range map[string]string{
		"context.sql":    "no step of program prefill has 32,768 tokens of one sequence: vars is not seqs=1,tokens=32768",
		"moe_layers.sql": "no comm kernel of program prefill has an op like mega_moe and a call like prefill.target.moe.layers.N",
	} {
		rows := d.file(file)
		require.Len(t, rows, 1, file)
		require.Equal(t, why, rows[0].text("note"))
	}
	none := t.TempDir()
	write(t, none, "x", meeting(2, collective{1, nil, map[int64]uint64{0: 12, 1: 10}})...)
	d = open(t, duck.Archive{Dir: none})
	for _, file := range []string{"context.sql", "moe_layers.sql", "share.sql"} {
		rows := d.file(file)
		require.Len(t, rows, 1, file)
		require.Equal(t, "no step of program prefill in this run", rows[0].text("note"))
	}
}

// TestSharesWaitWithinAGroup: experts of two pairs, and a rank that is missing.
func TestSharesWaitWithinAGroup(t *testing.T) {
	const call = "prefill.target.moe.layers.8.experts"
	dir := t.TempDir()
	ranks := meeting(4, collective{1, pairs, map[int64]uint64{0: 10, 1: 30, 2: 1000, 3: 1050}}, collective{2, pairs, map[int64]uint64{0: 10, 1: 30, 2: 1000}})
	for i := range ranks {
		for k := range ranks[i].Steps {
			s := &ranks[i].Steps[k]
			s.Program, s.Vars, s.KV = "prefill", "seqs=1,tokens=32768", 40_000
			for n := range s.Shape.Positions {
				if p := &s.Shape.Positions[n]; p.Class == chunk.Comm {
					p.Call, p.Op = call, "mega_moe"
				}
			}
		}
	}
	write(t, dir, "x", ranks...)
	d := open(t, duck.Archive{Dir: dir})
	const missing = "1 of 7 kernels lack a rank and count no waiting"
	got := map[string]row{}
	for _, r := range d.file("context.sql") {
		got[r.text("what")] = r
	}
	require.Equal(t, missing, got["waiting in MoE"].text("note"))
	// 20 + 50 + 20 µs of waiting over the 7 steps of a rank that have experts; what is left of 10+30+1000+1050+10+30+1000.
	require.InDelta(t, 90.0/7, got["waiting in MoE"].float("ms")*1000, 0.001)
	require.InDelta(t, (3130-90.0)/7, got["MoE"].float("ms")*1000, 0.001)
	layer := d.file("moe_layers.sql")
	require.Len(t, layer, 1)
	require.EqualValues(t, []int64{8, 3}, []int64{layer[0].int("layer"), layer[0].int("steps")})
	require.InDelta(t, 0.05, layer[0].float("wait_max_ms"), 1e-9)
	require.InDelta(t, 0.02, layer[0].float("wait_p50_ms"), 1e-9)
	require.InDelta(t, 0.01, layer[0].float("p50_ms"), 1e-9)
	require.Equal(t, "1 of 4 kernels lack a rank and count no waiting", layer[0].text("note"))
}
