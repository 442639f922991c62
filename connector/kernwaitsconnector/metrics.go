package kernwaitsconnector

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/behaviour"
	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/cause"
	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/diverge"
	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/ledger"
	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/metadata"
	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/pairing"
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

// seconds appends a point of a metric in seconds. Integer ns become a float64 only here: sums up to 52 days keep every ns.
func (s *metricSet) seconds(m *metadata.Metric, ns uint64, values ...any) {
	s.number(m, values).SetDoubleValue(float64(ns) / 1e9)
}

// The labels of outcomes and reasons, in their order.
var (
	outcomes = [pairing.Outcomes]string{"compared", "not_comparable", "alone", "missing_rank", "incomplete", "unpaired", "diverged", "unmatched"}
	reasons  = [pairing.Reasons]string{"absent", "incomplete", "late", "memory", "duplicate"}
)

// metrics is all that is counted.
func (c *waitsConnector) metrics(now time.Time) pmetric.Metrics {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := pmetric.NewMetrics()
	instance := "waits"
	if id, ok := c.set.Resource.Attributes().Get("service.instance.id"); ok {
		instance += "/" + id.AsString()
	}
	resource := func() pmetric.ResourceMetrics {
		to := all.ResourceMetrics().AppendEmpty()
		to.Resource().Attributes().PutStr(metadata.ResourceServiceName, "kernhes")
		return to
	}
	own := resource()
	own.Resource().Attributes().PutStr(metadata.ResourceServiceInstanceId, instance)
	s := newMetricSet(own, c.begun, now, c.set.BuildInfo.Version)
	s.count(metadata.KernWaitsStepsTotal, c.comparison.steps)
	steps, bytes := c.comparison.pairing.Pending()
	s.count(metadata.KernWaitsStepsPending, uint64(steps))
	s.count(metadata.KernWaitsMemoryBytes, uint64(bytes))
	for _, reason := range []string{"not_a_chunk", "version", "corrupt"} {
		s.count(metadata.KernWaitsRefusedRecordsTotal, c.refused[reason], reason)
	}
	s.count(metadata.KernWaitsRefusedRecordsTotal, c.comparison.tooMany, "too_many_ranks")
	for _, run := range c.comparison.pairing.Runs() {
		to := resource()
		attributes := to.Resource().Attributes()
		attributes.PutStr(metadata.ResourceServiceInstanceId, run.Name+"/"+instance)
		attributes.PutStr(metadata.ResourceKernRun, run.Name)
		if run.Model != "" {
			attributes.PutStr(metadata.ResourceKernModel, run.Model)
		}
		newMetricSet(to, run.Begun, now, c.set.BuildInfo.Version).run(c.comparison.run(run))
	}
	return all
}

// run appends the metrics of a run.
func (s *metricSet) run(r *runState) {
	for _, sum := range r.ledger.Sums() {
		s.sum(sum)
	}
	for _, b := range r.ledger.Buses() {
		s.number(metadata.KernCommBusBytesTotal, []any{b.Group, b.Op}).SetDoubleValue(b.Bytes)
		s.seconds(metadata.KernCommBusSecondsTotal, b.NS, b.Group, b.Op)
	}
	for _, rank := range r.ledger.Ranks() {
		// These have a point from the start, at 0: a counter that begins at its first event shows no increase there.
		for o, n := range rank.Calls {
			s.count(metadata.KernCommCallsTotal, n, rank.Rank, outcomes[o])
		}
		s.count(metadata.KernCommMissingTotal, rank.Missing[pairing.Absent], rank.Rank, reasons[pairing.Absent])
		s.count(metadata.KernCommMissingTotal, rank.Missing[pairing.IncompleteStep], rank.Rank, reasons[pairing.IncompleteStep])
		for _, why := range []pairing.Reason{pairing.Late, pairing.Memory, pairing.Duplicate} {
			s.count(metadata.KernWaitsStepsDroppedTotal, rank.Dropped[why], rank.Rank, reasons[why])
		}
	}
	for key, n := range r.watcher.Counts() {
		s.count(metadata.KernBehaviourPositions, uint64(n), key.Program, key.Class, behaviour.Names[key.Behaviour])
	}
	for key, ns := range r.unseen {
		s.seconds(metadata.KernBehaviourComputeSecondsTotal, ns, key.rank, key.program)
	}
	for key, n := range r.differ {
		s.count(metadata.KernRanksDivergedTotal, n, key.rank, key.call, diverge.Names[key.difference])
	}
}

// sum appends the metrics of a label set.
func (s *metricSet) sum(sum *ledger.Sum) {
	for c, name := range cause.Names {
		if sum.Wait[c] > 0 {
			s.seconds(metadata.KernCommWaitSecondsTotal, sum.Wait[c], sum.Rank, sum.Program, sum.Group, name)
		}
		if sum.Blame[c] > 0 {
			s.seconds(metadata.KernCommBlameSecondsTotal, sum.Blame[c], sum.Rank, sum.Program, sum.Group, name)
		}
	}
	s.seconds(metadata.KernCommTransferSecondsTotal, sum.Transfer, sum.Rank, sum.Program, sum.Group)
	s.count(metadata.KernCommMeetingsTotal, sum.Meetings, sum.Rank, sum.Program, sum.Group)
	s.count(metadata.KernCommLastTotal, sum.Last, sum.Rank, sum.Program, sum.Group)
}
