package metrics

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/internal/model"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/coverage"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/device"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/fleet"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata/metadatatest"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metrics/metricstest"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/pace"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/ranges"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/wall"
)

// somePace is of nine steps of 1 ms, 2 ms apart but for the last, one of which was measured.
func somePace() []pace.Series {
	p, key := pace.New(wall.Fixed, 1), pace.Key{Program: "decode", Batch: "8", KV: "1024"}
	now := uint64(1e9)
	for id := range uint64(10) {
		p.Push(id, 1, key, now)
		p.Pop(id, now+1e6)
		if now += 2e6; id == 8 {
			now += 1e9
		}
	}
	p.Measured(key, 3e6)
	return p.Series()
}

// full is a report in which everything is set.
func full() *engine.Report {
	r := &engine.Report{
		Mode: "hes", Tracing: true, Info: map[string]string{"engine": "vllm", "engine_version": "0.9", "run": "r1", "pid": "77", "host": "n1", "mode": "hes",
			"model": "qwen3-4b", "gpu.1.uuid": "GPU-1", "gpu.1.name": "NVIDIA B200", "shim_version": "0.1", "cupti_version": "130400",
			"driver_version": "13000", "container.id": "c0ffee", "k8s.pod.uid": "2d4d9ed5"},
		Rank: 3, Device: 1, SinceNS: 5, NowNS: 4e9, FirstNS: 1e9, LastNS: 2e9, WatermarkNS: 3e9, LastStepNS: 15e8,
		ComputeNS: 678404441, CommNS: 200579964, IdleNS: 3318261500, UnknownNS: 7, OverlapNS: 11, CopyNS: 13, CUPTINS: 17,
		Kernels: 117, Became: model.Outcomes{InSteps: 100, Settled: model.Settled{Outside: 5, Late: 4, Invalid: 3, Duplicate: 2}}, Pending: 3,
		Invalid: map[string]uint64{"zero_timestamp": 3},
		Comm:    17, Called: 90, Missing: 6, Mismatches: 7, Limited: map[string]uint64{"max_ranges": 8}, Copies: map[string]uint64{"memset": 19, "HtoD": 23},
		Launches: engine.LaunchCounts{All: 30, Captured: 20, Unfulfilled: 1, Unchecked: 8}, StepRanges: 12, Complete: 10, Untraced: 9, Pace: somePace(),
		Incomplete: map[string]uint64{"timeout": 2}, Dropped: map[string]uint64{"shim_pool": 29}, Readable: true,
		Coverage: coverage.Report{Totals: coverage.Totals{
			By:     [3]coverage.Time{{NS: 31, Kernels: 1}, {NS: 37, Kernels: 60}, {NS: 41, Kernels: 44}},
			InStep: coverage.Time{NS: 103, Kernels: 100}, Labelled: coverage.Time{NS: 101, Kernels: 90},
		}},
		Ranges: &engine.RangesReport{Counts: ranges.Counts{Leaked: 43, Underflow: 44, Resynced: 45}, Open: 46},
		Series: []engine.SeriesReport{{Program: "decode", Batch: "8", KV: "1024", Steps: 2, ComputeNS: 1e6, CommNS: 2e6, ForeignNS: 3e6}},
		Stats:  map[uint32]uint64{},

		UnknownByNS: [device.Whys]uint64{device.OutsideWindow: 4, device.Loss: 3},
		Windows: &engine.WindowsReport{
			State: "stuck_attached", Outcomes: map[string]uint64{"complete": 47, "overdue": 0}, Missed: 48, Left: 49, Held: 50, Measured: true, Share: 0.01,
		},
	}
	r.Series[0].AddWall(3e6)
	r.Series[0].AddWall(3e6 + 1)
	for i, m := range shimMetrics {
		r.Stats[m.key] = uint64(1000 + i)
	}
	r.Counts = books.Counts{}
	for i, identity := range books.Identities { // each part is 1 more than that before; residues are 1, 2, …
		for k, part := range identity.Parts {
			r.Counts[part] = uint64(k + 1)
			r.Counts[identity.Of] += uint64(k + 1)
		}
		r.Counts[identity.Of] += uint64(i + 1)
	}
	return r
}

