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
	"github.com/kernhes/kernhes/internal/sim/truth"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/jsonl"
)

// Over real connections, which end again and again, the dump says the truth as well.
func TestASimulatedFleetReconnects(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dump.jsonl")
	b := newBenchOn(t, componenttest.NewNopHost(), nil, func(cfg *Config) { cfg.Dump = path })
	c := sim.Defaults()
	c.Run, c.Steps, c.Duration, c.Load.Rate, c.Load.Prompt = "r", 150, time.Hour, 200, 500
	c.Endpoint, c.Cut, c.Waits = "unix://"+b.cfg.Endpoint, 15, false
	e, err := fault.Parse("foreign_gemm:rank=3,amount=1,every=40ms")
	require.NoError(t, err)
	c.Schedule = fault.Schedule{e}
	var lines bytes.Buffer
	c.Truth = &lines
	result, err := sim.Run(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, "bye", result.Ended)
	require.Greater(t, result.Connections, 2*4, "connections of four ranks")
	want := map[string]truth.RankLine{}
	for line := range strings.Lines(lines.String()) {
		var l truth.RankLine
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		if l.Kind == "rank" {
			want[publicName(t, l.Session)] = l
		}
	}
	require.Len(t, want, 4)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	ended := 0
	for line := range strings.Lines(string(text)) {
		var l jsonl.SessionLine
		if !strings.HasPrefix(line, `{"kind":"session"`) {
			continue
		}
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		ended++
		w := want[l.Session]
		require.Equal(t, []int64{int64(w.Kernels), int64(w.Steps), w.First, w.Last, w.Compute, w.Comm, w.Overlap, w.Copy, w.Idle, 0},
			[]int64{int64(l.Kernels), int64(l.StepsComplete), int64(l.FirstNS), int64(l.LastNS), int64(l.ComputeNS), int64(l.CommNS), int64(l.OverlapNS),
				int64(l.CopyNS), int64(l.IdleNS), int64(l.UnknownNS)})
		require.Empty(t, l.Dropped)
	}
	require.Equal(t, 4, ended)
}
