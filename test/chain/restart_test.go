//go:build chain

package chain_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/oracle"
)

// exactlyOnce fails unless the dump has each kernel of a recording once: in a step's line, or in what its ack lines count;
// and each step as it is without a restart. Foreign compute, and what is late, depends on what a collector has heard.
func exactlyOnce(t *testing.T, d dumped, run string, want *oracle.Figures) {
	t.Helper()
	d = d.of(run)
	require.Len(t, d.sessions, 1, "the session ended once")
	s := d.sessions[0]
	assert.Equal(t, "bye", s.Ended)
	kernels, ids := 0, map[string]bool{}
	for _, l := range d.steps {
		assert.False(t, ids[l.ID], "step %s is there twice: %s", l.ID, l.Text)
		ids[l.ID] = true
		kernels += l.Kernels
	}
	assert.Equal(t, want.InSteps, kernels, "kernels in steps")
	loose, copies := 0, 0
	for _, a := range d.acks {
		loose += a.Outside + a.Late + a.Invalid
		copies += a.Copies
		assert.Zero(t, a.Duplicate, "duplicates")
	}
	lost := 0
	for _, n := range s.Dropped {
		lost += n
	}
	assert.Zero(t, lost, "lost")
	assert.Equal(t, want.Kernels-want.InSteps, loose, "kernels outside of steps")
	assert.Equal(t, want.Copies["memset"]+want.Copies["copy kind 1"], copies, "copies")
	got := linesOf(d.steps)
	rows := rowsOf(want)
	for i := range got {
		got[i].ForeignComputeNS = 0
	}
	for i := range rows {
		rows[i].ForeignComputeNS = 0
	}
	assert.Equal(t, rows, got, "rows")
	assert.Equal(t, s.WatermarkNS-s.FirstNS, s.ComputeNS+s.CommNS+s.IdleNS+s.UnknownNS)
	assert.Zero(t, s.Pending)
}

// The collector is stopped, killed and started again, several times, in the middle of a paced play.
func TestRestarts(t *testing.T) {
	for how, end := range map[string]func(*collector){
		"stopped": (*collector).stop, "killed": (*collector).kill,
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := newCollector(t)
			var plays []*play
			for i, name := range names {
				plays = append(plays, c.begin(t, "--speed", "0.4", "--deliver", []string{"flush", "recorded", "flush"}[i], file(name)))
			}
			// The recordings begin with some seconds without a step.
			c.eventually("a step is closed", func() bool { return len(c.read(t).steps) > 0 })
			steps := map[int]bool{}
			for i := range 8 {
				before := len(c.read(t).steps)
				for tries := 0; tries < 40 && len(c.read(t).steps) == before; tries++ {
					plays[0].waitFor(25) // the shim tries to connect after 50 ms to 1 s
				}
				plays[0].waitFor(30 * i)
				end(c)
				steps[len(c.read(t).steps)] = true
				plays[0].waitFor(20 + 40*i)
				c.start()
			}
			for _, p := range plays {
				p.end(0)
			}
			c.stop()
			assert.Greater(t, len(steps), 3, "restarts between which steps were closed")
			for i, p := range plays {
				exactlyOnce(t, c.read(t), p.run, asRecorded()[names[i]].Devices[0])
			}
		})
	}
}

// A kill while the play is flat out: much is under way.
func TestKilledFlatOut(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	for i := range 6 {
		p := c.begin(t, "KERNHES_MOCK_FAULT=reorder=5", file("tp2.rank1"))
		p.waitFor(150 + 60*i)
		c.kill()
		c.start()
		p.end(0)
		exactlyOnce(t, c.read(t), p.run, asRecorded()["tp2.rank1"].Devices[0])
	}
}

// Without a dump a new collector knows nothing: it takes up what it is sent, and its series start anew.
func TestRestartWithoutDump(t *testing.T) {
	t.Parallel()
	c := prepare(t, "collection_interval: 100ms")
	c.start()
	p := c.begin(t, "--speed", "0.7", file("solo.rank0"))
	steps := func() (n float64) {
		for _, r := range scrape(t, c.metrics) {
			if r.run == p.run {
				n = r.numbers.sum("kern_steps_total")
			}
		}
		return n
	}
	c.eventually("a step is closed", func() bool { return steps() > 0 })
	c.kill()
	c.start()
	c.eventually("a step is closed after a kill", func() bool { return steps() > 0 })
	c.stop()
	c.start()
	p.end(0)
	want := asRecorded()["solo.rank0"].Devices[0]
	found := false
	for _, r := range scrape(t, c.metrics) {
		if r.run != p.run {
			continue
		}
		found = true
		steps, kernels := r.numbers.sum("kern_steps_total"), r.numbers["kern_kernels_received_total"]
		assert.Positive(t, steps)
		assert.Less(t, int(steps), want.StepsComplete, "steps since it began")
		assert.Less(t, int(kernels), want.Kernels)
		assert.Zero(t, r.numbers["kern_kernels_residue"])
		assert.Zero(t, r.numbers.sum("kern_trace_dropped_records_total"))
		late := r.numbers.sum("kern_steps_incomplete_total", `reason="joined_late"`) // settled before, and sent again in part
		assert.Equal(t, late, r.numbers.sum("kern_steps_incomplete_total"), "a step that was open at the restart is sent whole")
	}
	require.True(t, found)
	assert.Empty(t, c.logged("\twarn\t"))
	assert.Empty(t, c.logged("\terror\t"))
	_, err := os.Stat(c.dir + "/dump.jsonl")
	assert.True(t, os.IsNotExist(err))
}

// Ranks start three times under one name: the collector is restarted between the first two starts, and killed while the third runs.
func TestANameIsUsedAgain(t *testing.T) {
	t.Parallel()
	c := prepare(t, "dump: DIR/dump.jsonl")
	c.start()
	start := func(args ...string) *play {
		return c.begin(t, append([]string{"KERNHES_RUN=again"}, append(args, file("tp2.rank0"), file("tp2.rank1"))...)...)
	}
	start("--speed", "4").end(0)
	c.stop()
	c.start()
	start("--speed", "4").end(0)
	third := start("--speed", "1")
	c.eventually("a step of the third start is final", func() bool { return len(c.read(t).allRuns()) == 3 })
	c.kill()
	c.start()
	third.end(0)
	d := c.read(t)
	runs := d.allRuns()
	require.Len(t, runs, 3)
	assert.Equal(t, "again", runs[0])
	type key struct {
		run  string
		rank int64
		seq  uint64
	}
	had := map[key]bool{}
	for _, s := range d.steps {
		k := key{s.Run, int64(s.Rank), uint64(s.Seq)}
		assert.False(t, had[k], "%v is there twice", k)
		had[k] = true
	}
	for _, run := range runs {
		ranks := map[int64]bool{}
		for _, s := range d.of(run).steps {
			ranks[int64(s.Rank)] = true
		}
		assert.Len(t, ranks, 2, run)
	}
}
