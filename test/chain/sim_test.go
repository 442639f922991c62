//go:build chain

package chain_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"os"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/sim/truth"
)

// A simulated is the truth of a simulation.
type simulated struct {
	ranks []truth.RankLine
	steps map[string]map[uint64]truth.StepLine // by session
}

// simulates runs kernhes sim into a collector, with a function called while it runs.
func (c *collector) simulates(run string, meanwhile func(), args ...string) simulated {
	c.t.Helper()
	path := filepath.Join(c.dir, run+".truth.jsonl")
	command := exec.Command(binary("kernhes"), append([]string{"sim", "--endpoint", c.socket, "--run", run, "--truth", path, "--waits=false"}, args...)...)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	require.NoError(c.t, command.Start())
	if meanwhile != nil {
		meanwhile()
	}
	require.NoError(c.t, command.Wait(), "%s", &out)
	file, err := os.Open(path)
	require.NoError(c.t, err)
	defer file.Close()
	got := simulated{steps: map[string]map[uint64]truth.StepLine{}}
	session := map[int]string{}
	var steps []truth.StepLine
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var kind struct{ Kind string }
		require.NoError(c.t, json.Unmarshal(lines.Bytes(), &kind))
		switch kind.Kind {
		case "rank":
			r := decode[truth.RankLine](c.t, lines.Bytes())
			id, err := strconv.ParseUint(r.Session, 16, 64)
			require.NoError(c.t, err)
			r.Session = sessionName(id) // as the collector calls it
			got.ranks = append(got.ranks, r)
			session[r.Rank] = r.Session
		case "step":
			steps = append(steps, decode[truth.StepLine](c.t, lines.Bytes()))
		}
	}
	for _, s := range steps {
		of := session[s.Rank]
		if got.steps[of] == nil {
			got.steps[of] = map[uint64]truth.StepLine{}
		}
		got.steps[of][s.Seq] = s
	}
	return got
}

// isTrue holds what a dump says of a run against its truth, to the nanosecond. A collector that was
// killed does not know sums of what an earlier one had: then only steps are held.
func isTrue(t *testing.T, d dumped, run string, want simulated, sums bool) {
	t.Helper()
	d = d.of(run)
	require.Len(t, d.sessions, len(want.ranks))
	byStep := map[string]map[uint64]stepLine{}
	for _, l := range d.steps {
		if byStep[l.Session] == nil {
			byStep[l.Session] = map[uint64]stepLine{}
		}
		assert.NotContains(t, byStep[l.Session], l.Seq, "a step is there twice")
		byStep[l.Session][l.Seq] = l
	}
	sessions := map[string]sessionLine{}
	for _, s := range d.sessions {
		sessions[s.Session] = s
	}
	for _, r := range want.ranks {
		s := sessions[r.Session]
		assert.Equal(t, "bye", s.Ended)
		assert.Zero(t, s.Pending+s.Missing+s.Invalid+s.Late+len(s.Dropped))
		if sums {
			assert.Zero(t, s.Duplicate) // after a restart records come again that were settled before
			assert.Equal(t, []int64{int64(r.Kernels), r.First, r.Last, r.Compute, r.Comm, r.Overlap, r.Copy, r.Idle, 0},
				[]int64{int64(s.Kernels), s.FirstNS, s.LastNS, s.ComputeNS, s.CommNS, s.OverlapNS, s.CopyNS, s.IdleNS, s.UnknownNS}, "rank %d", r.Rank)
		}
		require.Len(t, byStep[r.Session], len(want.steps[r.Session]))
		for seq, w := range want.steps[r.Session] {
			l := byStep[r.Session][seq]
			foreign := l.ForeignComputeNS
			if !sums {
				foreign = w.Foreign // depends on what a collector has heard
			}
			require.Equal(t, []int64{int64(w.Rank), w.Start, w.End, int64(w.Kernels), w.Compute, w.Comm, w.Overlap, w.Idle, w.Wall, w.Foreign},
				[]int64{l.Rank, l.StartNS, l.EndNS, int64(l.Kernels), l.ComputeNS, l.CommNS, l.OverlapNS, l.IdleNS, l.WallNS, foreign}, "rank %d, seq %d", w.Rank, seq)
			require.Equal(t, w.Program, l.Program)
			require.True(t, l.Complete)
		}
	}
}

// What the collector says of a simulated fleet is the truth: of each layout, flat out and as time
// passes, in disorder, with connections that end again and again, and while the collector is
// killed.
func TestASimulatedFleet(t *testing.T) {
	c := newCollector(t)
	foreign := []string{"--fault", "foreign_gemm:rank=1,amount=2,every=50ms"}
	check := func(run string, args ...string) {
		t.Helper()
		want := c.simulates(run, nil, append(append([]string{}, foreign...), args...)...)
		isTrue(t, c.read(t), run, want, true)
	}
	for _, layout := range []string{"dp4ep4", "tp2dp4", "pp2tp4"} {
		check("flat-"+layout, "--flat-out", "--duration", "2s", "--layout", layout, "--disorder", "3", "--reconnect", "40")
		check("paced-"+layout, "--duration", "2s", "--layout", layout, "--rate", "20")
	}
}

func TestASimulatedFleetAndACollectorThatDies(t *testing.T) {
	c := newCollector(t)
	want := c.simulates("killed", func() {
		time.Sleep(1500 * time.Millisecond)
		c.kill()
		c.start()
	}, "--duration", "4s", "--rate", "20")
	isTrue(t, c.read(t), "killed", want, false)
}
