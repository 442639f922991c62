package metrics

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.uber.org/zap"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/fleet"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metrics/metricstest"
)

// A prometheus keeps the last value of each gauge, as Prometheus's exporter does: of points without a value it reads the first of a metric.
type prometheus map[string]float64

func (p prometheus) take(all pmetric.Metrics) {
	for _, r := range all.ResourceMetrics().All() {
		for _, s := range r.ScopeMetrics().All() {
			for _, m := range s.Metrics().All() {
				for _, point := range metricstest.Numbers(m) {
					key := fmt.Sprint(m.Name(), r.Resource().Attributes().AsRaw(), point.Attributes().AsRaw())
					if point.Flags().NoRecordedValue() {
						delete(p, key)
						break
					}
					p[key] = float64(point.IntValue()) + point.DoubleValue()
				}
			}
		}
	}
}

// of is the values of a metric.
func (p prometheus) of(m *metadata.Metric) (values []float64) {
	for _, key := range slices.Sorted(maps.Keys(p)) {
		if len(key) > len(m.Name) && key[:len(m.Name)+1] == m.Name+"m" {
			values = append(values, p[key])
		}
	}
	return values
}

// A shownStory exports ranks as the receiver does.
type shownStory struct {
	t     *testing.T
	r     *Exporter
	now   time.Time
	store prometheus
}

func newShownStory(t *testing.T) *shownStory {
	return &shownStory{t: t, r: NewExporter(zap.NewNop(), nil, "", ""), now: time.Unix(1_800_000_000, 0), store: prometheus{}}
}

// export exports live ranks, each in a session of its own, after some seconds.
func (s *shownStory) export(after time.Duration, live ...*engine.Report) {
	s.now = s.now.Add(after)
	to := pmetric.NewMetrics()
	for i, r := range live {
		s.r.append(to, uint64(i+1), []engine.Report{*r}, s.now)
		s.r.endings.Live(r)
	}
	s.r.shown.ended(to, s.now)
	s.store.take(to)
}

func (s *shownStory) end(r *engine.Report, gone bool) {
	to := pmetric.NewMetrics()
	r.Down = fleet.WhyEnded(gone)
	s.r.append(to, 1, []engine.Report{*r}, s.now)
	s.r.shown.end(1, s.now)
	s.store.take(to)
}

func (s *shownStory) check(up, on []float64, ages ...float64) {
	s.t.Helper()
	assert.Equal(s.t, up, s.store.of(metadata.KernUp), "kern_up")
	assert.Equal(s.t, on, s.store.of(metadata.KernTraceOn), "kern_trace_on")
	assert.Equal(s.t, ages, s.store.of(metadata.KernLastStepAgeSeconds), "kern_last_step_age_seconds")
}

func TestGaugesOfAnEngineThatIsNotHeard(t *testing.T) {
	for _, gone := range []bool{true, false} {
		s := newShownStory(t)
		r := full() // its last step ended 2.5 s before its last heartbeat
		s.export(0, r)
		s.check([]float64{1}, []float64{1}, 2.5)
		fleet.MarkDown([]engine.Report{*r}, time.Second)
		r.Silent, r.Down = 20*time.Second, fleet.Silent
		s.export(10*time.Second, r)
		s.check([]float64{0}, []float64{0}, 22.5)
		r.Silent, r.Down = 0, ""
		s.export(10*time.Second, r)
		s.check([]float64{1}, []float64{1}, 2.5)
		s.end(r, gone)
		s.check([]float64{0}, []float64{0})
		s.export(10 * time.Second)
		s.check([]float64{0}, []float64{0})
		require.NotEmpty(t, s.store.of(metadata.KernKernelsPending))
		s.export(endedShown)
		s.check(nil, nil)
		assert.Empty(t, s.store.of(metadata.KernKernelsPending))
		assert.NotEmpty(t, s.store.of(metadata.KernKernelsReceivedTotal), "counters stay")
		assert.Empty(t, s.r.shown.ranks)
		assert.Empty(t, s.r.shown.order)
	}
}

// What an engine is called can change, as its mode does: what it was called before ends.
func TestAChangeOfIdentity(t *testing.T) {
	s := newShownStory(t)
	r := full()
	s.export(0, r)
	before := len(s.store)
	r.Mode, r.Info["model"] = "software", "other"
	s.export(10*time.Second, r)
	assert.Len(t, s.store, before, "each series once")
	assert.Len(t, s.store.of(metadata.KernStepsTotal), 1)
	s.check([]float64{1}, []float64{1}, 2.5)
}

func TestEndedRanksAreBounded(t *testing.T) {
	s := newShownStory(t)
	for i := range maxEnded + 50 {
		r := full()
		r.Info["run"] = fmt.Sprint("run", i)
		to := pmetric.NewMetrics()
		r.Down = fleet.Gone
		s.r.append(to, uint64(i), []engine.Report{*r}, s.now)
		s.r.shown.end(uint64(i), s.now)
		s.store.take(to)
	}
	s.export(0)
	assert.Len(t, s.r.shown.ranks, maxEnded)
	assert.Len(t, s.store.of(metadata.KernUp), maxEnded)
}
