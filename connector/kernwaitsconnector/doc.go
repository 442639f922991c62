// Package kernwaitsconnector is an OpenTelemetry Collector connector that says who waits for whom: packed steps of all
// ranks of a run in, metrics out.
//
//	connector.go        log records ──▶ chunks; what is none is counted
//	internal/digest     steps ──▶ the times of their communication calls, at the top of the module
//	internal/pairing    calls of all ranks ──▶ meetings
//	internal/cause      meetings ──▶ why the last rank came late
//	internal/diverge    steps of a group ──▶ the rank that does something else
//	internal/ledger     waits ──▶ sums by label set
//	metrics.go          what is counted ──▶ metrics
//
// Only durations are compared. Clocks of GPUs agree to 20 µs at best.
package kernwaitsconnector
