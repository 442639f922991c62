// Package metrics turns the reports of sessions into metrics for the pipeline.
package metrics

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/device"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/fleet"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/pace"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/resource"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/step"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/wall"
)

// appendRank appends a rank's resource with all of its metrics. One whose device is not known yet waits: an engine loads
// its model for minutes before its first kernel, and series of a device that it then does not use would stay behind.
// quiet says that its run does not communicate, as far as is known; blocks is why the run stands still because of it, or empty.
func appendRank(to pmetric.Metrics, r *engine.Report, quiet bool, blocks fleet.Why, instance, version string, now time.Time) {
	if r.Unplaced {
		return
	}
	of := to.ResourceMetrics().AppendEmpty()
	resource.Rank(of.Resource().Attributes(), r.Source(), instance)
	boundLabels(of.Resource().Attributes())
	s := newMetricSet(of, pcommon.Timestamp(r.SinceNS), pcommon.NewTimestampFromTime(now), version, r.Rank)

	s.seconds(metadata.KernDeviceSecondsTotal, r.ComputeNS, "compute")
	s.seconds(metadata.KernDeviceSecondsTotal, r.CommNS, "comm")
	s.seconds(metadata.KernDeviceSecondsTotal, r.IdleNS, "idle")
	s.seconds(metadata.KernDeviceSecondsTotal, r.UnknownNS, "unknown")
	for why, ns := range r.UnknownByNS {
		s.seconds(metadata.KernDeviceUnknownSecondsTotal, ns, device.WhyNames[why])
	}
	s.seconds(metadata.KernDeviceTracedSecondsTotal, r.TracedNS())
	s.seconds(metadata.KernDeviceOverlappedCommSecondsTotal, r.OverlapNS)
	s.seconds(metadata.KernDeviceCopySecondsTotal, r.CopyNS)
	if r.WatermarkNS != 0 {
		s.seconds(metadata.KernWatermarkSeconds, r.WatermarkNS)
		s.age(metadata.KernWatermarkAgeSeconds, r.WatermarkNS, r)
	}
	if r.LastStepNS != 0 {
		s.age(metadata.KernLastStepAgeSeconds, r.LastStepNS, r)
	}

	s.count(metadata.KernKernelsReceivedTotal, r.Kernels)
	s.count(metadata.KernKernelsTotal, r.Became.InSteps, "in_step")
	s.count(metadata.KernKernelsTotal, r.Became.Outside, "outside")
	s.count(metadata.KernKernelsTotal, r.Became.Late, "late")
	s.count(metadata.KernKernelsTotal, r.Became.Invalid, "invalid")
	s.count(metadata.KernKernelsTotal, r.Became.Duplicate, "duplicate")
	s.byText(metadata.KernKernelsInvalidTotal, r.Invalid, engine.InvalidReasons[:]...)
	s.count(metadata.KernKernelsPending, r.Pending)
	s.count(metadata.KernKernelsCommTotal, r.Comm)
	s.count(metadata.KernKernelsLabelledTotal, r.Called)
	for by, t := range r.Coverage.By {
		s.seconds(metadata.KernClassifiedSecondsTotal, t.NS, span.ByNames[by])
	}
	s.seconds(metadata.KernInStepSecondsTotal, r.Coverage.InStep.NS)
	s.seconds(metadata.KernLabelledSecondsTotal, r.Coverage.Labelled.NS)
	s.flag(metadata.KernCommUnseen, quiet)
	for _, why := range fleet.Whys {
		one := uint64(0)
		if why == blocks {
			one = 1
		}
		s.count(metadata.KernRankBlocksRun, one, string(why))
	}
	s.byText(metadata.KernCopiesTotal, r.Copies)
	s.count(metadata.KernLaunchesTotal, r.Launches.All)
	s.count(metadata.KernLaunchesCapturedTotal, r.Launches.Captured)
	s.count(metadata.KernLaunchesUnfulfilledTotal, r.Launches.Unfulfilled)
	s.count(metadata.KernGraphReplaysUncheckedTotal, r.Launches.Unchecked)
	s.count(metadata.KernManifestMismatchesTotal, r.Mismatches)

	s.count(metadata.KernIdentityLateTotal, r.Late)
	s.count(metadata.KernStepsUntracedTotal, r.Untraced)
	if r.Ranges != nil {
		s.count(metadata.KernRangesOpen, r.Ranges.Open)
		c := &r.Ranges.Counts
		s.count(metadata.KernRangeFaultsTotal, c.Leaked, "leaked")
		s.count(metadata.KernRangeFaultsTotal, c.Underflow, "underflow")
		s.count(metadata.KernRangeFaultsTotal, c.Resynced, "resynced")
	}
	s.losses(r)
	s.books(r.Counts)
	s.flag(metadata.KernTraceDropCountReadable, r.Readable)
	s.flag(metadata.KernTraceOn, r.Watched() && r.Down == "")
	if r.Windows != nil {
		s.windows(r.Windows)
	}
	s.up(r.Down)
	s.seconds(metadata.KernTraceCostSecondsTotal, engine.ShimCost(r.Stats), "shim")
	s.seconds(metadata.KernTraceCostSecondsTotal, r.CUPTINS, "cupti")
	for i := range r.Series {
		s.steps(&r.Series[i])
	}
	for i := range r.Pace {
		s.pace(&r.Pace[i])
	}
	s.shim(r.Stats)
}

