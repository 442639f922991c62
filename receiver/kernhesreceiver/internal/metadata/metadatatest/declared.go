// Package metadatatest turns metadata.yaml into what it declares, for tests.
package metadatatest

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// Declared is metadata.yaml.
type Declared struct {
	Status struct {
		Stability map[string][]string // signals by level
	}
	Metrics map[string]struct {
		Description, Unit     string
		Sum, Gauge, Histogram *struct {
			ValueType   string `yaml:"value_type"`
			Monotonic   bool
			Temporality string `yaml:"aggregation_temporality"`
		}
		Attributes []string
	}
	Resource   map[string]struct{ Type string } `yaml:"resource_attributes"`
	Attributes map[string]struct {
		Type, Description string
		Enum              []string
	}
	Telemetry struct {
		Metrics map[string]struct {
			Description, Unit string
			Sum               struct{ Monotonic bool }
			Attributes        []string
		}
	}
}

// Read reads metadata.yaml.
func Read(t *testing.T, path string) (d Declared) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &d))
	return d
}
