//go:build chain

package chain_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/kernhes/kernhes/internal/krec"
	"github.com/kernhes/kernhes/internal/oracle"
)

// stripped is a recording without seq in any text.
func stripped(t testing.TB, name string) *krec.Recording {
	t.Helper()
	// The mutation leaves some texts as they are in one seed of four.
	for seed := range uint64(64) {
		r, err := krec.Apply(load(t, name), seed, "strip-seq")
		require.NoError(t, err)
		if !hasSeq(r) {
			return r
		}
	}
	t.Fatal("no seed strips all")
	return nil
}

func hasSeq(r *krec.Recording) bool {
	for _, f := range r.Frames {
		if p, ok := f.(*krec.Push); ok && strings.Contains(p.Text, "seq=") {
			return true
		}
	}
	return false
}

// Every step of the recordings, as spans in a back end: kernel by kernel, both ranks of a step in one trace, by the seq in the
// texts and, without it, by the receiver's own count.
func TestTracesAreTheRecordings(t *testing.T) {
	for how, read := range map[string]func(testing.TB, string) *krec.Recording{"as recorded": load, "without seq": stripped} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c, b := newTracing(t, everyStep)
			var files []string
			var works []*oracle.Work
			for _, name := range names {
				r := read(t, name)
				files, works = append(files, write(t, r)), append(works, oracle.Do(r, oracle.NCCL))
			}
			solo, both := c.begin(t, files[0]), c.begin(t, files[1], files[2])
			solo.end(0)
			both.end(0)
			c.stop()
			all := b.spans()
			assert.Zero(t, all.doubles, "spans that came twice")
			arePictured(t, works[0], 0, all.steps(t, solo.run)[0], true)
			steps := all.steps(t, both.run)
			require.Len(t, steps, 2, "ranks")
			var traces [2][]pcommon.TraceID
			for rank, of := range steps {
				arePictured(t, works[1+rank], rank, of, true)
				traces[rank] = tracesOf(works[1+rank], of)
				for _, s := range of {
					require.True(t, s.step.pairs, "seq %d of rank %d pairs", s.step.seq, rank)
				}
			}
			assert.Equal(t, traces[0], traces[1], "both ranks of a step are one trace")
			distinct := map[pcommon.TraceID]bool{}
			for key := range all.of {
				distinct[key.trace] = true
			}
			assert.Len(t, distinct, len(works[0].Devices[0].Steps)+len(works[1].Devices[0].Steps), "each step is a trace of its own")
		})
	}
}

// Ranks whose counts differ by one: a step meets the one of its own number, and never the one that ran beside it.
func TestCountsThatDifferAreTwoTraces(t *testing.T) {
	t.Parallel()
	c, b := newTracing(t, everyStep)
	ahead := load(t, names[2])
	seq := regexp.MustCompile(`\bseq=(\d+)`)
	for _, f := range ahead.Frames {
		if p, ok := f.(*krec.Push); ok {
			p.Text = seq.ReplaceAllStringFunc(p.Text, func(s string) string {
				n, err := strconv.Atoi(s[len("seq="):])
				require.NoError(t, err)
				return fmt.Sprintf("seq=%d", n+1)
			})
		}
	}
	p := c.begin(t, file(names[1]), write(t, ahead))
	p.end(0)
	c.stop()
	steps := b.spans().steps(t, p.run)
	works := []*oracle.Work{asRecorded()[names[1]], oracle.Do(ahead, oracle.NCCL)}
	var traces [2][]pcommon.TraceID
	for rank, work := range works {
		arePictured(t, work, int64(rank), steps[int64(rank)], true)
		traces[rank] = tracesOf(work, steps[int64(rank)])
	}
	last := len(traces[0]) - 1
	assert.Equal(t, traces[0][1:], traces[1][:last], "equal numbers meet")
	assert.NotContains(t, traces[1], traces[0][0])
	assert.NotContains(t, traces[0], traces[1][last])
}