// windows appends how the windows of a process went.
func (s *metricSet) windows(w *engine.WindowsReport) {
	s.byText(metadata.KernWindowsTotal, w.Outcomes)
	s.count(metadata.KernWindowsTotal, w.Missed, "missed")
	s.count(metadata.KernWindowsLeft, w.Left)
	s.seconds(metadata.KernWindowHeldSecondsTotal, w.Held)
	if w.Measured {
		s.number(metadata.KernWindowCostSeconds, nil).SetDoubleValue(3600 * w.Share)
	}
	s.flag(metadata.KernWindowStuck, w.State == engine.StateStuck)
}

// losses appends what was lost. These counters go on over a reload of the configuration, and so does their start.
func (s *metricSet) losses(r *engine.Report) {
	since := s.since
	s.since = pcommon.Timestamp(r.LossSince())
	s.count(metadata.KernKernelsMissingTotal, r.Missing)
	s.byText(metadata.KernStepsIncompleteTotal, r.Incomplete, incompleteReasons...)
	if r.Limited != nil {
		s.byText(metadata.KernLimitedTotal, r.Limited, engine.LimitNames[:]...)
	}
	s.byText(metadata.KernTraceDroppedRecordsTotal, r.Dropped, books.Received()...)
	s.since = since
}

// These have a point from the start, at 0: a counter that begins at its first event shows no increase there.
var incompleteReasons = []string{step.MissingRecords, step.RangeOpen, step.TooLarge, step.EngineGone, step.JoinedLate, step.NotTraced,
	step.InvalidRecords}

// books appends what became of what was packed, and the residues of all identities.
func (s *metricSet) books(c books.Counts) {
	residue := books.Residues(c)
	s.count(metadata.KernKernelsResidue, uint64(residue[books.OfKernels]))
	s.number(metadata.KernDeviceResidueSeconds, nil).SetDoubleValue(float64(residue[books.OfDeviceTime]) / 1e9)
	for _, of := range []struct{ record, shim, packed, consumed, refused, pending string }{
		{"kernel", books.OfShimKernels, books.OfPackedKernels, books.PackedKernelsConsumed, books.PackedKernelsRefused, books.PackedKernelsPending},
		{"copy", books.OfShimCopies, books.OfPackedCopies, books.PackedCopiesConsumed, books.PackedCopiesRefused, books.PackedCopiesPending},
	} {
		if n, ok := residue[of.shim]; ok {
			s.count(metadata.KernShimResidue, uint64(n), of.record)
		}
		if n, ok := residue[of.packed]; ok {
			s.count(metadata.KernPackedRecordsTotal, c[of.consumed], of.record, "consumed")
			s.count(metadata.KernPackedRecordsTotal, c[of.refused], of.record, "refused")
			s.count(metadata.KernPackedRecordsPending, c[of.pending], of.record)
			s.count(metadata.KernPackedResidue, uint64(n), of.record)
		}
	}
}