func fullMetrics() pmetric.Metrics {
	m := pmetric.NewMetrics()
	appendRank(m, full(), true, "", "r1/3/77", "1.2.3", time.Unix(9, 0))
	appendReceiver(m, receiverReport{
		connected: 1, waiting: 2, conflicts: 5, ended: fleet.EndingReport{Counts: []fleet.Ending{{Run: "r1", Rank: 3, Bye: 3, Gone: 4}}},
	}, "kernhes", "1.2.3", time.Unix(9, 0))
	return m
}

// TestResourceOfAGPU holds the attributes to the semantic conventions of hardware, containers and Kubernetes, 1.44.
func TestResourceOfAGPU(t *testing.T) {
	got := fullMetrics().ResourceMetrics().At(0).Resource().Attributes().AsRaw()
	for name, want := range map[string]any{
		"hw.id": "GPU-1", "hw.model": "NVIDIA B200", "hw.type": "gpu", "container.id": "c0ffee", "k8s.pod.uid": "2d4d9ed5", "process.pid": int64(77),
	} {
		assert.Equal(t, want, got[name], name)
	}
	assert.NotContains(t, got, "hw.name")
}

func TestMetricValues(t *testing.T) {
	got := metricstest.Points(fullMetrics())
	check := func(name, attributes string, want any) {
		t.Helper()
		assert.Equal(t, []any{want}, got[name][attributes], "%s{%s}", name, attributes)
	}
	check("kern_device_seconds_total", "compute", 0.678404441)
	check("kern_device_seconds_total", "comm", 0.200579964)
	check("kern_device_seconds_total", "idle", 3.3182615)
	check("kern_device_seconds_total", "unknown", 7e-9)
	check("kern_device_unknown_seconds_total", "outside_window", 4e-9)
	check("kern_device_unknown_seconds_total", "yielded", 0.0)
	check("kern_device_unknown_seconds_total", "loss", 3e-9)
	check("kern_device_traced_seconds_total", "", 4.197245908) // all but 4 ns
	check("kern_windows_total", "complete", int64(47))
	check("kern_windows_total", "overdue", int64(0))
	check("kern_windows_total", "missed", int64(48))
	check("kern_windows_left", "", int64(49))
	check("kern_window_held_seconds_total", "", 50e-9)
	check("kern_window_cost_seconds", "", 36.0)
	check("kern_window_stuck", "", int64(1))
	check("kern_device_overlapped_comm_seconds_total", "", 11e-9)
	check("kern_device_copy_seconds_total", "", 13e-9)
	check("kern_step_compute_seconds_total", "decode,8,1024", 1e-3)
	check("kern_step_comm_seconds_total", "decode,8,1024", 2e-3)
	check("kern_step_foreign_compute_seconds_total", "decode,8,1024", 3e-3)
	check("kern_step_seconds", "decode,8,1024", 0.006000001)
	check("kern_steps_total", "decode,8,1024", int64(2))
	check("kern_steps_incomplete_total", "timeout", int64(2))
	check("kern_steps_untraced_total", "", int64(9))
	check("kern_step_ranges_total", "decode,8,1024", int64(10))
	check("kern_step_range_seconds", "decode,8,1024", 0.010)
	check("kern_step_interval_seconds", "decode,8,1024", 0.016)
	check("kern_step_arrivals_total", "decode,8,1024", int64(1))
	check("kern_step_device_seconds", "decode,8,1024", 0.003)
	check("kern_trace_dropped_records_total", "shim_pool", int64(29))
	check("kern_trace_dropped_records_total", "hes_buffer", int64(0))
	check("kern_steps_incomplete_total", "engine_gone", int64(0))
	check("kern_kernels_missing_total", "", int64(6))
	check("kern_manifest_mismatches_total", "", int64(7))
	check("kern_limited_total", "max_ranges", int64(8))
	check("kern_limited_total", "launches", int64(0))
	check("kern_trace_drop_count_readable", "", int64(1))
	check("kern_watermark_seconds", "", 3.0)
	check("kern_watermark_age_seconds", "", 1.0)
	check("kern_last_step_age_seconds", "", 2.5)
	check("kern_kernels_total", "late", int64(4))
	check("kern_graph_replays_unchecked_total", "", int64(8))
	check("kern_kernels_residue", "", int64(1))
	check("kern_shim_residue", "kernel", int64(2))
	check("kern_shim_residue", "copy", int64(3))
	check("kern_packed_records_total", "kernel,consumed", int64(1))
	check("kern_packed_records_total", "copy,refused", int64(2))
	check("kern_packed_records_pending", "kernel", int64(3))
	check("kern_packed_residue", "kernel", int64(4))
	check("kern_packed_residue", "copy", int64(5))
	check("kern_device_residue_seconds", "", 6e-9)
	check("kern_classified_seconds_total", "default", 31e-9)
	check("kern_classified_seconds_total", "rule", 37e-9)
	check("kern_classified_seconds_total", "manifest", 41e-9)
	check("kern_in_step_seconds_total", "", 103e-9)
	check("kern_labelled_seconds_total", "", 101e-9)
	check("kern_comm_unseen", "", int64(1))
	check("kern_copies_total", "HtoD", int64(23))
	check("kern_shim_cpu_seconds_total", "", 1000e-9)
	check("kern_trace_cost_seconds_total", "shim", 2035e-9) // callbacks and ranges
	check("kern_trace_cost_seconds_total", "cupti", 17e-9)
	check("kern_sessions", "waiting", int64(2))
	check("kern_sessions_ended_total", "gone,r1", int64(4))
	check("kern_range_faults_total", "leaked", int64(43))
	check("kern_range_faults_total", "underflow", int64(44))
	check("kern_range_faults_total", "resynced", int64(45))
	check("kern_ranges_open", "", int64(46))
	check("kern_up", "", int64(1))
	check("kern_trace_on", "", int64(1))

	metricstest.Each(fullMetrics(), func(m pmetric.Metric) {
		if m.Name() != "kern_step_seconds" {
			return
		}
		p := m.Histogram().DataPoints().At(0)
		bounds, counts := p.ExplicitBounds().AsRaw(), p.BucketCounts().AsRaw()
		require.Len(t, counts, len(bounds)+1)
		at := slices.Index(bounds, 0.003)
		assert.EqualValues(t, 1, counts[at], "the bound is inclusive")
		assert.EqualValues(t, 1, counts[at+1])
		assert.EqualValues(t, 2, p.Count())
	})
}

