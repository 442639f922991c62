// Package metricstest turns metrics into values by name, for tests.
package metricstest

import (
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// Points is the values of all points by metric and attributes other than rank, joined by commas.
func Points(all ...pmetric.Metrics) map[string]map[string][]any {
	got := map[string]map[string][]any{}
	put := func(name string, attributes pcommon.Map, value any) {
		var key []string
		for k, v := range attributes.All() {
			if k != "rank" {
				key = append(key, v.AsString())
			}
		}
		if got[name] == nil {
			got[name] = map[string][]any{}
		}
		k := strings.Join(key, ",")
		got[name][k] = append(got[name][k], value)
	}
	for _, m := range all {
		Each(m, func(m pmetric.Metric) {
			for _, p := range Numbers(m) {
				if p.ValueType() == pmetric.NumberDataPointValueTypeInt {
					put(m.Name(), p.Attributes(), p.IntValue())
				} else {
					put(m.Name(), p.Attributes(), p.DoubleValue())
				}
			}
			if m.Type() == pmetric.MetricTypeHistogram {
				for _, p := range m.Histogram().DataPoints().All() {
					put(m.Name(), p.Attributes(), p.Sum())
				}
			}
		})
	}
	return got
}

// Each calls f with each metric.
func Each(all pmetric.Metrics, f func(pmetric.Metric)) {
	for _, r := range all.ResourceMetrics().All() {
		for _, s := range r.ScopeMetrics().All() {
			for _, m := range s.Metrics().All() {
				f(m)
			}
		}
	}
}

// Numbers are the points of a sum or gauge.
func Numbers(m pmetric.Metric) (p []pmetric.NumberDataPoint) {
	var slice pmetric.NumberDataPointSlice
	switch m.Type() {
	case pmetric.MetricTypeSum:
		slice = m.Sum().DataPoints()
	case pmetric.MetricTypeGauge:
		slice = m.Gauge().DataPoints()
	default:
		return nil
	}
	for _, point := range slice.All() {
		p = append(p, point)
	}
	return p
}
