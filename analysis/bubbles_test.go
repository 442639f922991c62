package duckdb_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/analysis/duck"
	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/chunk/chunktest"
)

// bubbles are all rows of bubbles.sql.
func bubbles(t *testing.T, dir, run string) []row {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "queries", "bubbles.sql"))
	require.NoError(t, err)
	require.Contains(t, string(text), " limit 50;")
	return open(t, duck.Archive{Dir: dir, Run: run}).query("%s", strings.Replace(string(text), " limit 50;", ";", 1))
}

// total is the sum of a rank's gaps.
func total(rows []row, rank int64) (gaps, ns int64) {
	for _, r := range rows {
		if r.int("rank") == rank {
			gaps, ns = gaps+r.int("gaps"), ns+r.ns("total_ms")
		}
	}
	return gaps, ns
}

var recorded = []struct {
	name string
	rank int64
}{{"tp2.rank0", 0}, {"tp2.rank1", 1}, {"solo.rank0", 0}}

// TestBubblesAreWhereNoKernelRuns sweeps over the recordings' kernels from the first step to the last.
func TestBubblesAreWhereNoKernelRuns(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "tp2", tp2(t, "tp2")...)
	write(t, dir, "solo", solo(t, "solo")...)
	for _, one := range recorded {
		kernels := kernelsOf(t, record(t, one.name).Recording)
		from, to := stepsOf(kernels)
		want := holes(kernels, from, to)
		rows := bubbles(t, dir, one.name[:strings.IndexByte(one.name, '.')])
		gaps, ns := total(rows, one.rank)
		require.EqualValues(t, len(want), gaps, one.name)
		require.Equal(t, sum(want), ns, one.name)
		pct, next := 0.0, int64(0)
		for _, r := range rows {
			if r.int("rank") == one.rank {
				pct += r.float("pct")
				require.LessOrEqual(t, r.float("copy_ms"), r.float("total_ms"))
				require.LessOrEqual(t, r.float("p50_us"), r.float("p99_us"))
				if r.text("before") == "(next step)" {
					next += r.int("gaps")
				}
			}
		}
		require.InDelta(t, 100*float64(sum(want))/float64(to-from), pct, 0.0005*float64(len(rows)), one.name)
		require.Positive(t, next)
	}
}

// TestBubblesAreTheCollectorsIdle has kernels in no step, so that gaps count from the first kernel to the last, as
// kern_device_seconds_total does: that is the recordings' idle_ns.
func TestBubblesAreTheCollectorsIdle(t *testing.T) {
	dir := t.TempDir()
	for _, one := range recorded {
		for _, r := range ranks(t, one.name, one.name, one.rank) {
			r.Steps = slices.Clone(r.Steps)
			for i := range r.Steps {
				r.Steps[i].Outside = true
			}
			write(t, dir, one.name, r)
		}
		rows := bubbles(t, dir, one.name)
		require.Len(t, rows, 1)
		require.Equal(t, "(no step)", rows[0].text("before"))
		require.Equal(t, expected(t, one.name).Idle, rows[0].ns("total_ms"), one.name)
	}
}

// A lane is kernels of one step, or of none.
type lane struct {
	seq     int64
	outside bool
	class   chunk.Class
	times   [][2]uint64 // start, duration
}

// rankOfLanes is a rank whose calls are named a, b, … in each lane.
func rankOfLanes(lanes ...lane) chunktest.Rank {
	r := chunktest.Rank{Identity: chunk.Identity{Run: "run", Host: "host"}}
	for _, l := range lanes {
		s := chunk.Step{Seq: l.seq, Outside: l.outside, Pairs: true, Complete: true, Shape: &chunk.Shape{}, Start: clock0 + l.times[0][0]}
		if !l.outside {
			s.Program, s.Text = "decode", "step:decode"
		}
		for i, at := range l.times {
			s.Shape.Positions = append(s.Shape.Positions, chunk.Position{Call: string(rune('a' + i)), Name: "k", Class: l.class, Launch: uint32(i)})
			s.Launches = append(s.Launches, chunk.Launch{Correlation: uint32(i)})
			s.Starts, s.Durs = append(s.Starts, clock0+at[0]), append(s.Durs, at[1])
			s.End = max(s.End, clock0+at[0]+at[1])
		}
		r.Steps = append(r.Steps, s)
	}
	return r
}

// TestWhatEndsABubble has small steps whose gaps are plain to see, ns.
func TestWhatEndsABubble(t *testing.T) {
	type gap struct {
		before   string
		gaps, ns int64
	}
	check := func(want []gap, lanes ...lane) {
		t.Helper()
		dir := t.TempDir()
		write(t, dir, "x", rankOfLanes(lanes...))
		var got []gap
		for _, r := range bubbles(t, dir, "") {
			got = append(got, gap{r.text("before"), r.int("gaps"), r.ns("total_ms")})
		}
		require.ElementsMatch(t, want, got)
	}
	first := lane{seq: 1, times: [][2]uint64{{0, 100}, {300, 100}}}
	second := lane{seq: 2, times: [][2]uint64{{1000, 100}, {1100, 50}}}
	check([]gap{{"b", 1, 200}, {"(next step)", 1, 600}}, first, second)
	// A kernel outside any step splits what lies between steps, and covers a part; another fills the gap in the step.
	check([]gap{{"(next step)", 2, 500}}, first, second,
		lane{outside: true, times: [][2]uint64{{100, 200}}}, lane{outside: true, times: [][2]uint64{{500, 100}}})
	// A kernel before the first step and one after the last are no part of the time looked at.
	check([]gap{{"b", 1, 200}, {"(next step)", 1, 600}}, first, second,
		lane{outside: true, times: [][2]uint64{{2000, 100}}})
	// A step that overlaps: its kernels end the other's gaps.
	check([]gap{{"(next step)", 1, 50}, {"b", 2, 100}}, first,
		lane{seq: 2, times: [][2]uint64{{150, 100}, {450, 10}}})
	// A kernel that runs on beneath shorter ones.
	check([]gap{{"c", 1, 10}}, lane{seq: 1, times: [][2]uint64{{0, 1000}, {100, 10}, {1010, 5}}})
	// What only waits for the host is idle.
	check([]gap{{"b", 1, 200}, {"(next step)", 1, 600}}, first, second, lane{outside: true, class: chunk.Spin, times: [][2]uint64{{100, 900}}})
}

// TestCopiesInBubbles: a copy counts for the gap in which it begins, at most the whole of it.
func TestCopiesInBubbles(t *testing.T) {
	r := rankOfLanes(lane{seq: 1, times: [][2]uint64{{0, 100}, {300, 100}}}, lane{seq: 2, times: [][2]uint64{{1000, 100}}})
	for _, at := range [][2]uint64{{50, 20}, {150, 30}, {350, 5}, {500, 100}, {700, 900}} {
		r.Copies = append(r.Copies, chunk.Copy{Start: clock0 + at[0], Dur: at[1]})
	}
	dir := t.TempDir()
	write(t, dir, "x", r)
	got := map[string]int64{}
	for _, row := range bubbles(t, dir, "") {
		got[row.text("before")] = row.ns("copy_ms")
	}
	require.Equal(t, map[string]int64{"b": 30, "(next step)": 600}, got)
}

func copyAt(ns uint64) chunk.Copy { return chunk.Copy{Start: clock0 + ns, Dur: 3, Bytes: 64} }
