package metadata

import (
	"errors"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/metric"
)

// Telemetry is the receiver's own instruments, as metadata.yaml lists them under `telemetry`.
type Telemetry struct {
	Connections         metric.Int64UpDownCounter
	ConnectionsAccepted metric.Int64Counter
	ConnectionsRefused  metric.Int64Counter // attribute reason
	Sessions            metric.Int64UpDownCounter
	SessionsTakenOver   metric.Int64Counter
	SessionsShed        metric.Int64Counter
	ProtocolErrors      metric.Int64Counter
	Frames              metric.Int64Counter
	ReceivedBytes       metric.Int64Counter
	RefusedKernels      metric.Int64Counter
	RefusedCopies       metric.Int64Counter
	DumpErrors          metric.Int64Counter
	SampledSteps        metric.Int64Counter // attribute sampled_by
	SampledSpans        metric.Int64Counter
	UnsampledSteps      metric.Int64Counter // attribute reason
	ForgottenSteps      metric.Int64Counter
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
	level := func(to *metric.Int64UpDownCounter, name, unit, description string) {
		c, err := meter.Int64UpDownCounter("otelcol_"+name, metric.WithUnit(unit), metric.WithDescription(description))
		*to, faults = c, append(faults, err)
	}
	level(&t.Connections, "kernhes_connections", "{connection}", "Open connections of engines.")
	counter(&t.ConnectionsAccepted, "kernhes_connections_accepted", "{connection}", "Connections of engines that were accepted.")
	counter(&t.ConnectionsRefused, "kernhes_connections_refused", "{connection}",
		"Connections that the receiver closed, by reason: before they counted, or because the engine fell silent or deaf.")
	level(&t.Sessions, "kernhes_sessions", "{session}", "Engine processes that are remembered.")
	counter(&t.SessionsTakenOver, "kernhes_sessions_taken_over", "{session}",
		"Sessions whose engine came with a new connection while the old one was open.")
	counter(&t.SessionsShed, "kernhes_sessions_shed", "{session}",
		"Sessions that were ended for another's, because their container, user or host had most of max_sessions.")
	counter(&t.ProtocolErrors, "kernhes_protocol_errors", "{error}", "Connections ended by a bad frame.")
	counter(&t.Frames, "kernhes_frames", "{frame}", "Frames read.")
	counter(&t.ReceivedBytes, "kernhes_received_bytes", "By", "Bytes read in whole frames.")
	counter(&t.RefusedKernels, "kernhes_refused_kernels", "{kernel}",
		"Kernels, packed for the archive, that the logs pipeline refused for good, or did not take within five seconds of their session's end.")
	counter(&t.RefusedCopies, "kernhes_refused_copies", "{copy}", "Copies and memsets likewise.")
	counter(&t.DumpErrors, "kernhes_dump_errors", "{line}", "Lines that could not be written to the dump.")
	counter(&t.SampledSteps, "kernhes_sampled_steps", "{step}", "Steps that were chosen for traces, by why.")
	counter(&t.SampledSpans, "kernhes_sampled_spans", "{span}", "Spans that were given to the traces pipeline.")
	counter(&t.UnsampledSteps, "kernhes_unsampled_steps", "{step}",
		"Steps that were chosen for traces and not written: over the budget of spans, or refused by the pipeline.")
	counter(&t.ForgottenSteps, "kernhes_forgotten_steps", "{step}",
		"Steps that were let go before their time because those kept for slow traces took too many bytes.")
	return &t, errors.Join(faults...)
}
