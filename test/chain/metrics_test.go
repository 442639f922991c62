//go:build chain

package chain_test

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// A series is a metric's name and its own labels, in order of their names: `kern_steps_total{batch="8",…}`. Labels of
// the resource, and rank, are not in it.
type series = string

// own are the labels that belong to a series.
var own = []string{
	"kind", "program", "batch", "kv", "reason", "record", "delivery", "limit", "fault", "by", "state", "copy", "source", "link", "end", "le",
	"transport", "receiver", "table", "why", "cause", "outcome",
}

func seriesOf(name string, labels map[string]string) series {
	var pairs []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if slices.Contains(own, k) {
			pairs = append(pairs, fmt.Sprintf("%s=%q", k, labels[k]))
		}
	}
	if len(pairs) == 0 {
		return name
	}
	return name + "{" + strings.Join(pairs, ",") + "}"
}

// A numbers is the values of the series of one resource.
type numbers map[series]float64

// ns is a value in seconds as the integer nanoseconds that it stands for.
func (n numbers) ns(s series) int64 { return int64(math.Round(n[s] * 1e9)) }

// count is a value that is an integer.
func (n numbers) count(s series) int { return int(n[s]) }

// sum adds up the series of a metric whose labels contain all of parts.
func (n numbers) sum(name string, parts ...string) (sum float64) {
series:
	for s, v := range n {
		if metric, _, _ := strings.Cut(s, "{"); metric != name {
			continue
		}
		for _, p := range parts {
			if !strings.Contains(s, p) {
				continue series
			}
		}
		sum += v
	}
	return sum
}

// A resource is whose numbers these are.
type resource struct {
	run, instance string
	numbers       numbers
}

// scrape reads a Prometheus page, by service.instance.id.
func scrape(t testing.TB, url string) map[string]*resource {
	t.Helper()
	answer, err := http.Get(url)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	require.NoError(t, err)
	of := map[string]*resource{}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			instance := cmp.Or(labels["service_instance_id"], labels["instance"])
			r := of[instance]
			if r == nil {
				r = &resource{run: labels["kern_run"], instance: instance, numbers: numbers{}}
				of[instance] = r
			}
			if name == "target_info" {
				continue
			}
			r.run = cmp.Or(r.run, labels["kern_run"])
			put := func(name string, v float64) {
				s := seriesOf(name, labels)
				_, twice := r.numbers[s]
				require.False(t, twice && r.run != "", "%s of %s is there twice", s, instance)
				r.numbers[s] += v // of the collector's own, labels that no test asks for are left out
			}
			if h := m.GetHistogram(); family.GetType() == dto.MetricType_HISTOGRAM {
				put(name+"_count", float64(h.GetSampleCount()))
				put(name+"_sum", h.GetSampleSum())
				for _, b := range h.GetBucket() {
					labels["le"] = strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64)
					put(name+"_bucket", float64(b.GetCumulativeCount()))
				}
				continue
			}
			put(name, m.GetCounter().GetValue()+m.GetGauge().GetValue()+m.GetUntyped().GetValue())
		}
	}
	return of
}

// exports stops the collector and gives all that its file exporter wrote: until then the last lines are in its buffer, or torn.
func (c *collector) exports(t testing.TB) (all []pmetric.Metrics) {
	t.Helper()
	c.stop()
	text, err := os.ReadFile(c.jsonl)
	require.NoError(t, err)
	for line := range bytes.Lines(text) {
		m, err := (&pmetric.JSONUnmarshaler{}).UnmarshalMetrics(line)
		require.NoError(t, err)
		all = append(all, m)
	}
	return all
}

// exported stops the collector and gives what the file exporter's lines say last of each series, by service.instance.id.
func (c *collector) exported(t testing.TB) map[string]numbers {
	t.Helper()
	of := map[string]numbers{}
	for _, m := range c.exports(t) {
		for _, r := range m.ResourceMetrics().All() {
			id, _ := r.Resource().Attributes().Get("service.instance.id")
			to := of[id.AsString()]
			if to == nil {
				to = numbers{}
				of[id.AsString()] = to
			}
			to.takeAll(r)
		}
	}
	return of
}

// exportsOf stops the collector and counts the exports that have numbers of a run, those of them that say that it is not up, and
// those that say only that.
func (c *collector) exportsOf(t testing.TB, run string) (full, last, notUp int) {
	t.Helper()
	for _, m := range c.exports(t) {
		of := numbers{}
		for _, r := range m.ResourceMetrics().All() {
			if its, ok := r.Resource().Attributes().Get("kern.run"); ok && its.AsString() == run {
				of.takeAll(r)
			}
		}
		others := maps.Clone(of)
		maps.DeleteFunc(others, func(s series, v float64) bool { return strings.HasPrefix(s, "kern_up{") && v == 0 })
		switch {
		case len(others) > 0:
			full++
			if len(others) < len(of) {
				last++
			}
		case len(of) > 0:
			notUp++
		}
	}
	return full, last, notUp
}

// takeAll takes the points of all metrics of a resource.
func (n numbers) takeAll(r pmetric.ResourceMetrics) {
	for _, scope := range r.ScopeMetrics().All() {
		for _, metric := range scope.Metrics().All() {
			n.take(metric)
		}
	}
}

// take takes the points of a metric, named as Prometheus has them. A series ends with a point without a value.
func (n numbers) take(m pmetric.Metric) {
	labels := func(attributes pcommon.Map) map[string]string {
		l := map[string]string{}
		for k, v := range attributes.All() {
			l[k] = v.AsString()
		}
		return l
	}
	points := pmetric.NewNumberDataPointSlice()
	switch m.Type() {
	case pmetric.MetricTypeSum:
		points = m.Sum().DataPoints()
	case pmetric.MetricTypeGauge:
		points = m.Gauge().DataPoints()
	case pmetric.MetricTypeHistogram:
		for _, p := range m.Histogram().DataPoints().All() {
			l := labels(p.Attributes())
			n[seriesOf(m.Name()+"_count", l)] = float64(p.Count())
			n[seriesOf(m.Name()+"_sum", l)] = p.Sum()
			below := uint64(0)
			for i, count := range p.BucketCounts().All() {
				below += count
				bound := math.Inf(1)
				if i < p.ExplicitBounds().Len() {
					bound = p.ExplicitBounds().At(i)
				}
				l["le"] = strconv.FormatFloat(bound, 'g', -1, 64)
				n[seriesOf(m.Name()+"_bucket", l)] = float64(below)
			}
		}
	}
	for _, p := range points.All() {
		s := seriesOf(m.Name(), labels(p.Attributes()))
		if p.Flags().NoRecordedValue() {
			delete(n, s)
			continue
		}
		v := p.DoubleValue()
		if p.ValueType() == pmetric.NumberDataPointValueTypeInt {
			v = float64(p.IntValue())
		}
		n[s] = v
	}
}
