//go:build chain

package chain_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sessions is the collector's count of sessions by link, and of ended ones by end.
func (c *collector) sessions(t testing.TB) numbers {
	t.Helper()
	for _, r := range scrape(t, c.metrics) {
		if _, ok := r.numbers[`kern_sessions{link="connected"}`]; ok {
			return r.numbers
		}
	}
	return numbers{}
}

// endings is how many sessions ended in a way, of all runs and ranks.
func (c *collector) endings(t testing.TB, end string) (n float64) {
	t.Helper()
	for name, value := range c.sessions(t) {
		if strings.HasPrefix(name, "kern_sessions_ended_total{") && strings.Contains(name, `end="`+end+`"`) {
			n += value
		}
	}
	return n
}

// An engine is killed: what it had launched is counted as lost, the collector forgets it, and the next is heard as ever.
func TestEngineKilled(t *testing.T) {
	// Records come 400 ms after their flush, so that at any time there are launches that lack theirs.
	for how, fault := range map[string]string{
		"itself":      "late-complete=400,kill-at=0.97", // among the decode steps
		"from beside": "late-complete=400",
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := newCollector(t, "reconnect_timeout: 500ms", "collection_interval: 200ms") // an ending is told of with the next interval
			p := c.begin(t, "--speed", "0.7", "KERNHES_MOCK_FAULT="+fault, file("solo.rank0"))
			if how == "from beside" {
				c.eventually("a step is closed", func() bool { return len(c.read(t).steps) > 5 })
				p.waitFor(100)
				require.NoError(t, p.command.Process.Signal(syscall.SIGKILL))
			}
			p.end(-1)
			// Its numbers are exported after its lines are written, and with the next interval how many sessions ended.
			c.eventually("the session has ended", func() bool { return c.endings(t, "gone") == 1 })
			ranks := c.ranks(t, p.run)
			require.Len(t, ranks, 1)
			r, want := ranks[0], asRecorded()["solo.rank0"].Devices[0]
			assert.Equal(t, "gone", r.Ended)
			assert.Positive(t, r.StepsComplete)
			assert.Less(t, r.StepsComplete, want.StepsComplete)
			// It was killed among its launches: the last ones' records stayed in CUPTI's buffers.
			gone := r.n.count(`kern_trace_dropped_records_total{reason="engine_gone"}`)
			assert.Positive(t, r.Unfulfilled, "launches without their records")
			assert.Positive(t, gone)
			assert.Equal(t, r.Missing, gone)
			assert.Positive(t, r.StepsIncomplete["engine_gone"]+r.StepsIncomplete["missing_records"])
			rows := map[string]stepLine{}
			for _, s := range rowsOf(want) {
				rows[s.Text] = s
			}
			for _, s := range linesOf(r.steps) {
				if s.Complete {
					assert.Equal(t, rows[s.Text], s)
				}
			}
			assert.NotEmpty(t, c.logged("warn", "engine is gone", r.Session))
			n := c.sessions(t)
			assert.Zero(t, n[`kern_sessions{link="connected"}`])
			assert.Zero(t, n[`kern_sessions{link="waiting"}`])
			assert.Equal(t, 1.0, c.endings(t, "gone"))
			own := all(scrape(t, c.own))
			assert.Zero(t, own["otelcol_kernhes_sessions"])
			assert.Zero(t, own["otelcol_kernhes_connections"])

			// Its series end: what is exported from now on says that it is gone, and nothing else.
			assert.Contains(t, r.n, `kern_up{reason="gone"}`)
			assert.Zero(t, r.n.sum("kern_up"))
			assert.NotContains(t, r.n, "kern_last_step_age_seconds")
			assert.NotContains(t, r.n, "kern_watermark_age_seconds")
			next, _ := c.play(t, file("solo.rank0"))
			require.Len(t, next, 1)
			isExpected(t, "solo.rank0", next[0])
			c.eventually("the next has ended", func() bool { return c.endings(t, "bye") == 1 })
			_, last, notUp := c.exportsOf(t, p.run)
			assert.Equal(t, 1, last, "exports of the dead engine's last numbers")
			assert.Positive(t, notUp, "exports that say that it is gone")
		})
	}
}

// An engine closes all descriptors in the middle of its steps and has files of its own under their numbers: nobody
// reads or writes those, and the engine is heard in full over a second connection.
func TestEngineTakesDescriptors(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	ranks, tallies := c.play(t, "--speed", "2", "KERNHES_MOCK_FAULT=takeover=0.5", file("solo.rank0"))
	require.Len(t, ranks, 1)
	assert.Positive(t, tallies[0]["files"])
	assert.Zero(t, tallies[0]["files_harmed"])
	assert.Equal(t, 2, ranks[0].n.count("kern_shim_connects_total"))
	isExpected(t, "solo.rank0", ranks[0])
}

