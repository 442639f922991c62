package kernhesreceiver

import (
	"context"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/receiver"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
)

// NewFactory returns the factory of the receiver `kernhes`. One instance serves the pipelines of all signals that a
// configuration names it in: they share the endpoint.
func NewFactory() receiver.Factory {
	s := &shared{of: map[*Config]*kernhesReceiver{}}
	return receiver.NewFactory(metadata.Type, createDefaultConfig,
		receiver.WithMetrics(func(_ context.Context, set receiver.Settings, cfg component.Config, next consumer.Metrics) (receiver.Metrics, error) {
			return s.get(set, cfg.(*Config), func(r *kernhesReceiver) { r.metrics = next })
		}, metadata.MetricsStability),
		receiver.WithTraces(func(_ context.Context, set receiver.Settings, cfg component.Config, next consumer.Traces) (receiver.Traces, error) {
			return s.get(set, cfg.(*Config), func(r *kernhesReceiver) { r.traces = next })
		}, metadata.TracesStability),
		receiver.WithLogs(func(_ context.Context, set receiver.Settings, cfg component.Config, next consumer.Logs) (receiver.Logs, error) {
			return s.get(set, cfg.(*Config), func(r *kernhesReceiver) { r.logs = next })
		}, metadata.LogsStability))
}

// shared are the receivers that were made and not shut down, by their configuration.
type shared struct {
	mu sync.Mutex
	of map[*Config]*kernhesReceiver
}

// get returns the receiver of a configuration, making it if need be, and gives it a pipeline.
func (s *shared) get(set receiver.Settings, cfg *Config, with func(*kernhesReceiver)) (*kernhesReceiver, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.of[cfg]
	if r == nil {
		var err error
		if r, err = newReceiver(set, cfg, nil); err != nil {
			return nil, err
		}
		r.forget = func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.of, cfg)
		}
		s.of[cfg] = r
	}
	with(r)
	return r, nil
}
