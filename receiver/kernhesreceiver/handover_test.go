package kernhesreceiver

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metrics/metricstest"
)

// dropped is the value and the start of the lost records of a run that were last exported.
func dropped(t *testing.T, all []pmetric.Metrics) (n int64, since pcommon.Timestamp) {
	t.Helper()
	for _, m := range all {
		metricstest.Each(m, func(m pmetric.Metric) {
			if m.Name() != "kern_trace_dropped_records_total" {
				return
			}
			for _, p := range metricstest.Numbers(m) {
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
		ended := metricstest.Points(next.sink.AllMetrics()...)["kern_sessions_ended_total"]
		assert.Contains(t, ended["bye,r1"], int64(1), "%v", ended)
		require.NoError(t, next.r.Shutdown(t.Context()))
	}
}

// has waits until the engine of a session has a frame.
func (b *bench) has(session, frame uint64) {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return b.engine(session).Received() >= frame }, waitFor, tick)
}
