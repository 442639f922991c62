// Package kernparquetexporter is an OpenTelemetry Collector exporter that writes packed steps into Parquet files: every
// kernel of every step.
//
//	exporter.go         log records ──▶ chunks; what is none is counted
//	internal/archive    chunks ──▶ journal ──▶ tables k, s and c ──▶ files, closed when their roll is over
//	http.go             closes them when asked, and says what is open
//
// ConsumeLogs returns when the chunks outlive a crash and a power loss. So a sending queue, and a persistent one at that,
// forgets a chunk only when it is safe here.
package kernparquetexporter
