package kernwaitsconnector

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/connector/connectortest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/metadata"
	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/chunklog"
)

// points are the points of the last export, by metric, run and attributes in the order of metadata.yaml.
func points(t *testing.T, sink *consumertest.MetricsSink) map[string]float64 {
	t.Helper()
	all := sink.AllMetrics()
	require.NotEmpty(t, all)
	d := readDeclared(t)
	got := map[string]float64{}
	for _, resource := range all[len(all)-1].ResourceMetrics().All() {
		run := ""
		if v, ok := resource.Resource().Attributes().Get(metadata.ResourceKernRun); ok {
			run = v.Str()
		}
		for _, m := range resource.ScopeMetrics().At(0).Metrics().All() {
			declared, ok := d.Metrics[m.Name()]
			require.True(t, ok, m.Name())
			require.Equal(t, declared.Description, m.Description())
			data := m.Gauge().DataPoints
			if m.Type() == pmetric.MetricTypeSum {
				data = m.Sum().DataPoints
			}
			for _, p := range data().All() {
				key := m.Name() + " " + run
				require.Equal(t, len(declared.Attributes), p.Attributes().Len())
				for _, name := range declared.Attributes {
					v, ok := p.Attributes().Get(name)
					require.True(t, ok)
					if values := d.Attributes[name].Enum; values != nil {
						require.Contains(t, values, v.Str(), name)
					}
					key += " " + v.AsString()
				}
				_, twice := got[key]
				require.False(t, twice, key)
				got[key] = p.DoubleValue() + float64(p.IntValue())
			}
		}
	}
	return got
}

// recordedLogs are the log records of the two recorded ranks.
func recordedLogs(t *testing.T) (all []plog.Logs) {
	t.Helper()
	for _, bodies := range packedTP2() {
		for _, body := range bodies {
			c, err := chunk.Unpack(body)
			require.NoError(t, err)
			logs := plog.NewLogs()
			sealed := &chunk.Sealed{Body: body, Window: chunk.Window(c.Steps[0].Seq)}
			chunklog.Put(sealed, logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty(), c.Run)
			all = append(all, logs)
		}
	}
	return all
}

// Through the factory, log records in: metrics out as declared, and a status.
func TestLogsBecomeMetrics(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	config := createDefaultConfig().(*Config)
	config.HTTP.Get().NetAddr.Endpoint = address
	sink := new(consumertest.MetricsSink)
	c, err := NewFactory().CreateLogsToMetrics(t.Context(), connectortest.NewNopSettings(metadata.Type), config, sink)
	require.NoError(t, err)
	require.NoError(t, c.Start(t.Context(), componenttest.NewNopHost()))
	for _, logs := range recordedLogs(t) {
		require.NoError(t, c.ConsumeLogs(t.Context(), logs))
		require.NoError(t, c.ConsumeLogs(t.Context(), logs), "as where another exporter refused it the first time")
	}
	answer, err := http.Get("http://" + address + "/status")
	require.NoError(t, err)
	defer answer.Body.Close()
	var s status
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&s))
	require.Equal(t, 2*189, s.StepsPending, "another rank may come")
	require.NoError(t, c.Shutdown(t.Context()))

	got := points(t, sink)
	require.EqualValues(t, 2*2*189, got["kern_waits_steps_total "])
	var calls, wait, blame, transfer float64
	for key, value := range got {
		var name, run string
		var rank int64
		_, _ = fmt.Sscan(key, &name, &run, &rank)
		switch name {
		case "kern_comm_calls_total":
			calls += value
		case "kern_comm_wait_seconds_total":
			wait += value
		case "kern_comm_blame_seconds_total":
			blame += value
		case "kern_comm_transfer_seconds_total":
			transfer += value
		}
	}
	require.EqualValues(t, 2*189*72, calls, "each call counts once, and a step that came twice does not")
	require.EqualValues(t, 189, got["kern_waits_steps_dropped_total run 1 duplicate"])
	ns := func(seconds float64) int64 { return int64(math.Round(seconds * 1e9)) }
	require.Equal(t, ns(wait), ns(blame))
	var durations int64 // of all all-reduces, by hand
	for _, logs := range recordedLogs(t) {
		body, err := chunklog.Body(logs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0))
		require.NoError(t, err)
		c, err := chunk.Unpack(body)
		require.NoError(t, err)
		for _, s := range c.Steps {
			for i, d := range s.Durs {
				if s.Shape.Positions[i].Class == chunk.Comm && !s.Outside {
					durations += int64(d)
				}
			}
		}
	}
	require.Equal(t, durations, ns(wait+transfer))
}
