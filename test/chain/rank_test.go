//go:build chain

package chain_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A rank is all that was exported of one rank of a session that has ended.
type rank struct {
	sessionLine
	steps []stepLine // in order of first start
	acks  []ackLine  // of its session
	n     numbers
}

// ranks gives the ranks of a run whose sessions have ended, in order, after it has held their numbers against each other.
func (c *collector) ranks(t testing.TB, run string) []*rank {
	t.Helper()
	d := c.read(t).of(run)
	require.NotEmpty(t, d.sessions, "no session of %s has ended", run)
	pages := scrape(t, c.metrics)
	var ranks []*rank
	for _, s := range d.sessions {
		instance := fmt.Sprintf("%s/%d/%s", s.Run, s.Rank, s.PID)
		require.Contains(t, pages, instance)
		r := &rank{sessionLine: s, n: pages[instance].numbers}
		for _, l := range d.steps {
			if l.Session == s.Session && l.Device == s.Device {
				r.steps = append(r.steps, l)
			}
		}
		for _, a := range d.acks {
			if a.Session == s.Session {
				r.acks = append(r.acks, a)
			}
		}
		sortSteps(r.steps)
		ranks = append(ranks, r)
	}
	slices.SortFunc(ranks, func(a, b *rank) int { return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Session, b.Session)) })
	for _, r := range ranks {
		r.addsUp(t)
		r.agrees(t)
		r.sumsSteps(t)
	}
	acknowledged(t, ranks)
	return ranks
}

func sortSteps(steps []stepLine) {
	slices.SortStableFunc(steps, func(a, b stepLine) int {
		return cmp.Or(cmp.Compare(a.StartNS, b.StartNS), cmp.Compare(a.EndNS, b.EndNS), cmp.Compare(a.Text, b.Text))
	})
}

// addsUp fails unless device time adds up to wall time and each record became one thing.
func (r *rank) addsUp(t testing.TB) {
	t.Helper()
	kind := func(k string) int64 { return r.n.ns(`kern_device_seconds_total{kind="` + k + `"}`) }
	assert.Equal(t, r.WatermarkNS-r.FirstNS, kind("compute")+kind("comm")+kind("idle")+kind("unknown"),
		"%s/%d: compute + comm + idle + unknown, and last watermark - first start", r.Run, r.Rank)
	assert.Equal(t, r.LastNS, r.WatermarkNS, "%s/%d: at the end the watermark is the last kernel's end", r.Run, r.Rank)
	assert.Equal(t, r.Kernels, r.InSteps+r.Outside+r.Late+r.Invalid+r.Duplicate, "%s/%d: what became of the kernels", r.Run, r.Rank)
	residues := 0
	for s, v := range r.n {
		if strings.Contains(s, "_residue") {
			residues++
			assert.Zero(t, v, "%s/%d: %s", r.Run, r.Rank, s)
		}
	}
	assert.GreaterOrEqual(t, residues, 2, "%s/%d: residues", r.Run, r.Rank)
	assert.Zero(t, r.Pending, "%s/%d: pending", r.Run, r.Rank)
	kernels := 0
	ids := map[string]bool{}
	for _, s := range r.steps {
		assert.False(t, ids[s.ID], "%s/%d: step %s is there twice", r.Run, r.Rank, s.ID)
		ids[s.ID] = true
		kernels += s.Kernels
	}
	assert.Equal(t, r.InSteps, kernels, "%s/%d: kernels of the step lines", r.Run, r.Rank)
}

