package duckdb_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/analysis/duck"
	"github.com/kernhes/kernhes/analysis/report"
)

// roundOf is the times of the steps of a round of tp2, of all ranks: 63 steps each.
func roundOf(t *testing.T, d *db, round int64) (from, to time.Time) {
	t.Helper()
	r := d.query("select min(start_ns) as a, max(end_ns) as b from s where seq between %d and %d", (round-1)*63, round*63-1)[0]
	return time.Unix(0, r.int("a")), time.Unix(0, r.int("b"))
}

// Rank 1 was disturbed in round 2 of 3, and nothing else was wrong.
func TestTheReportNamesTheDisturbedRankOfTp2AndNothingElse(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "tp2", tp2(t, "tp2")...)
	r, err := report.Make(report.Options{Archive: duck.Archive{Dir: dir}})
	require.NoError(t, err)
	require.Len(t, r.Findings, 1)
	f := r.Findings[0]
	assert.Equal(t, "foreign", f.Kind)
	assert.EqualValues(t, 1, f.Rank)
	from, to := roundOf(t, open(t, duck.Archive{Dir: dir}), 2)
	slice := 100 * time.Millisecond
	assert.True(t, f.From.After(from.Add(-slice)), "%v is before round 2 at %v", f.From, from)
	assert.True(t, f.To.Before(to.Add(slice)), "%v is after round 2 at %v", f.To, to)
	assert.EqualValues(t, 2, r.Ranks)
	assert.EqualValues(t, 378, r.Steps)

	// The same, as JSON and as pages; each section shows its query.
	var b bytes.Buffer
	require.NoError(t, r.WriteJSON(&b))
	var back report.Report
	require.NoError(t, json.Unmarshal(b.Bytes(), &back))
	assert.Equal(t, r.Findings, back.Findings)
	b.Reset()
	require.NoError(t, r.WriteHTML(&b))
	page := b.String()
	assert.Contains(t, page, "Rank 1: other work computes on its GPU")
	assert.Equal(t, len(r.Sections), strings.Count(page, "<summary>The query</summary>"))
	assert.Equal(t, 4, strings.Count(page, "<svg"), "ranks, percentiles, calls, waits")
	assert.NotContains(t, page, "<script")
	b.Reset()
	require.NoError(t, r.WriteMarkdown(&b))
	assert.Contains(t, b.String(), "- **foreign** Rank 1:")
}

func TestAReportOfAPartAndOfNothing(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "tp2", tp2(t, "tp2")...)
	from, to := roundOf(t, open(t, duck.Archive{Dir: dir}), 3)
	r, err := report.Make(report.Options{Archive: duck.Archive{Dir: dir}, From: from, To: to})
	require.NoError(t, err)
	assert.Empty(t, r.Findings)
	assert.EqualValues(t, 126, r.Steps)
	_, err = report.Make(report.Options{Archive: duck.Archive{Dir: dir}, From: to.Add(time.Hour)})
	require.ErrorContains(t, err, "no step of run")
	_, err = report.Make(report.Options{Archive: duck.Archive{Dir: dir + "/none"}})
	require.Error(t, err)
}

// Each nanosecond from a rank's first step to its last counts once.
func TestTheCostAddsUpToTheTimeOfTheGPUs(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "tp2", tp2(t, "tp2")...)
	d := open(t, duck.Archive{Dir: dir})
	var sum, want float64
	for _, r := range d.file("cost.sql") {
		sum += r.float("used_s") + r.float("waited_s") + r.float("idle_s") + r.float("unknown_s")
	}
	for _, name := range []string{"tp2.rank0", "tp2.rank1"} { // kernels in steps, as the oracle has them, which knows no SQL
		first, last := int64(1<<62), int64(0)
		for _, k := range record(t, name).work.Kernels {
			if k.Step >= 0 {
				first, last = min(first, k.Start), max(last, k.End)
			}
		}
		want += float64(last-first) / 1e9
	}
	assert.InDelta(t, want, sum, 1e-6)
}

// Parts of mix and inside add up to the change of the mean step, which is worked out here from the recording's own figures.
func TestWhatChangedAddsUp(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "solo", solo(t, "solo")...)
	d := open(t, duck.Archive{Dir: dir})
	var walls [2][]float64
	steps := d.query("select start_ns, end_ns from s order by start_ns")
	middle := (steps[0].int("start_ns") + d.query("select max(end_ns) as e from s")[0].int("e")) / 2
	for _, s := range steps {
		half := 0
		if s.int("start_ns") >= middle {
			half = 1
		}
		walls[half] = append(walls[half], float64(s.int("end_ns")-s.int("start_ns"))/1e6)
	}
	mean := func(v []float64) (m float64) {
		for _, x := range v {
			m += x / float64(len(v))
		}
		return m
	}
	rows := d.file("what_changed.sql")
	var parts, all float64
	for _, r := range rows {
		if r.text("program") == "all" {
			all += r.float("change_ms")
			assert.InDelta(t, mean(walls[0]), r.float("ms_a"), 1e-6)
			assert.InDelta(t, mean(walls[1]), r.float("ms_b"), 1e-6)
		} else {
			parts += r.float("change_ms")
		}
	}
	assert.InDelta(t, mean(walls[1])-mean(walls[0]), all, 1e-6)
	assert.InDelta(t, all, parts, 1e-6)
	assert.Greater(t, len(rows), 4)
}
