package metrics

import (
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/fleet"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
)

// How long, and of how many ranks, kern_up of ended ones is exported: some scrapes see it.
const (
	endedShown = 2 * time.Minute
	maxEnded   = 256
)

// A shownKey is a device of a session.
type shownKey struct {
	session uint64
	device  int
}

// A shownRank is what was last exported of a rank.
type shownRank struct {
	last  pmetric.ResourceMetrics // its gauges, as they were exported
	down  string
	until time.Time // when it is exported for the last time, if it has ended; else zero
}

// shown is what was last exported of each rank. An exporter that keeps the last value of each series, as the one for Prometheus,
// shows it until it is told that there is no more: a point without a value. Whoever holds exporting has it.
type shown struct {
	ranks map[shownKey]*shownRank
	order []shownKey // ended ones, oldest first
}

// show takes what is exported of a rank now, and has series end that were exported and no longer are: those of what it was called
// before, and kern_up with another reason.
func (s *shown) show(to pmetric.Metrics, now pmetric.ResourceMetrics, key shownKey, down string) {
	if s.ranks == nil {
		s.ranks = map[shownKey]*shownRank{}
	}
	before := s.ranks[key]
	if before != nil {
		as := before.last.Resource()
		renamed := !as.Attributes().Equal(now.Resource().Attributes())
		if renamed {
			endSeries(to, as, now, now, func(m pmetric.Metric) bool { return m.Name() != metadata.KernUp.Name })
		}
		if renamed || before.down != down {
			endSeries(to, as, before.last, now, func(m pmetric.Metric) bool { return m.Name() == metadata.KernUp.Name })
		}
		if down == fleet.Gone || down == fleet.Ended {
			endSeries(to, as, before.last, now, isAge)
		}
	}
	gauges := pmetric.NewResourceMetrics()
	now.CopyTo(gauges)
	gauges.ScopeMetrics().At(0).Metrics().RemoveIf(func(m pmetric.Metric) bool {
		return m.Type() != pmetric.MetricTypeGauge || isAge(m) && (down == fleet.Gone || down == fleet.Ended)
	})
	s.ranks[key] = &shownRank{last: gauges, down: down}
}

// end takes the end of a session, all of whose ranks were shown for the last time.
func (s *shown) end(session uint64, now time.Time) {
	var ended []shownKey
	for key, r := range s.ranks {
		if key.session == session {
			r.until = now.Add(endedShown)
			ended = append(ended, key)
		}
	}
	slices.SortFunc(ended, func(a, b shownKey) int { return a.device - b.device })
	s.order = append(s.order, ended...)
}

// ended goes on to say of ended ranks that they are not up, and after a while ends their gauges.
func (s *shown) ended(to pmetric.Metrics, now time.Time) {
	for len(s.order) > 0 {
		r := s.ranks[s.order[0]]
		if len(s.order) <= maxEnded && now.Before(r.until) {
			break
		}
		endSeries(to, r.last.Resource(), r.last, r.last, func(pmetric.Metric) bool { return true })
		delete(s.ranks, s.order[0])
		s.order = s.order[1:]
	}
	for _, key := range s.order {
		again := to.ResourceMetrics().AppendEmpty()
		s.ranks[key].last.CopyTo(again)
		again.ScopeMetrics().At(0).Metrics().RemoveIf(func(m pmetric.Metric) bool { return m.Name() != metadata.KernUp.Name })
		eachGauge(again, func(p pmetric.NumberDataPoint) { p.SetTimestamp(pcommon.NewTimestampFromTime(now)) })
	}
}

func isAge(m pmetric.Metric) bool {
	return m.Name() == metadata.KernWatermarkAgeSeconds.Name || m.Name() == metadata.KernLastStepAgeSeconds.Name
}

// endSeries appends points without a value for series of a resource: those of the metrics of from that are wanted.
// Each is in a metric of its own: Prometheus's exporter reads but one of a metric.
func endSeries(to pmetric.Metrics, as pcommon.Resource, from, now pmetric.ResourceMetrics, wanted func(pmetric.Metric) bool) {
	var end pmetric.ScopeMetrics
	begun := false
	metrics := from.ScopeMetrics().At(0).Metrics()
	for i := range metrics.Len() {
		m := metrics.At(i)
		if !wanted(m) {
			continue
		}
		if !begun {
			begun = true
			resource := to.ResourceMetrics().AppendEmpty()
			as.CopyTo(resource.Resource())
			end = resource.ScopeMetrics().AppendEmpty()
			now.ScopeMetrics().At(0).Scope().CopyTo(end.Scope())
		}
		endMetric(end.Metrics(), m)
	}
}

// endMetric appends a point without a value for each of a metric's.
func endMetric(to pmetric.MetricSlice, m pmetric.Metric) {
	none := pmetric.DefaultDataPointFlags.WithNoRecordedValue(true)
	one := func() pmetric.Metric {
		end := to.AppendEmpty()
		end.SetName(m.Name())
		end.SetDescription(m.Description())
		end.SetUnit(m.Unit())
		return end
	}
	number := func(p, end pmetric.NumberDataPoint) {
		p.Attributes().CopyTo(end.Attributes())
		end.SetStartTimestamp(p.StartTimestamp())
		end.SetTimestamp(p.Timestamp())
		end.SetFlags(none)
	}
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		for i := range m.Gauge().DataPoints().Len() {
			number(m.Gauge().DataPoints().At(i), one().SetEmptyGauge().DataPoints().AppendEmpty())
		}
	case pmetric.MetricTypeSum:
		for i := range m.Sum().DataPoints().Len() {
			sum := one().SetEmptySum()
			sum.SetIsMonotonic(m.Sum().IsMonotonic())
			sum.SetAggregationTemporality(m.Sum().AggregationTemporality())
			number(m.Sum().DataPoints().At(i), sum.DataPoints().AppendEmpty())
		}
	case pmetric.MetricTypeHistogram:
		for i := range m.Histogram().DataPoints().Len() {
			p := m.Histogram().DataPoints().At(i)
			histogram := one().SetEmptyHistogram()
			histogram.SetAggregationTemporality(m.Histogram().AggregationTemporality())
			end := histogram.DataPoints().AppendEmpty()
			p.Attributes().CopyTo(end.Attributes())
			end.SetStartTimestamp(p.StartTimestamp())
			end.SetTimestamp(p.Timestamp())
			end.SetFlags(none)
		}
	case pmetric.MetricTypeExponentialHistogram:
		for i := range m.ExponentialHistogram().DataPoints().Len() {
			p := m.ExponentialHistogram().DataPoints().At(i)
			histogram := one().SetEmptyExponentialHistogram()
			histogram.SetAggregationTemporality(m.ExponentialHistogram().AggregationTemporality())
			end := histogram.DataPoints().AppendEmpty()
			p.Attributes().CopyTo(end.Attributes())
			end.SetStartTimestamp(p.StartTimestamp())
			end.SetTimestamp(p.Timestamp())
			end.SetFlags(none)
		}
	}
}

// eachGauge calls f with each point of a resource's gauges.
func eachGauge(r pmetric.ResourceMetrics, f func(pmetric.NumberDataPoint)) {
	metrics := r.ScopeMetrics().At(0).Metrics()
	for i := range metrics.Len() {
		for k := range metrics.At(i).Gauge().DataPoints().Len() {
			f(metrics.At(i).Gauge().DataPoints().At(k))
		}
	}
}