func TestAnExponentialHistogramHasTheStepsAndTheExemplar(t *testing.T) {
	r := full()
	r.Series[0].Wall = wall.Counts{Layout: &wall.Layout{Exponential: true}}
	r.Series[0].WallNS = 0
	for range 3 {
		r.Series[0].AddWall(4e6)
	}
	r.Series[0].AddWall(1e9)
	r.Series[0].Steps = 4
	r.Series[0].Exemplar = engine.Exemplar{WallNS: 4e6, EndNS: 7}
	m := pmetric.NewMetrics()
	appendRank(m, r, false, "", "", "", time.Time{})
	found := false
	metricstest.Each(m, func(m pmetric.Metric) {
		if m.Name() != "kern_step_seconds" {
			return
		}
		found = true
		assert.Equal(t, pmetric.AggregationTemporalityCumulative, m.ExponentialHistogram().AggregationTemporality())
		p := m.ExponentialHistogram().DataPoints().At(0)
		assert.EqualValues(t, 4, p.Count())
		assert.InDelta(t, 1.012, p.Sum(), 1e-12)
		base := math.Pow(2, math.Pow(2, -float64(p.Scale())))
		for value, want := range map[float64]uint64{0.004: 3, 1: 1} {
			// Bucket i has what is above base^i, up to base^(i+1).
			i := int(math.Ceil(math.Log(value)/math.Log(base)-1e-9)) - 1 - int(p.Positive().Offset())
			assert.Equal(t, want, p.Positive().BucketCounts().At(i), value)
		}
		assert.InDelta(t, 0.004, p.Exemplars().At(0).DoubleValue(), 1e-12)
	})
	assert.True(t, found)
}