// all is the numbers of a page whatever resource they are of.
func all(of map[string]*resource) numbers {
	sum := numbers{}
	for _, r := range of {
		for s, v := range r.numbers {
			sum[s] += v
		}
	}
	return sum
}

// standStill waits until the collector knows the run and rank of a play, which it does some steps before the end, and halts the play.
func (c *collector) standStill(p *play) {
	c.t.Helper()
	pid := fmt.Sprintf(`"pid": "%d"`, p.command.Process.Pid)
	c.eventually("its run and rank are known", func() bool { return c.logged("engine process has a run and ranks", pid) != "" })
	require.NoError(c.t, p.command.Process.Signal(syscall.SIGSTOP))
}

// Two engines of one host, both of rank 0, in one run and in two: each has its own series, and its own sums.
func TestEnginesOfOneRank(t *testing.T) {
	for how, runs := range map[string][2]string{"one run": {"same", "same"}, "two runs": {"first", "second"}} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := newCollector(t, "collection_interval: 200ms")
			a := c.begin(t, "KERNHES_RUN="+runs[0], file("solo.rank0"), "--speed", "1")
			c.standStill(a)
			b := c.begin(t, "KERNHES_RUN="+runs[1], file("tp2.rank0"), "--speed", "1")
			c.standStill(b)
			conflicts := 0.0
			if runs[0] == runs[1] {
				c.eventually("the conflict is seen", func() bool { conflicts = c.sessions(t)["kern_rank_conflicts"]; return conflicts > 0 })
				assert.Equal(t, 2.0, conflicts)
			} else {
				c.eventually("both are connected", func() bool { return c.sessions(t)[`kern_sessions{link="connected"}`] == 2 })
				assert.Zero(t, c.sessions(t)["kern_rank_conflicts"])
			}
			for _, p := range []*play{a, b} {
				require.NoError(t, p.command.Process.Signal(syscall.SIGCONT))
			}
			a.end(0)
			b.end(0)
			// Two processes of one rank are two starts, whatever they say.
			var ranks []*rank
			for _, run := range c.read(t).runs() {
				ranks = append(ranks, c.ranks(t, run)...)
			}
			require.Len(t, ranks, 2)
			if ranks[0].CommKernels > 0 { // only tp2 communicates
				ranks[0], ranks[1] = ranks[1], ranks[0]
			}
			assert.Zero(t, ranks[0].Rank)
			assert.Zero(t, ranks[1].Rank)
			assert.NotEqual(t, ranks[0].PID, ranks[1].PID)
			isExpected(t, "solo.rank0", ranks[0])
			isExpected(t, "tp2.rank0", ranks[1])
		})
	}
}

// The engine is there first, the collector comes later; and its socket goes and comes again under a running engine.
func TestCollectorComesLater(t *testing.T) {
	t.Parallel()
	c := prepare(t, "dump: DIR/dump.jsonl")
	p := c.begin(t, "--speed", "2", file("solo.rank0"))
	flat := c.begin(t, file("tp2.rank1"))
	p.waitFor(2000)
	c.start()
	p.end(0)
	flat.end(0)
	for name, p := range map[string]*play{"solo.rank0": p, "tp2.rank1": flat} {
		ranks := c.ranks(t, p.run)
		require.Len(t, ranks, 1)
		isExpected(t, name, ranks[0])
	}

	// The socket's file is removed while an engine is connected: it goes on. The next one finds nobody, until it is there again.
	connected := c.begin(t, "--speed", "2", file("solo.rank0"))
	c.eventually("it is connected", func() bool { return strings.Count(c.log(), "engine connected") == 3 })
	require.NoError(t, os.Remove(c.socket))
	waiting := c.begin(t, file("tp2.rank0"))
	connected.end(0)
	waiting.waitFor(300)
	assert.NoFileExists(t, c.socket)
	c.stop()
	c.start()
	assert.FileExists(t, c.socket)
	waiting.end(0)
	ranks := c.ranks(t, waiting.run)
	require.Len(t, ranks, 1)
	isExpected(t, "tp2.rank0", ranks[0])
	d := c.read(t).of(connected.run)
	require.Len(t, d.sessions, 1)
	assert.Len(t, d.steps, asRecorded()["solo.rank0"].Devices[0].StepsComplete)
}

// What an engine ends with is exported at its bye, not at the next interval, which may be an hour away.
func TestExportAtBye(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	began := time.Now()
	ranks, _ := c.play(t, file("solo.rank0"))
	require.Len(t, ranks, 1)
	isExpected(t, "solo.rank0", ranks[0])
	require.Less(t, time.Since(began), time.Hour)
	full, _, _ := c.exportsOf(t, ranks[0].Run)
	assert.Equal(t, 1, full)
}
