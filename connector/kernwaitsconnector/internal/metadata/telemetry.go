package metadata

import (
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/metric"
)

// RefusedDigests is the connector's own instrument, as metadata.yaml lists it under `telemetry`.
func RefusedDigests(settings component.TelemetrySettings) (metric.Int64Counter, error) {
	return settings.MeterProvider.Meter(ScopeName).Int64Counter("otelcol_kernwaits_refused_digests", metric.WithUnit("{record}"),
		metric.WithDescription("Digests of chunks that the next pipeline refused; they are lost."))
}
