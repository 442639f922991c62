package kernhesreceiver

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata/metadatatest"
)

var update = flag.Bool("update", false, "write golden files and the generated tables of docs/ anew")

// TestGeneratedTables holds the tables of the documentation to what they are generated from.
func TestGeneratedTables(t *testing.T) {
	for _, table := range []struct{ file, name, text string }{
		{"docs/configuration.md", "receiver settings", configTable(t)},
		{"docs/configuration.md", "shim settings", shimTable(t)},
		{"docs/metrics.md", "metrics", metricsTable(t)},
		{"docs/operations.md", "limits", limitsTable(t)},
	} {
		path := "../../" + table.file
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		begin, end := "<!-- begin "+table.name+" -->\n", "<!-- end "+table.name+" -->"
		before, rest, ok := strings.Cut(string(text), begin)
		require.True(t, ok, "%s has no %q", table.file, begin)
		_, after, ok := strings.Cut(rest, end)
		require.True(t, ok, "%s has no %q", table.file, end)
		want := before + begin + table.text + end + after
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
			continue
		}
		assert.Equal(t, want, string(text), "%s is not what it is generated from: run make golden", table.file)
	}
}

// TestInstallManifest holds the manifest of a collector of your own in docs/install.md to that of the distribution, which is built.
func TestInstallManifest(t *testing.T) {
	type component struct{ GoMod, Import, Name string }
	type manifest struct{ Receivers, Exporters, Connectors, Extensions, Providers []component }
	read := func(text string) (m manifest) {
		require.NoError(t, yaml.Unmarshal([]byte(text), &m))
		return m
	}
	install, err := os.ReadFile("../../docs/install.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(install), "\n## A collector of your own\n")
	require.True(t, ok)
	_, block, ok := strings.Cut(section, "```yaml\n")
	require.True(t, ok)
	block, _, _ = strings.Cut(block, "```")
	whole, err := os.ReadFile("../../builder-config.yaml")
	require.NoError(t, err)
	short, long := read(block), read(string(whole))
	assert.Subset(t, long.Receivers, short.Receivers)
	assert.Subset(t, long.Exporters, short.Exporters)
	assert.Subset(t, long.Extensions, short.Extensions)
	assert.Subset(t, long.Providers, short.Providers)
	assert.Subset(t, long.Connectors, short.Connectors)
	ours := func(m manifest) (names []string) {
		for _, c := range slices.Concat(m.Receivers, m.Exporters, m.Connectors, m.Extensions) {
			if strings.HasPrefix(c.Import, "github.com/kernhes/kernhes/") {
				names = append(names, c.Name)
			}
		}
		return names
	}
	require.Len(t, ours(long), 4)
	assert.Equal(t, ours(long), ours(short), "every component of kernhes")
}

// configTable is the comments of Config's fields.
func configTable(t *testing.T) string {
	f, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	require.NoError(t, err)
	return "| key | meaning | default |\n| --- | --- | --- |\n" + configRows(t, f, "Config", "")
}

// configDefaults are the defaults of the settings by key, as the table has them.
func configDefaults(t *testing.T) map[string]string {
	defaults := map[string]string{}
	for row := range strings.Lines(configTable(t)) {
		if cells := strings.Split(strings.TrimSpace(row), " | "); strings.HasPrefix(row, "| `") {
			defaults[strings.Trim(cells[0], "|` ")] = strings.TrimSuffix(cells[2], " |")
		}
	}
	return defaults
}

// configRows are the rows of a struct's fields, and of those of a struct among them.
func configRows(t *testing.T, f *ast.File, name, prefix string) string {
	var b strings.Builder
	for _, field := range f.Scope.Lookup(name).Decl.(*ast.TypeSpec).Type.(*ast.StructType).Fields.List {
		if field.Doc == nil {
			continue
		}
		key, _, _ := strings.Cut(reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("mapstructure"), ",")
		if key == "" {
			key = "endpoint" // squashed
		}
		if of, ok := field.Type.(*ast.Ident); ok && strings.HasSuffix(of.Name, "Config") {
			b.WriteString(configRows(t, f, of.Name, prefix+key+"::"))
			continue
		}
		comment := strings.Join(strings.Fields(field.Doc.Text()), " ")
		meaning, standard, ok := strings.Cut(comment, " Default: ")
		require.True(t, ok, "%s: its comment gives no default", key)
		_, meaning, _ = strings.Cut(meaning, " ") // the field's name
		meaning = strings.TrimPrefix(strings.TrimPrefix(meaning, "is "), "are ")
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", prefix+key, strings.TrimSuffix(meaning, "."), strings.TrimSuffix(standard, "."))
	}
	return b.String()
}

// metricsTable is the metrics of metadata.yaml.
func metricsTable(t *testing.T) string {
	d := metadatatest.Read(t, "metadata.yaml")
	var b strings.Builder
	fmt.Fprint(&b, "| metric | labels | meaning |\n| --- | --- | --- |\n")
	for _, name := range slices.Sorted(maps.Keys(d.Metrics)) {
		m := d.Metrics[name]
		labels := slices.Clone(m.Attributes)
		for i, label := range labels {
			if values := d.Attributes[label].Enum; values != nil {
				labels[i] += " = " + strings.Join(values, " \\| ")
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, strings.Join(labels, ", "), m.Description)
	}
	return b.String()
}

// shimTable is what the shim's own table of settings prints.
func shimTable(t *testing.T) string {
	program := filepath.Join(t.TempDir(), "env")
	out, err := exec.CommandContext(t.Context(), "cc", "-std=c11", "-D_GNU_SOURCE", "-DKERNHES_ENV_MAIN",
		"-I../../shim", "-o", program, "../../shim/host/env.c", "-pthread").CombinedOutput()
	require.NoError(t, err, string(out))
	out, err = exec.CommandContext(t.Context(), program).Output()
	require.NoError(t, err)
	require.True(t, bytes.HasSuffix(out, []byte("|\n")))
	return string(out)
}

// TestTracesTable holds the table of docs/traces.md to metadata.yaml.
func TestTracesTable(t *testing.T) {
	const path, begin, end = "../../docs/traces.md", "<!-- begin span attributes -->\n", "<!-- end span attributes -->"
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	require.True(t, ok)
	_, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	var b strings.Builder
	fmt.Fprint(&b, "| attribute | type | meaning |\n| --- | --- | --- |\n")
	d := metadatatest.Read(t, "metadata.yaml")
	for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
		if a := d.Attributes[name]; strings.HasPrefix(name, "kern.") {
			meaning := a.Description
			if a.Enum != nil {
				meaning += " One of " + strings.Join(a.Enum, ", ") + "."
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, a.Type, meaning)
		}
	}
	want := before + begin + b.String() + end + after
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	assert.Equal(t, want, string(text), "docs/traces.md is not what it is generated from: run make golden")
}
