package watch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/waitsums"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/fleet"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/history"
)

var begin = time.Unix(1_800_000_000, 0)

// report is that of a rank after so many seconds: 0.25 s compute, 0.5 s comm and 0.25 s idle each, and 4 steps.
func report(rank int64, seconds uint64) engine.Report {
	return engine.Report{
		Info: map[string]string{"run": "r", "pid": "7", "host": "h", "model": "m", "engine": "e", "gpu.1.name": "NVIDIA H200"},
		Mode: "software", Tracing: true, Rank: rank, Device: 1, LastStepNS: uint64(begin.UnixNano()),
		ComputeNS: seconds * 250e6, CommNS: seconds * 500e6, IdleNS: seconds * 250e6, CUPTINS: seconds * 10e6,
		Complete: 4 * seconds, Incomplete: map[string]uint64{"engine_gone": 1, "range_open": 2}, Dropped: map[string]uint64{"shim_pool": seconds},
		Series: []engine.SeriesReport{
			{Program: "decode", Batch: "8", KV: "1024", Steps: 3 * seconds, WallNS: seconds * 600e6, ComputeNS: seconds * 150e6, ForeignNS: seconds * 10e6},
			{Program: "prefill", Batch: "8192", KV: "1024", Steps: seconds, WallNS: seconds * 400e6, ComputeNS: seconds * 100e6, ForeignNS: seconds * 20e6},
		},
	}
}

func TestReportsBecomeHistory(t *testing.T) {
	f := New(nil)
	waitsums.Publish(t, map[waitsums.Key]waitsums.Sum{})
	t.Cleanup(func() { waitsums.Withdraw(t) })
	guess := report(9, 0)
	guess.Guessed = true // a helper process without steps is no rank
	for tick := range uint64(3) {
		now := begin.Add(time.Duration(tick) * 10 * time.Second)
		waitsums.Publish(t, map[waitsums.Key]waitsums.Sum{{Run: "r", Rank: 0, Cause: "slow"}: {Wait: tick * 1e9}, {Run: "r", Rank: 1, Cause: "slow"}: {Blame: tick * 1e9}})
		f.Observe(now, []fleet.Session{{Reports: []engine.Report{report(0, 10*tick)}}, {Reports: []engine.Report{report(1, 10*tick), guess}}})
	}
	v := f.History.At(begin.Add(20 * time.Second))
	require.Len(t, v.Runs, 1)
	require.Len(t, v.Runs[0].Ranks, 2)
	r := v.Runs[0].Ranks[0]
	assert.Equal(t, history.Share{Compute: 0.25, Comm: 0.5, Idle: 0.25, Traced: 1}, r.Last)
	assert.Equal(t, "NVIDIA H200", r.GPU)
	assert.InDelta(t, 4, r.Steps, 1e-9)
	assert.InDelta(t, 0.25, r.Mean, 1e-9)
	assert.InDelta(t, 0.03, r.Foreign, 1e-9)
	assert.InDelta(t, 0.01, r.Cost, 1e-9)
	assert.EqualValues(t, 20, r.Dropped)
	assert.InDelta(t, 0.1, r.Wait, 1e-9)
	assert.InDelta(t, 0.1, v.Runs[0].Ranks[1].Blame, 1e-9)
	assert.InDelta(t, 1.12, r.RatioAll, 1e-9, "280 ms over 250 ms")

	f.End(begin.Add(21*time.Second), []engine.Report{report(0, 20)}, true)
	f.End(begin.Add(21*time.Second), []engine.Report{report(1, 20)}, false)
	v = f.History.At(begin.Add(22 * time.Second))
	assert.Equal(t, fleet.Gone, v.Runs[0].Ranks[0].Down)
	assert.Equal(t, fleet.Ended, v.Runs[0].Ranks[1].Down)
}
