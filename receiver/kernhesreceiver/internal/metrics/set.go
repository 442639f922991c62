package metrics

import (
	"maps"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/fleet"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
)

// A metricSet gathers the metrics of one resource.
type metricSet struct {
	scope   pmetric.ScopeMetrics
	metrics map[*metadata.Metric]pmetric.Metric
	since   pcommon.Timestamp // of cumulative sums
	now     pcommon.Timestamp
	first   []any // values of the attributes that every point begins with
}

func newMetricSet(resource pmetric.ResourceMetrics, since, now pcommon.Timestamp, version string, first ...any) *metricSet {
	scope := resource.ScopeMetrics().AppendEmpty()
	scope.Scope().SetName(metadata.ScopeName)
	scope.Scope().SetVersion(version)
	return &metricSet{scope, map[*metadata.Metric]pmetric.Metric{}, since, now, first}
}

// metric returns m of this resource, made at its first use.
func (s *metricSet) metric(m *metadata.Metric) pmetric.Metric {
	if to, ok := s.metrics[m]; ok {
		return to
	}
	to := s.scope.Metrics().AppendEmpty()
	s.describe(to, m)
	s.metrics[m] = to
	return to
}

// describe makes to a metric m without a point.
func (s *metricSet) describe(to pmetric.Metric, m *metadata.Metric) {
	to.SetName(m.Name)
	to.SetDescription(m.Description)
	to.SetUnit(m.Unit)
	switch m.Shape {
	case metadata.Sum:
		to.SetEmptySum().SetIsMonotonic(true)
		to.Sum().SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	case metadata.Gauge:
		to.SetEmptyGauge()
	case metadata.Histogram:
		to.SetEmptyHistogram().SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	}
}

// number appends a point of a sum or gauge.
func (s *metricSet) number(m *metadata.Metric, values []any) pmetric.NumberDataPoint {
	to := s.metric(m)
	var point pmetric.NumberDataPoint
	if m.Shape == metadata.Sum {
		point = to.Sum().DataPoints().AppendEmpty()
		point.SetStartTimestamp(s.since)
	} else {
		point = to.Gauge().DataPoints().AppendEmpty()
	}
	point.SetTimestamp(s.now)
	s.attributes(point.Attributes(), m, values)
	return point
}

// count appends a point of an integer metric.
func (s *metricSet) count(m *metadata.Metric, n uint64, values ...any) {
	s.number(m, values).SetIntValue(int64(n))
}

// seconds appends a point of a metric in seconds. Integer ns become a float64 only here: sums up to 52 days keep every ns (2^52 ns).
func (s *metricSet) seconds(m *metadata.Metric, ns uint64, values ...any) {
	s.number(m, values).SetDoubleValue(seconds(ns))
}

func seconds(ns uint64) float64 { return float64(ns) / 1e9 }

// attributes gives a point the values of m's attributes, in the order in which metadata.yaml names them.
func (s *metricSet) attributes(to pcommon.Map, m *metadata.Metric, values []any) {
	to.EnsureCapacity(len(m.Attributes))
	for i, name := range m.Attributes {
		var value any
		if i < len(s.first) {
			value = s.first[i]
		} else {
			value = values[i-len(s.first)]
		}
		if n, ok := value.(int64); ok {
			to.PutInt(name, n)
		} else {
			to.PutStr(name, label(value.(string)))
		}
	}
}

// age appends how long ago a moment was, in seconds; below 0 when the engine's clock was set back. An engine that has ended
// has no ages.
func (s *metricSet) age(m *metadata.Metric, moment uint64, r *engine.Report) {
	if r.Down != fleet.Gone && r.Down != fleet.Ended {
		s.number(m, nil).SetDoubleValue(float64(int64(r.NowOf()-moment)) / 1e9)
	}
}

// up appends whether the engine is heard. Where it is, the reason is empty.
func (s *metricSet) up(down string) {
	up := uint64(0)
	if down == "" {
		up = 1
	}
	s.count(metadata.KernUp, up, down)
}

// flag appends 1 or 0.
func (s *metricSet) flag(m *metadata.Metric, on bool) {
	n := uint64(0)
	if on {
		n = 1
	}
	s.count(m, n)
}

// byText appends a point for each text, those in zero also without a count, in order of the texts.
func (s *metricSet) byText(m *metadata.Metric, counts map[string]uint64, zero ...string) {
	texts := slices.AppendSeq(slices.Clone(zero), maps.Keys(counts))
	slices.Sort(texts)
	for _, text := range slices.Compact(texts) {
		s.count(m, counts[text], text)
	}
}
