package metadata

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.yaml.in/yaml/v3"
)

// declared is what of metadata.yaml the code follows.
type declared struct {
	Type   string `yaml:"type"`
	Status struct {
		Stability map[string][]string `yaml:"stability"`
	} `yaml:"status"`
	Attributes map[string]struct {
		Enum []string `yaml:"enum"`
	} `yaml:"attributes"`
	Telemetry struct {
		Metrics map[string]struct {
			Description string `yaml:"description"`
			Unit        string `yaml:"unit"`
			Sum         struct {
				Monotonic bool `yaml:"monotonic"`
			} `yaml:"sum"`
			Attributes []string `yaml:"attributes"`
		} `yaml:"metrics"`
	} `yaml:"telemetry"`
}

// TestInstrumentsAreThoseDeclared reads every instrument back.
func TestInstrumentsAreThoseDeclared(t *testing.T) {
	text, err := os.ReadFile("../../metadata.yaml")
	require.NoError(t, err)
	var d declared
	require.NoError(t, yaml.Unmarshal(text, &d))
	require.Equal(t, d.Type, Type.String())
	require.Equal(t, []string{"logs"}, d.Status.Stability[strings.ToLower(LogsStability.String())])

	telemetry := componenttest.NewTelemetry()
	tm, err := NewTelemetry(telemetry.NewTelemetrySettings())
	require.NoError(t, err)
	tables := map[string]int64{"k": 1, "s": 2, "c": 3, "r": 4}
	require.ElementsMatch(t, slices.Collect(maps.Keys(tables)), d.Attributes["table"].Enum)
	require.NoError(t, tm.Observe(func() Observed { return Observed{Rows: tables, LostRows: tables} }))
	tm.RefusedRecords.Add(t.Context(), 1)
	for name, want := range d.Telemetry.Metrics {
		got, err := telemetry.GetMetric("otelcol_" + name)
		require.NoError(t, err, name)
		require.Equal(t, want.Description, got.Description)
		require.Equal(t, want.Unit, got.Unit)
		sum := got.Data.(metricdata.Sum[int64])
		require.Equal(t, want.Sum.Monotonic, sum.IsMonotonic, name)
		if slices.Contains(want.Attributes, "table") {
			seen := map[string]int64{}
			for _, p := range sum.DataPoints {
				v, _ := p.Attributes.Value("table")
				seen[v.AsString()] = p.Value
			}
			require.Equal(t, tables, seen, name)
		}
	}
	require.Len(t, tm.observed, len(d.Telemetry.Metrics)-1, "instruments that are not declared")
	require.NoError(t, tm.Shutdown())
	require.NoError(t, telemetry.Shutdown(t.Context()))
}