// A collector that is started anew has not heard a rank from its first step, so without seq in the texts it cannot know the count:
// from then on the rank's steps are traces of their own.
func TestLateRankPairsWithNone(t *testing.T) {
	t.Parallel()
	c, b := newTracing(t, everyStep, "collection_interval: 100ms")
	first, second := stripped(t, names[1]), stripped(t, names[2])
	late := c.begin(t, "--speed", "0.5", "KERNHES_RUN=one", write(t, second))
	c.eventually("some steps are closed", func() bool { return all(scrape(t, c.metrics)).sum("kern_steps_total") > 20 })
	c.stop()
	c.start()
	late.end(0)
	whole := c.begin(t, "KERNHES_RUN=one", write(t, first))
	whole.end(0)
	c.stop()
	steps := b.spans().steps(t, "one")
	work := oracle.Do(first, oracle.NCCL)
	arePictured(t, work, 0, steps[0], true)
	zero, one := tracesOf(work, steps[0]), oracle.Do(second, oracle.NCCL)
	met, alone := 0, map[pcommon.TraceID]bool{}
	for _, row := range one.Devices[0].Steps {
		s, ok := steps[1][row.First]
		require.True(t, ok, "rank 1: no trace of step %d", row.Order)
		if s.step.pairs {
			require.Equal(t, zero[row.Order], s.trace, "step %d", row.Order)
			met++
			continue
		}
		require.NotContains(t, zero, s.trace, "step %d", row.Order)
		alone[s.trace] = true
	}
	assert.Greater(t, met, 10, "steps before")
	assert.Greater(t, len(alone), 10, "steps after, each a trace of its own")
	assert.Len(t, one.Devices[0].Steps, met+len(alone))
}

// What is sent again to a collector that was started anew has the ids that it had; stopped, it loses no step.
func TestTracesOverRestarts(t *testing.T) {
	for how, end := range map[string]func(*collector){"stopped": (*collector).stop, "killed": (*collector).kill} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c, b := newTracing(t, everyStep)
			p := c.begin(t, "--speed", "0.5", file(names[1]), file(names[2]))
			for i := range 5 {
				p.waitFor(2000 + 300*i) // ranks connect again within 1 s, and the recordings begin with some seconds without a step
				end(c)
				c.start()
			}
			p.end(0)
			c.stop()
			all := b.spans()
			steps := all.steps(t, p.run)
			require.Len(t, steps, 2, "ranks")
			for rank, of := range steps {
				work := asRecorded()[names[1+rank]]
				arePictured(t, work, rank, of, false)
				if how == "stopped" {
					assert.Len(t, of, work.Devices[0].StepsComplete, "steps of rank %d", rank)
				}
				t.Logf("%d steps of rank %d", len(of), rank)
			}
		})
	}
}

// A load of slow steps stays within the budget of the defaults, and each that is turned away is counted.
func TestSlowStepsStayWithinTheBudget(t *testing.T) {
	t.Parallel()
	const steps, kernels, budget = 1200, 500, 10_000
	b := krec.NewBuilder()
	g := b.Capture()
	for range kernels {
		g.Kernel("nvjet_sm90_tst_128x128_64x5_1x2_h_bz_coopB_NNT", 7)
	}
	exec := g.Instantiate()
	slow := 0
	for i := range steps {
		long := uint64(2_000)
		if i > 100 && i%3 == 0 { // fewer than half, so that the median stays
			long, slow = 9_000, slow+1
		}
		b.Push(fmt.Sprintf("step:decode seq=%d,seqs=8,tokens=8,kv=8192", i))
		exec.Launch(5_000, long, 500)
		b.Pop()
		b.Wait(kernels*(long+500) + 50_000)
	}
	c, back := newTracing(t, "collection_interval: 200ms") // the counters are told as often
	p := c.begin(t, write(t, b.Recording()))
	c.eventually("the engine is there", func() bool { return c.logged("engine connected") != "" })
	began := time.Now()
	p.end(0)
	took := time.Since(began)
	away := 0
	c.eventually("what was turned away is told", func() bool {
		away = int(all(scrape(t, c.own)).sum("otelcol_kernhes_unsampled_steps", `reason="budget"`))
		return away > 0
	})
	c.stop()
	got := back.spans()
	written := got.steps(t, p.run)[0]
	bySlow := 0
	for _, s := range written {
		if s.step.sampledBy == "slow" {
			bySlow++
		}
	}
	t.Logf("%d of %d slow steps, %d spans in %v, %d turned away", bySlow, slow, len(got.of), took, away)
	assert.Positive(t, bySlow)
	// A second's worth at once, and what came in since.
	assert.LessOrEqual(t, len(got.of), int(budget*(1+took.Seconds())))
	// One in 1,000 is chosen whether slow or not.
	assert.InDelta(t, slow, bySlow+away, 5, "each slow step was written or counted")
}

// The configurations that are shipped are ones that the distribution runs.
func TestShippedConfigurationsAreValid(t *testing.T) {
	configs, err := filepath.Glob("../../otelcol-dist/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, configs)
	for _, config := range configs {
		out, err := exec.Command(binary("otelcol-kernhes"), "validate", "--config", config).CombinedOutput()
		assert.NoError(t, err, "%s: %s", config, out)
	}
}
