package kernhesreceiver

import (
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"

	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// dropped is the value and the start of the lost records of a run that were last exported.
func dropped(t *testing.T, all []pmetric.Metrics) (n int64, since pcommon.Timestamp) {
	t.Helper()
	for _, m := range all {
		each(m, func(m pmetric.Metric) {
			if m.Name() != "kern_trace_dropped_records_total" {
				return
			}
			for _, p := range numbers(m) {
				if reason, _ := p.Attributes().Get("reason"); reason.Str() == "other" {
					n, since = p.IntValue(), p.StartTimestamp()
				}
			}
		})
	}
	return n, since
}

// When the configuration is reloaded, what was lost goes on from where it was: what comes again is not counted twice, and what was
// acknowledged is not forgotten.
func TestLossesSurviveAReload(t *testing.T) {
	b := newBench(t, nil)
	c, _, _ := b.connect(1)
	gone, _, _ := b.connect(2)
	gone.bye(1)
	gone.ack(1)
	c.word(1, "lose")
	c.ack(1)
	c.word(2, "hold")
	c.word(3, "lose")
	c.word(4, "step a")
	b.has(1, 4)
	require.NoError(t, b.r.Shutdown(t.Context()))
	n, since := dropped(t, b.sink.AllMetrics())
	require.EqualValues(t, 2, n)

	for reload := range 2 {
		next := newBench(t, func(cfg *Config) { cfg.Endpoint = b.cfg.Endpoint })
		check := func(want int64, text string) {
			t.Helper()
			next.sink.Reset()
			next.r.export(t.Context())
			n, start := dropped(t, next.sink.AllMetrics())
			assert.Equal(t, want, n, text)
			assert.Equal(t, since, start, text)
		}
		c, acknowledged, _ := next.connect(1)
		require.Zero(t, acknowledged)
		check(2+int64(reload), "nothing has come")
		c.word(2, "hold")
		c.word(3, "lose")
		next.has(1, 3)
		check(2+int64(reload), "half of what comes again has come")
		c.word(4, "step a")
		if reload == 1 {
			c.word(5, "lose")
		}
		next.has(1, 4+uint64(reload))
		check(2+int64(reload), "all has come again")
		c.word(5+uint64(reload), "lose")
		next.has(1, 5+uint64(reload))
		check(3+int64(reload), "more was lost")
		ended := points(next.sink.AllMetrics()...)["kern_sessions_ended_total"]
		assert.Contains(t, ended["bye,r1"], int64(1), "%v", ended)
		require.NoError(t, next.r.Shutdown(t.Context()))
	}
}

// has waits until the engine of a session has a frame.
func (b *bench) has(session, frame uint64) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		for _, s := range b.r.table.all() {
			s.mu.Lock()
			got := s.engine.Received()
			s.mu.Unlock()
			if s.id == session {
				return got >= frame
			}
		}
		return false
	}, waitFor, tick)
}

// What is of the process as a whole, and of each device, goes on there, also when another device is seen first.
func TestLossesGoOnByDevice(t *testing.T) {
	l := &losses{frame: 10, was: []engine.Report{
		{Device: 1, SinceNS: 5, Dropped: map[string]uint64{"late": 3}, Incomplete: map[string]uint64{"range_open": 1}},
		{Device: 2, SinceNS: 5, Whole: true, Dropped: map[string]uint64{"late": 1, "other": 7}, Limited: map[string]uint64{"devices": 2}, Missing: 40},
	}}
	e := &countingEngine{got: 9, now: []engine.Report{{Whole: true, Device: 0, SinceNS: 9, Dropped: map[string]uint64{"other": 2}, Missing: 4}}}
	l.next(12, e) // 10 and 11 are missing: all that comes again has come
	e.now = []engine.Report{
		{Device: 1, SinceNS: 9, Whole: true, Dropped: map[string]uint64{"other": 5, "late": 1}, Limited: map[string]uint64{"devices": 1}, Missing: 5},
		{Device: 2, SinceNS: 9, Dropped: map[string]uint64{"late": 2}},
		{Device: 3, SinceNS: 9, Incomplete: map[string]uint64{"range_open": 6}},
	}
	got := e.Reports()
	l.add(got)
	assert.Equal(t, map[string]uint64{"late": 3 + 1, "other": 5 - 2}, got[0].Dropped)
	assert.Equal(t, map[string]uint64{"range_open": 1}, got[0].Incomplete)
	assert.Equal(t, map[string]uint64{"devices": 2 + 1}, got[0].Limited)
	assert.EqualValues(t, 40+5-4, got[0].Missing)
	assert.Equal(t, map[string]uint64{"late": 1 + 2, "other": 7}, got[1].Dropped)
	assert.Equal(t, map[string]uint64{"range_open": 6}, got[2].Incomplete)
	for i := range got {
		assert.EqualValues(t, 5, got[i].LossSince())
	}
}

// A countingEngine has what it is told.
type countingEngine struct {
	account
	got uint64
	now []engine.Report
}

func (e *countingEngine) Received() uint64         { return e.got }
func (e *countingEngine) Reports() []engine.Report { return e.now }

// What is left for endpoints to which no receiver returns is bounded, and of sessions that do not return forgotten.
func TestHandoversAreBounded(t *testing.T) {
	b := newBench(t, func(cfg *Config) { cfg.ReconnectTimeout = time.Millisecond })
	b.r.left = map[uint64]*losses{7: {left: time.Now().Add(-time.Second)}, 8: {left: time.Now().Add(time.Hour)}}
	for range 3 * maxHandovers {
		b.r.handOver(time.Now())
	}
	require.Len(t, handovers.all, maxHandovers)
	h := take(b.r.listener.Addr())
	require.NotContains(t, h.sessions, uint64(7))
	require.Contains(t, h.sessions, uint64(8))
	for take(b.r.listener.Addr()) != nil {
	}
}
