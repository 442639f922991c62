package kernparquetexporter

import (
	"context"
	"io/fs"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"

	"github.com/kernhes/kernhes/exporter/kernparquetexporter/internal/archive"
	"github.com/kernhes/kernhes/exporter/kernparquetexporter/internal/metadata"
)

// NewFactory returns the factory of the exporter `kernparquet`.
func NewFactory() exporter.Factory {
	return exporter.NewFactory(metadata.Type, createDefaultConfig,
		exporter.WithLogs(createLogs, metadata.LogsStability))
}

func createLogs(ctx context.Context, set exporter.Settings, cfg component.Config) (exporter.Logs, error) {
	config := cfg.(*Config)
	disk := archive.NewDirectory(config.Directory)
	disk.Mode = fs.FileMode(config.FileMode)
	e, err := newExporter(set, config, disk)
	if err != nil {
		return nil, err
	}
	return exporterhelper.NewLogs(ctx, set, cfg, e.consume,
		exporterhelper.WithStart(e.start),
		exporterhelper.WithShutdown(e.shutdown),
		exporterhelper.WithCapabilities(consumer.Capabilities{MutatesData: false}),
		// A write ends when the disk says so; giving up earlier would write it twice.
		exporterhelper.WithTimeout(exporterhelper.TimeoutConfig{Timeout: 0}),
		exporterhelper.WithQueue(config.Queue),
		exporterhelper.WithRetry(config.Retry))
}
