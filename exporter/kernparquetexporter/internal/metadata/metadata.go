// Package metadata holds metadata.yaml as Go: the names, units and attributes of everything that users see.
package metadata

import "go.opentelemetry.io/collector/component"

// Type is the exporter's name in a configuration; ScopeName that of its instruments.
var (
	Type      = component.MustNewType("kernparquet")
	ScopeName = "github.com/kernhes/kernhes/exporter/kernparquetexporter"
)

// LogsStability is how settled the exporter is.
const LogsStability = component.StabilityLevelDevelopment
