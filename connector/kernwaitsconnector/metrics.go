package kernwaitsconnector

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/metadata"
)

// A metricSet gathers the metrics of one resource.
type metricSet struct {
	scope   pmetric.ScopeMetrics
	metrics map[*metadata.Metric]pmetric.Metric
	since   pcommon.Timestamp // of cumulative sums
	now     pcommon.Timestamp
}

func newMetricSet(resource pmetric.ResourceMetrics, since, now time.Time, version string) *metricSet {
	scope := resource.ScopeMetrics().AppendEmpty()
	scope.Scope().SetName(metadata.ScopeName)
	scope.Scope().SetVersion(version)
	return &metricSet{scope, map[*metadata.Metric]pmetric.Metric{}, pcommon.NewTimestampFromTime(since), pcommon.NewTimestampFromTime(now)}
}

// metric returns m of this resource, made at its first use.
func (s *metricSet) metric(m *metadata.Metric) pmetric.Metric {
	if to, ok := s.metrics[m]; ok {
		return to
	}
	to := s.scope.Metrics().AppendEmpty()
	to.SetName(m.Name)
	to.SetDescription(m.Description)
	to.SetUnit(m.Unit)
	if m.Shape == metadata.Sum {
		to.SetEmptySum().SetIsMonotonic(true)
		to.Sum().SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	} else {
		to.SetEmptyGauge()
	}
	s.metrics[m] = to
	return to
}

// number appends a point. Values are those of the attributes, in the order in which metadata.yaml names them.
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
	point.Attributes().EnsureCapacity(len(m.Attributes))
	for i, name := range m.Attributes {
		if n, ok := values[i].(int64); ok {
			point.Attributes().PutInt(name, n)
		} else {
			point.Attributes().PutStr(name, values[i].(string))
		}
	}
	return point
}

// count appends a point of an integer metric.
func (s *metricSet) count(m *metadata.Metric, n uint64, values ...any) {
	s.number(m, values).SetIntValue(int64(n))
}

// metrics is all that is counted.
func (c *waitsConnector) metrics(now time.Time) pmetric.Metrics {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := pmetric.NewMetrics()
	resource := all.ResourceMetrics().AppendEmpty()
	resource.Resource().Attributes().PutStr(metadata.ResourceServiceName, "kernhes")
	resource.Resource().Attributes().PutStr(metadata.ResourceServiceInstanceId, "waits/"+c.set.ID.String())
	s := newMetricSet(resource, c.begun, now, c.set.BuildInfo.Version)
	s.count(metadata.KernWaitsStepsTotal, c.steps)
	for _, reason := range []string{"not_a_chunk", "version", "corrupt"} {
		s.count(metadata.KernWaitsRefusedRecordsTotal, c.refused[reason], reason)
	}
	return all
}