// steps appends the metrics of one label set.
func (s *metricSet) steps(r *engine.SeriesReport) {
	s.count(metadata.KernStepsTotal, r.Steps, r.Program, r.Batch, r.KV)
	s.seconds(metadata.KernStepComputeSecondsTotal, r.ComputeNS, r.Program, r.Batch, r.KV)
	s.seconds(metadata.KernStepCommSecondsTotal, r.CommNS, r.Program, r.Batch, r.KV)
	s.seconds(metadata.KernStepForeignComputeSecondsTotal, r.ForeignNS, r.Program, r.Batch, r.KV)

	labels := []any{r.Program, r.Batch, r.KV}
	s.histogram(metadata.KernStepSeconds, times{r.Steps, r.WallNS, &r.Wall}, labels, &r.Exemplar)
}

// pace appends the times of the ranges of one label set.
func (s *metricSet) pace(r *pace.Series) {
	labels := []any{r.Program, r.Batch, r.KV}
	s.count(metadata.KernStepRangesTotal, r.Pushed, labels...)
	s.count(metadata.KernStepArrivalsTotal, r.Arrivals, labels...)
	for _, one := range []struct {
		as *metadata.Metric
		of *pace.Times
	}{
		{metadata.KernStepRangeSeconds, &r.Range}, {metadata.KernStepIntervalSeconds, &r.Interval}, {metadata.KernStepDeviceSeconds, &r.Device},
	} {
		if one.of.N > 0 {
			s.histogram(one.as, times{one.of.N, one.of.NS, &one.of.Counts}, labels, &engine.Exemplar{})
		}
	}
}

// times are what a histogram shows.
type times struct {
	n, ns  uint64
	counts *wall.Counts
}

// histogram appends the times of one label set.
func (s *metricSet) histogram(as *metadata.Metric, t times, labels []any, e *engine.Exemplar) {
	if t.counts.Expo != nil {
		s.exponential(as, t, labels, e)
		return
	}
	point := s.metric(as).Histogram().DataPoints().AppendEmpty()
	point.SetStartTimestamp(s.since)
	point.SetTimestamp(s.now)
	point.SetCount(t.n)
	point.SetSum(seconds(t.ns))
	point.BucketCounts().FromRaw(t.counts.Fixed)
	if t.counts.Layout != nil {
		bounds := point.ExplicitBounds()
		bounds.EnsureCapacity(len(t.counts.Layout.Bounds))
		for _, ns := range t.counts.Layout.Bounds {
			bounds.Append(seconds(ns))
		}
	}
	s.attributes(point.Attributes(), as, labels)
	exemplar(e, point.Exemplars())
}

// exponential appends the times of one label set as an exponential histogram.
func (s *metricSet) exponential(as *metadata.Metric, t times, labels []any, e *engine.Exemplar) {
	m := s.metric(as)
	if m.Type() != pmetric.MetricTypeExponentialHistogram {
		m.SetEmptyExponentialHistogram().SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	}
	point := m.ExponentialHistogram().DataPoints().AppendEmpty()
	point.SetStartTimestamp(s.since)
	point.SetTimestamp(s.now)
	point.SetCount(t.n)
	point.SetSum(seconds(t.ns))
	point.SetScale(t.counts.Expo.Scale())
	point.SetZeroCount(t.counts.Expo.ZeroCount())
	from, to := t.counts.Expo.Positive(), point.Positive()
	to.SetOffset(from.Offset())
	to.BucketCounts().EnsureCapacity(int(from.Len()))
	for i := range from.Len() {
		to.BucketCounts().Append(from.At(i))
	}
	s.attributes(point.Attributes(), as, labels)
	exemplar(e, point.Exemplars())
}

// exemplar appends the step of a label set that has a trace, if there is one.
func exemplar(e *engine.Exemplar, all pmetric.ExemplarSlice) {
	if e.EndNS == 0 {
		return
	}
	to := all.AppendEmpty()
	to.SetTimestamp(pcommon.Timestamp(e.EndNS))
	to.SetDoubleValue(seconds(e.WallNS))
	to.SetTraceID(e.Span.Trace)
	to.SetSpanID(e.Span.Span)
}