// agrees fails unless the metrics say what the session's line says.
func (r *rank) agrees(t testing.TB) {
	t.Helper()
	for s, want := range map[series]int64{
		`kern_device_seconds_total{kind="compute"}`: r.ComputeNS, `kern_device_seconds_total{kind="comm"}`: r.CommNS,
		`kern_device_seconds_total{kind="idle"}`: r.IdleNS, `kern_device_seconds_total{kind="unknown"}`: r.UnknownNS,
		`kern_device_overlapped_comm_seconds_total`: r.OverlapNS, `kern_device_copy_seconds_total`: r.CopyNS,
	} {
		assert.Equal(t, want, r.n.ns(s), "%s/%d: %s", r.Run, r.Rank, s)
	}
	for s, want := range map[series]int{
		`kern_kernels_received_total`: r.Kernels, `kern_kernels_pending`: r.Pending, `kern_kernels_missing_total`: r.Missing,
		`kern_kernels_total{state="in_step"}`: r.InSteps, `kern_kernels_total{state="outside"}`: r.Outside,
		`kern_kernels_total{state="late"}`: r.Late, `kern_kernels_total{state="invalid"}`: r.Invalid,
		`kern_kernels_total{state="duplicate"}`: r.Duplicate, `kern_kernels_comm_total`: r.CommKernels,
		`kern_kernels_labelled_total`: r.Called, `kern_launches_total`: r.Launches,
		`kern_launches_captured_total`: r.CapturedLaunches, `kern_launches_unfulfilled_total`: r.Unfulfilled,
	} {
		assert.Equal(t, want, r.n.count(s), "%s/%d: %s", r.Run, r.Rank, s)
	}
	assert.Equal(t, r.StepRanges, int(r.n.sum("kern_step_ranges_total")), "%s/%d: step ranges", r.Run, r.Rank)
	assert.Equal(t, r.StepsComplete, int(r.n.sum("kern_steps_total")), "%s/%d: complete steps", r.Run, r.Rank)
	for name, by := range map[string]struct {
		label  string
		counts map[string]int
	}{
		"kern_steps_incomplete_total":      {"reason", r.StepsIncomplete},
		"kern_kernels_invalid_total":       {"reason", r.InvalidBy},
		"kern_trace_dropped_records_total": {"reason", r.Dropped},
		"kern_copies_total":                {"copy", r.Copies},
	} {
		all := 0
		for text, want := range by.counts {
			s := fmt.Sprintf("%s{%s=%q}", name, by.label, text)
			assert.Equal(t, want, r.n.count(s), "%s/%d: %s", r.Run, r.Rank, s)
			all += want
		}
		assert.Equal(t, all, int(r.n.sum(name)), "%s/%d: sum of %s", r.Run, r.Rank, name)
	}
}

// sumsSteps fails unless the metrics of steps are the sums of the lines of complete ones.
func (r *rank) sumsSteps(t testing.TB) {
	t.Helper()
	type sum struct {
		steps, compute, comm, foreign int64
		walls                         []int64
	}
	sums := map[string]*sum{}
	complete, incomplete := 0, map[string]int{}
	for _, s := range r.steps {
		if s.Untraced {
			continue // neither complete nor incomplete
		}
		if !s.Complete {
			incomplete[s.Reason]++
			continue
		}
		complete++
		labels := labelsOf(s.Text)
		if sums[labels] == nil {
			sums[labels] = &sum{}
		}
		to := sums[labels]
		to.steps++
		to.compute += s.ComputeNS
		to.comm += s.CommNS
		to.foreign += s.ForeignComputeNS
		to.walls = append(to.walls, s.WallNS)
	}
	assert.Equal(t, r.StepsComplete, complete, "%s/%d: complete step lines", r.Run, r.Rank)
	assert.Equal(t, nonZero(r.StepsIncomplete), incomplete, "%s/%d: incomplete step lines", r.Run, r.Rank)
	for labels, want := range sums {
		where := fmt.Sprintf("%s/%d: %s", r.Run, r.Rank, labels)
		assert.Equal(t, want.steps, int64(r.n["kern_steps_total"+labels]), "%s: steps", where)
		assert.Equal(t, want.compute, r.n.ns("kern_step_compute_seconds_total"+labels), "%s: compute", where)
		assert.Equal(t, want.comm, r.n.ns("kern_step_comm_seconds_total"+labels), "%s: comm", where)
		assert.Equal(t, want.foreign, r.n.ns("kern_step_foreign_compute_seconds_total"+labels), "%s: foreign", where)
		assert.Equal(t, want.steps, int64(r.n["kern_step_seconds_count"+labels]), "%s: histogram's count", where)
		wall := int64(0)
		for _, w := range want.walls {
			wall += w
		}
		assert.Equal(t, wall, r.n.ns("kern_step_seconds_sum"+labels), "%s: histogram's sum", where)
	}
	assert.Equal(t, complete, int(r.n.sum("kern_step_seconds_count")), "%s/%d: all histograms' counts", r.Run, r.Rank)
	for s, v := range r.n {
		if !strings.HasPrefix(s, "kern_step_seconds_bucket{") {
			continue
		}
		labels, bound := cutBound(t, s)
		below := 0
		for _, w := range sums[labels].walls {
			if float64(w)/1e9 <= bound {
				below++
			}
		}
		assert.Equal(t, below, int(v), "%s/%d: %s", r.Run, r.Rank, s)
	}
}

