// Package metadata holds metadata.yaml as Go.
package metadata

import (
	"errors"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/metric"
)

// Type is the extension's name in a configuration; ScopeName that of its instruments.
var (
	Type      = component.MustNewType("kernparquet_encoding")
	ScopeName = "github.com/kernhes/kernhes/extension/kernparquetencodingextension"
)

// ExtensionStability is how settled it is.
const ExtensionStability = component.StabilityLevelDevelopment

// AttributeReason is why a record was refused.
const AttributeReason = "reason"

// Telemetry is the extension's own instruments.
type Telemetry struct {
	Rows           metric.Int64Counter
	RefusedRecords metric.Int64Counter // attribute reason
	RepairedFiles  metric.Int64Counter
}

// NewTelemetry creates the instruments with the collector's meter.
func NewTelemetry(settings component.TelemetrySettings) (*Telemetry, error) {
	meter := settings.MeterProvider.Meter(ScopeName)
	var t Telemetry
	var faults []error
	counter := func(to *metric.Int64Counter, name, unit, description string) {
		c, err := meter.Int64Counter("otelcol_"+name, metric.WithUnit(unit), metric.WithDescription(description))
		*to, faults = c, append(faults, err)
	}
	counter(&t.Rows, "kernparquet_encoding_rows", "{row}", "Rows in messages.")
	counter(&t.RefusedRecords, "kernparquet_encoding_refused_records", "{record}",
		"Log records that hold no chunk of packed steps, by reason.")
	counter(&t.RepairedFiles, "kernparquet_encoding_repaired_files", "{file}", "Growing files of which a torn message was cut off.")
	return &t, errors.Join(faults...)
}
