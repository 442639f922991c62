// Package kernwaitsconnector is an OpenTelemetry Collector connector that says who waits for whom: packed steps of all
// ranks of a run in, metrics out.
//
//	connector.go        log records ──▶ chunks; what is none is counted
//	metrics.go          what is counted ──▶ metrics
//
// Only durations are compared. Clocks of GPUs agree to 20 µs at best.
package kernwaitsconnector
