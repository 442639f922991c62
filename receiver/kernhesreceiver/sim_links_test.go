package kernhesreceiver

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"

	"github.com/kernhes/kernhes/internal/sim"
	"github.com/kernhes/kernhes/internal/sim/fault"
	"github.com/kernhes/kernhes/internal/sim/program"
	"github.com/kernhes/kernhes/internal/sim/truth"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/jsonl"
)

// connected runs a simulation against a receiver, and returns what its dump says of each session
// when it ends, with the truth about it.
func connected(t *testing.T, change func(*sim.Config), faults ...string) (sessions map[string]jsonl.SessionLine, ranks map[string]truth.RankLine) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dump.jsonl")
	b := newBenchOn(t, componenttest.NewNopHost(), nil, func(cfg *Config) { cfg.Dump, cfg.ReconnectTimeout = path, time.Minute })
	c := sim.Defaults()
	c.Duration, c.Load.Rate, c.Load.Prompt, c.Waits, c.Endpoint = time.Hour, 200, 500, false, "unix://"+b.cfg.Endpoint
	for _, text := range faults {
		e, err := fault.Parse(text)
		require.NoError(t, err)
		c.Schedule = append(c.Schedule, e)
	}
	change(&c)
	var lines bytes.Buffer
	c.Truth = &lines
	result, err := sim.Run(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, "bye", result.Ended)
	dump, err := os.ReadFile(path)
	require.NoError(t, err)
	sessions, ranks = map[string]jsonl.SessionLine{}, map[string]truth.RankLine{}
	for line := range strings.Lines(lines.String()) {
		var l truth.RankLine
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		if l.Kind == "rank" {
			ranks[publicName(t, l.Session)] = l
		}
	}
	for line := range strings.Lines(string(dump)) {
		if strings.HasPrefix(line, `{"kind":"session"`) {
			var l jsonl.SessionLine
			require.NoError(t, json.Unmarshal([]byte(line), &l))
			sessions[l.Session] = l
		}
	}
	require.Len(t, sessions, len(ranks))
	return sessions, ranks
}

// The collector is gone for longer than unacknowledged bytes last: what the ranks drop meanwhile is
// what the collector is told, and nothing else is missing.
func TestASimulatedOutageDropsWhatItTells(t *testing.T) {
	sessions, ranks := connected(t, func(c *sim.Config) {
		c.Paced, c.Duration, c.Bound = true, 1500*time.Millisecond, 1<<20
	}, "outage:at=200ms,for=800ms")
	for session, want := range ranks {
		got := sessions[session]
		require.Positive(t, want.DroppedKernels)
		require.Positive(t, want.DroppedCopies)
		require.Positive(t, want.DroppedEvents)
		require.Len(t, got.Dropped, 1, "%v", got.Dropped)
		require.EqualValues(t, want.DroppedKernels+want.DroppedCopies+want.DroppedEvents, got.Dropped["shim_buffer"])
		require.EqualValues(t, want.Kernels, got.Kernels+want.DroppedKernels)
		copies := uint64(0)
		for _, n := range got.Copies {
			copies += n
		}
		require.EqualValues(t, want.Copies, copies+want.DroppedCopies)
	}
}

// Ranks that tell neither run nor rank get both from NCCL, and a second start gets a run of its
// own.
func TestASimulatedFleetNamedByNCCL(t *testing.T) {
	sessions, ranks := connected(t, func(c *sim.Config) {
		var err error
		c.Layout, err = program.ParseLayout("tp2dp4")
		require.NoError(t, err)
		c.Identity, c.Duration = sim.NCCL, 2200*time.Millisecond // a restart takes 2 s
	}, "restart:at=100ms")
	require.Len(t, ranks, 2*8)
	runs := map[string][]int64{}
	for session, want := range ranks {
		got := sessions[session]
		require.Regexp(t, "^nccl-[0-9a-f]{16}$", got.Run)
		require.Equal(t, want.Run, got.Run)
		require.EqualValues(t, want.Rank, got.Rank)
		runs[got.Run] = append(runs[got.Run], got.Rank)
	}
	require.Len(t, runs, 2)
	for _, all := range runs {
		require.ElementsMatch(t, []int64{0, 1, 2, 3, 4, 5, 6, 7}, all)
	}
}