// acknowledged fails unless the ack lines of each session count what its ranks have outside of steps.
func acknowledged(t testing.TB, ranks []*rank) {
	t.Helper()
	type loose struct{ outside, late, invalid, duplicate int }
	want, got := map[string]loose{}, map[string]loose{}
	for _, r := range ranks {
		l := want[r.Session]
		want[r.Session] = loose{l.outside + r.Outside, l.late + r.Late, l.invalid + r.Invalid, l.duplicate + r.Duplicate}
		var sum loose
		for _, a := range r.acks {
			sum = loose{sum.outside + a.Outside, sum.late + a.Late, sum.invalid + a.Invalid, sum.duplicate + a.Duplicate}
		}
		got[r.Session] = sum
	}
	assert.Equal(t, want, got, "ack lines, by session")
}

func nonZero(counts map[string]int) map[string]int {
	kept := map[string]int{}
	for k, n := range counts {
		if n != 0 {
			kept[k] = n
		}
	}
	return kept
}

// cutBound takes a bucket's label le out of its series.
func cutBound(t testing.TB, s series) (labels string, bound float64) {
	t.Helper()
	name, labels, _ := strings.Cut(s, "{")
	require.NotEmpty(t, name)
	var kept []string
	for pair := range strings.SplitSeq(strings.TrimSuffix(labels, "}"), ",") {
		if le, ok := strings.CutPrefix(pair, "le="); ok {
			var err error
			bound, err = strconv.ParseFloat(strings.Trim(le, `"`), 64)
			require.NoError(t, err)
			continue
		}
		kept = append(kept, pair)
	}
	return "{" + strings.Join(kept, ",") + "}", bound
}

var (
	batchEdges = []int64{1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768}
	kvEdges    = []int64{1024, 4096, 16384, 65536, 131072, 262144, 1048576}
)

// labelsOf is the labels of the metrics of a step with that text.
func labelsOf(text string) string {
	program, pairs, _ := strings.Cut(strings.TrimPrefix(text, "step:"), " ")
	values := map[string]int64{}
	for pair := range strings.SplitSeq(pairs, ",") {
		k, v, _ := strings.Cut(pair, "=")
		values[k], _ = strconv.ParseInt(v, 10, 64)
	}
	seqs := max(values["seqs"], 1)
	return fmt.Sprintf("{batch=%q,kv=%q,program=%q}", bucket(cmp.Or(values["tokens"], values["seqs"]), batchEdges),
		bucket((values["kv"]+seqs-1)/seqs, kvEdges), program)
}

func bucket(n int64, edges []int64) string {
	if n == 0 {
		return "unknown"
	}
	for _, e := range edges {
		if n <= e {
			return strconv.FormatInt(e, 10)
		}
	}
	return "+Inf"
}
