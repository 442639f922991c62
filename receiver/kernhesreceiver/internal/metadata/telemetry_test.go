package metadata

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata/metadatatest"
)

// TestTelemetryMetadata holds the receiver's own instruments to metadata.yaml, both ways.
func TestTelemetryMetadata(t *testing.T) {
	d := metadatatest.Read(t, "../../metadata.yaml")
	tel := componenttest.NewTelemetry()
	defer func() { require.NoError(t, tel.Shutdown(t.Context())) }()
	instruments, err := NewTelemetry(tel.NewTelemetrySettings())
	require.NoError(t, err)
	instruments.Connections.Add(t.Context(), 1)
	instruments.ConnectionsAccepted.Add(t.Context(), 1)
	instruments.ConnectionsRefused.Add(t.Context(), 1)
	instruments.Sessions.Add(t.Context(), 1)
	instruments.SessionsTakenOver.Add(t.Context(), 1)
	instruments.SessionsShed.Add(t.Context(), 1)
	instruments.ProtocolErrors.Add(t.Context(), 1)
	instruments.Frames.Add(t.Context(), 1)
	instruments.ReceivedBytes.Add(t.Context(), 1)
	instruments.RefusedKernels.Add(t.Context(), 1)
	instruments.RefusedCopies.Add(t.Context(), 1)
	instruments.DumpErrors.Add(t.Context(), 1)
	instruments.SampledSteps.Add(t.Context(), 1)
	instruments.SampledSpans.Add(t.Context(), 1)
	instruments.UnsampledSteps.Add(t.Context(), 1)
	instruments.ForgottenSteps.Add(t.Context(), 1)

	var got metricdata.ResourceMetrics
	require.NoError(t, tel.Reader.Collect(t.Context(), &got))
	require.Len(t, got.ScopeMetrics, 1)
	assert.Len(t, got.ScopeMetrics[0].Metrics, len(d.Telemetry.Metrics))
	for _, m := range got.ScopeMetrics[0].Metrics {
		want, ok := d.Telemetry.Metrics[strings.TrimPrefix(m.Name, "otelcol_")]
		require.True(t, ok, "%s is not declared", m.Name)
		assert.Equal(t, want.Unit, m.Unit, m.Name)
		assert.Equal(t, want.Description, m.Description, m.Name)
		assert.Equal(t, want.Sum.Monotonic, m.Data.(metricdata.Sum[int64]).IsMonotonic, m.Name)
	}
}
