package kernparquetencodingextension

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"

	"github.com/kernhes/kernhes/extension/kernparquetencodingextension/internal/metadata"
)

// NewFactory returns the factory of the extension.
func NewFactory() extension.Factory {
	return extension.NewFactory(metadata.Type, createDefaultConfig, create, metadata.ExtensionStability)
}

func create(_ context.Context, set extension.Settings, config component.Config) (extension.Extension, error) {
	return newEncoding(config.(*Config), set.TelemetrySettings)
}
