package kernhesreceiver

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/receiver"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
)

// NewFactory returns the factory of the receiver `kernhes`.
func NewFactory() receiver.Factory {
	return receiver.NewFactory(metadata.Type, createDefaultConfig,
		receiver.WithMetrics(createMetrics, metadata.MetricsStability))
}

func createMetrics(_ context.Context, set receiver.Settings, cfg component.Config, next consumer.Metrics) (receiver.Metrics, error) {
	return newReceiver(set, cfg.(*Config), next, newEngines(set.Logger, cfg.(*Config)))
}
