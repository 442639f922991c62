package compat_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.yaml.in/yaml/v3"

	"github.com/kernhes/kernhes/connector/kernwaitsconnector"
	"github.com/kernhes/kernhes/exporter/kernparquetexporter"
	"github.com/kernhes/kernhes/extension/kernparquetencodingextension"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver"
)

// names are the public names of today, a line each. The pages that have them are held to the code by other tests.
func names(t *testing.T) (all []string) {
	t.Helper()
	table := func(file, begin, kind string, cells int) {
		text, err := os.ReadFile(root + file)
		require.NoError(t, err)
		_, rest, ok := strings.Cut(string(text), begin)
		require.True(t, ok, "%s has no %s", file, begin)
		rest, _, _ = strings.Cut(rest, "\n<!-- end")
		for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| *((?:[^|\\\\]|\\\\\\|)*?) *\\|").FindAllStringSubmatch(rest, -1) {
			name := kind + " " + row[1]
			if cells > 1 {
				name += " " + row[2]
			}
			all = append(all, name)
		}
	}
	table("docs/metrics.md", "<!-- begin metrics -->", "metric", 2)
	for _, name := range []string{"k", "s", "c"} {
		table("docs/schema.md", "<!-- columns of "+name+" -->", "column "+name, 2)
	}
	table("docs/configuration.md", "<!-- begin receiver settings -->", "setting kernhes", 1)
	table("exporter/kernparquetexporter/README.md", "<!-- begin settings -->", "setting kernparquet", 1)
	table("docs/configuration.md", "<!-- begin shim settings -->", "variable", 1)
	// Label values may be added, so a label is its name alone.
	for i, line := range all {
		if strings.HasPrefix(line, "metric ") {
			all[i] = strings.TrimSpace(regexp.MustCompile(` = [^,]*`).ReplaceAllString(line, ""))
		}
	}
	slices.Sort(all)
	return all
}

// TestOldNames has each name of an old version still be there: metrics with their labels, columns with their types, settings, variables.
func TestOldNames(t *testing.T) {
	today := names(t)
	require.Greater(t, len(today), 150)
	each(t, func(t *testing.T, dir string) {
		path := filepath.Join(dir, "names.txt")
		if rewrites(t, dir) {
			require.NoError(t, os.WriteFile(path, []byte(strings.Join(today, "\n")+"\n"), 0o644))
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			assert.Contains(t, today, strings.TrimSuffix(line, "\n"), "docs/compatibility.md says how a name may go")
		}
	})
}

// shipped are the configurations of this version.
var shipped = []string{"otelcol-dist/*.yaml", "packaging/config.yaml", "deploy/kubernetes/*/*-config.yaml"}

// TestOldConfigurations has the components of today take what configurations of old versions set.
func TestOldConfigurations(t *testing.T) {
	defaults := map[string]func() component.Config{
		"receivers kernhes":               kernhesreceiver.NewFactory().CreateDefaultConfig,
		"exporters kernparquet":           kernparquetexporter.NewFactory().CreateDefaultConfig,
		"connectors kernwaits":            kernwaitsconnector.NewFactory().CreateDefaultConfig,
		"extensions kernparquet_encoding": kernparquetencodingextension.NewFactory().CreateDefaultConfig,
	}
	each(t, func(t *testing.T, dir string) {
		if rewrites(t, dir) {
			keepConfigurations(t, filepath.Join(dir, "config"))
		}
		files, err := filepath.Glob(filepath.Join(dir, "config", "*.yaml"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		taken := map[string]bool{}
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			var parts map[string]map[string]any
			require.NoError(t, yaml.Unmarshal(text, &parts), file)
			for part, components := range parts {
				for id, settings := range components {
					kind, _, _ := strings.Cut(id, "/")
					standard := defaults[part+" "+kind]
					if standard == nil {
						continue
					}
					set, _ := settings.(map[string]any)
					config := standard()
					require.NoError(t, confmap.NewFromStringMap(set).Unmarshal(config), "%s: %s", file, id)
					require.NoError(t, confmap.Validate(config), "%s: %s", file, id)
					taken[part+" "+kind] = true
				}
			}
		}
		assert.Len(t, taken, len(defaults), "every component is in one of them: %v", taken)
	})
}

// keepConfigurations copies the configurations of this version, by their paths with dashes.
func keepConfigurations(t *testing.T, to string) {
	t.Helper()
	require.NoError(t, os.RemoveAll(to))
	require.NoError(t, os.MkdirAll(to, 0o755))
	for _, pattern := range shipped {
		files, err := filepath.Glob(root + pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			name := strings.ReplaceAll(strings.TrimPrefix(file, root), "/", "-")
			require.NoError(t, os.WriteFile(filepath.Join(to, name), text, 0o644))
		}
	}
}
