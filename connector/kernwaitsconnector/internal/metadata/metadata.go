// Package metadata holds metadata.yaml as Go: the names, units and attributes of everything that users see.
package metadata

import "go.opentelemetry.io/collector/component"

//go:generate go run ../../../../receiver/kernhesreceiver/internal/metadata/gen ../../metadata.yaml generated_metrics.go

// Type is the connector's name in a configuration; ScopeName that of its metrics.
var (
	Type      = component.MustNewType("kernwaits")
	ScopeName = "github.com/kernhes/kernhes/connector/kernwaitsconnector"
)

// How settled the connector is.
const (
	LogsToMetricsStability = component.StabilityLevelDevelopment
	LogsToLogsStability    = component.StabilityLevelDevelopment
)

// A Shape is the OTLP data type of a metric.
type Shape int

// The data types in use; sums are cumulative and monotonic.
const (
	Sum Shape = iota + 1
	Gauge
)

// A Metric is one metric of metadata.yaml.
type Metric struct {
	Name        string
	Description string
	Unit        string
	Shape       Shape
	Double      bool     // values are floating-point
	Attributes  []string // of each data point, in the order in which values are given
}
