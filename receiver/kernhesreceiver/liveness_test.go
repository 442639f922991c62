package kernhesreceiver

import (
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"

	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
)

// A prometheus keeps the last value of each gauge, as Prometheus's exporter does: of points without a value it reads the first of a metric.
type prometheus map[string]float64

func (p prometheus) take(all pmetric.Metrics) {
	for _, r := range all.ResourceMetrics().All() {
		for _, s := range r.ScopeMetrics().All() {
			for _, m := range s.Metrics().All() {
				for _, point := range numbers(m) {
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
	r     kernhesReceiver
	now   time.Time
	store prometheus
}

func newShownStory(t *testing.T) *shownStory {
	return &shownStory{t: t, r: kernhesReceiver{names: instances{}}, now: time.Unix(1_800_000_000, 0), store: prometheus{}}
}

// export exports live ranks, each in a session of its own, after some seconds.
func (s *shownStory) export(after time.Duration, live ...*engine.Report) {
	s.now = s.now.Add(after)
	to := pmetric.NewMetrics()
	for i, r := range live {
		s.r.append(to, uint64(i+1), []engine.Report{*r}, s.now)
		s.r.endings.live(r)
	}
	s.r.shown.ended(to, s.now)
	s.store.take(to)
}

func (s *shownStory) end(r *engine.Report, gone bool) {
	to := pmetric.NewMetrics()
	r.Down = whyEnded(gone)
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
		notice([]engine.Report{*r}, time.Second)
		r.Silent, r.Down = 20*time.Second, isSilent
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

func TestNotice(t *testing.T) {
	for _, c := range []struct {
		silent time.Duration
		hung   bool
		want   string
	}{
		{0, false, ""}, {silentAfter - 1, false, ""}, {silentAfter, false, isSilent}, {0, true, isHung}, {time.Hour, true, isSilent},
	} {
		r := []engine.Report{{Hung: c.hung}}
		notice(r, c.silent)
		assert.Equal(t, c.want, r[0].Down)
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
		r.Down = isGone
		s.r.append(to, uint64(i), []engine.Report{*r}, s.now)
		s.r.shown.end(uint64(i), s.now)
		s.store.take(to)
	}
	s.export(0)
	assert.Len(t, s.r.shown.ranks, maxEnded)
	assert.Len(t, s.store.of(metadata.KernUp), maxEnded)
}

func TestEndings(t *testing.T) {
	var e endings
	rank := func(i int) *engine.Report {
		return &engine.Report{Info: map[string]string{"run": fmt.Sprintf("run%03d", i)}, Rank: 2}
	}
	e.live(rank(0))
	require.Equal(t, []ending{{run: "run000", rank: 2, liveAt: 1}}, e.take().counts, "0 from the start")
	e.add(rank(0), true)
	e.add(rank(0), false)
	got := e.take().counts
	require.Len(t, got, 1)
	require.Equal(t, []uint64{1, 1}, []uint64{got[0].bye, got[0].gone})
	e.live(rank(1)) // goes without an end, as a session whose run is named anew
	e.take()
	got = e.take().counts
	require.Len(t, got, 1)

	for i := range 1000 {
		e.add(rank(i), i%2 == 0)
	}
	e.live(rank(2000))
	all := e.take()
	var bye, gone uint64
	for _, c := range all.counts {
		bye, gone = bye+c.bye, gone+c.gone
	}
	require.Equal(t, []uint64{501, 501}, []uint64{bye, gone}, "none is forgotten")
	require.Len(t, all.counts, maxEndings+2)
	require.Equal(t, otherRun, all.counts[len(all.counts)-1].run)
	require.Equal(t, "run000", all.folded[0].run)
	require.Len(t, all.folded, 1, "only what was exported needs an end")
	all = e.take()
	require.Len(t, all.folded, 1)
	require.Equal(t, "run2000", all.folded[0].run, "it is live no more, and none of it ended")
	require.Len(t, e.take().counts, maxEndings+1)
}