func TestResidueShows(t *testing.T) {
	r := full()
	r.Counts = books.Counts{books.KernelsReceived: 1, books.KernelsLate: 2}
	m := pmetric.NewMetrics()
	appendRank(m, r, false, "", "", "", time.Time{})
	assert.Equal(t, []any{int64(-1)}, metricstest.Points(m)["kern_kernels_residue"][""])
	assert.Empty(t, metricstest.Points(m)["kern_packed_residue"], "nothing is packed")
}

func typeName(v pcommon.Value) string {
	return map[pcommon.ValueType]string{pcommon.ValueTypeStr: "string", pcommon.ValueTypeInt: "int"}[v.Type()]
}

// unitOf is the unit that a metric's name tells, and whether its values are floating-point: by the naming of Prometheus, a
// name ends in its unit, and _total after that says that it is a sum. The code's units are generated from metadata.yaml, so
// that is not what to hold them to.
func unitOf(name string) (unit string, double bool) {
	switch name = strings.TrimSuffix(name, "_total"); {
	case strings.HasSuffix(name, "_seconds"):
		return "s", true
	case strings.HasSuffix(name, "_bytes"):
		return "By", false
	}
	return "{", false // a count, of what stands in the braces
}

// TestMetadata holds what is emitted to the rules of names, to what metadata.yaml says of attributes, and that all it
// declares is emitted.
func TestMetadata(t *testing.T) {
	d := metadatatest.Read(t, "../../metadata.yaml")
	emitted, attributes, resources := map[string]bool{}, map[string]bool{}, map[string]bool{}
	all := fullMetrics()
	for _, r := range all.ResourceMetrics().All() {
		for k, v := range r.Resource().Attributes().All() {
			resources[k] = true
			assert.Equal(t, d.Resource[k].Type, typeName(v), "resource attribute %s", k)
		}
	}
	for name := range d.Resource {
		assert.True(t, resources[name], "resource attribute %s is declared but never set", name)
	}
	metricstest.Each(all, func(m pmetric.Metric) {
		name := m.Name()
		emitted[name] = true
		want, ok := d.Metrics[name]
		require.True(t, ok, "%s is not declared", name)
		unit, double := unitOf(name)
		assert.True(t, strings.HasPrefix(m.Unit(), unit), "%s: unit %q", name, m.Unit())
		assert.NotEmpty(t, m.Description(), name)
		check := func(p pcommon.Map) {
			for k, v := range p.All() {
				attributes[k] = true
				assert.Equal(t, d.Attributes[k].Type, typeName(v), "%s: %s", name, k)
				if enum := d.Attributes[k].Enum; enum != nil {
					assert.Contains(t, enum, v.AsString(), "%s: %s", name, k)
				}
			}
		}
		for _, p := range metricstest.Numbers(m) {
			check(p.Attributes())
			assert.Equal(t, double, p.ValueType() == pmetric.NumberDataPointValueTypeDouble, name)
		}
		assert.Equal(t, strings.HasSuffix(name, "_total"), m.Type() == pmetric.MetricTypeSum, "%s: sums, and nothing else, end in _total", name)
		switch m.Type() {
		case pmetric.MetricTypeSum:
			require.NotNil(t, want.Sum, name)
			assert.True(t, want.Sum.Monotonic && m.Sum().IsMonotonic(), name)
			assert.Equal(t, "cumulative", want.Sum.Temporality, name)
			assert.Equal(t, pmetric.AggregationTemporalityCumulative, m.Sum().AggregationTemporality(), name)
		case pmetric.MetricTypeHistogram:
			require.NotNil(t, want.Histogram, name)
			check(m.Histogram().DataPoints().At(0).Attributes())
			assert.Equal(t, "cumulative", want.Histogram.Temporality, name)
			assert.Equal(t, pmetric.AggregationTemporalityCumulative, m.Histogram().AggregationTemporality(), name)
		}
	})
	for name, m := range d.Metrics {
		assert.True(t, emitted[name], "%s is declared but never emitted", name)
		for _, a := range m.Attributes {
			assert.Contains(t, d.Attributes, a, name)
		}
	}
	for name := range d.Attributes {
		if strings.HasPrefix(name, "kern.") {
			continue // of spans
		}
		assert.True(t, attributes[name], "attribute %s is declared but on no point", name)
	}
}
