package metrics

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/fleet"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
)

// shimMetrics are the metrics of the shim's statistics by their number on the wire.
var shimMetrics = []struct {
	key    uint32
	metric *metadata.Metric
}{
	{wire.StatCPU, metadata.KernShimCpuSecondsTotal},
	{wire.StatSentBytes, metadata.KernShimSentBytesTotal},
	{wire.StatQueuedBytes, metadata.KernShimQueuedBytes},
	{wire.StatQueuedBytesMax, metadata.KernShimQueuedMaxBytes},
	{wire.StatBuffers, metadata.KernShimBuffers},
	{wire.StatBuffersMax, metadata.KernShimBuffersMax},
	{wire.StatCallbacks, metadata.KernShimCallbacksTotal},
	{wire.StatKernels, metadata.KernShimKernelsTotal},
	{wire.StatCopies, metadata.KernShimCopiesTotal},
	{wire.StatEvents, metadata.KernShimEventsTotal},
	{wire.StatConnects, metadata.KernShimConnectsTotal},
	{wire.StatFlushes, metadata.KernShimFlushesTotal},
	{wire.StatFlushTime, metadata.KernShimFlushSecondsTotal},
	{wire.StatSlowFlushes, metadata.KernShimSlowFlushesTotal},
	{wire.StatTextsCut, metadata.KernShimTextsCutTotal},
	{wire.StatPinnedDropped, metadata.KernShimPinnedDroppedTotal},
	{wire.StatBufferRequests, metadata.KernShimBufferRequestsTotal},
	{wire.StatCallbackTime, metadata.KernShimCallbackSecondsTotal},
	{wire.StatRangeTime, metadata.KernShimRangeSecondsTotal},
	{wire.StatBufferTime, metadata.KernShimBufferSecondsTotal},
	{wire.StatRanges, metadata.KernShimRangeCallsTotal},
}

// shim appends the statistics that the shim has sent.
func (s *metricSet) shim(stats map[uint32]uint64) {
	for _, m := range shimMetrics {
		value, ok := stats[m.key]
		switch {
		case !ok: // an older shim, or none sent yet
		case m.metric.Double:
			s.seconds(m.metric, value)
		default:
			s.count(m.metric, value)
		}
	}
}

// A receiverReport is what holds for the receiver as a whole.
type receiverReport struct {
	since              time.Time
	connected, waiting uint64
	ended              fleet.EndingReport
	conflicts          uint64
}

// appendReceiver appends the receiver's own resource.
func appendReceiver(to pmetric.Metrics, r receiverReport, id, version string, now time.Time) {
	resource := to.ResourceMetrics().AppendEmpty()
	resource.Resource().Attributes().PutStr(metadata.ResourceServiceName, "kernhes")
	resource.Resource().Attributes().PutStr(metadata.ResourceServiceInstanceId, id)
	s := newMetricSet(resource, pcommon.NewTimestampFromTime(r.since), pcommon.NewTimestampFromTime(now), version)
	s.count(metadata.KernSessions, r.connected, "connected")
	s.count(metadata.KernSessions, r.waiting, "waiting")
	for i := range r.ended.Counts {
		e := &r.ended.Counts[i]
		s.count(metadata.KernSessionsEndedTotal, e.Bye, "bye", e.Run, e.Rank)
		s.count(metadata.KernSessionsEndedTotal, e.Gone, "gone", e.Run, e.Rank)
	}
	for i := range r.ended.Folded {
		e := &r.ended.Folded[i]
		for _, end := range []string{"bye", "gone"} {
			m := s.scope.Metrics().AppendEmpty() // Prometheus's exporter reads but one such point of a metric
			s.describe(m, metadata.KernSessionsEndedTotal)
			p := m.Sum().DataPoints().AppendEmpty()
			p.SetStartTimestamp(s.since)
			p.SetTimestamp(s.now)
			p.SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
			s.attributes(p.Attributes(), metadata.KernSessionsEndedTotal, []any{end, e.Run, e.Rank})
		}
	}
	s.count(metadata.KernRankConflicts, r.conflicts)
}
