package kernwaitsconnector

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/metadata"
)

var update = flag.Bool("update", false, "write the generated tables anew")

// declared is what of metadata.yaml the code and the documentation follow.
type declared struct {
	Type       string `yaml:"type"`
	Attributes map[string]struct {
		Description string   `yaml:"description"`
		Enum        []string `yaml:"enum"`
	} `yaml:"attributes"`
	Metrics map[string]struct {
		Description string   `yaml:"description"`
		Attributes  []string `yaml:"attributes"`
	} `yaml:"metrics"`
}

func readDeclared(t *testing.T) (d declared) {
	text, err := os.ReadFile("metadata.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &d))
	require.Equal(t, d.Type, metadata.Type.String())
	require.Len(t, metadata.Metrics, len(d.Metrics), "run go generate ./connector/...")
	return d
}

// TestGeneratedTables holds the tables of docs/waits.md to what they are generated from.
func TestGeneratedTables(t *testing.T) {
	for name, table := range map[string]string{"waits settings": settingsTable(t), "waits metrics": metricsTable(t), "waits labels": labelsTable(t)} {
		const path = "../../docs/waits.md"
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		begin, end := "<!-- begin "+name+" -->\n", "<!-- end "+name+" -->"
		before, rest, ok := strings.Cut(string(text), begin)
		require.True(t, ok, "%s has no %q", path, begin)
		_, after, ok := strings.Cut(rest, end)
		require.True(t, ok, "%s has no %q", path, end)
		want := before + begin + table + end + after
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
			continue
		}
		assert.True(t, want == string(text), "%s is not what it is generated from: run make golden", path)
	}
}

func metricsTable(t *testing.T) string {
	d := readDeclared(t)
	var b strings.Builder
	fmt.Fprint(&b, "| metric | labels | meaning |\n| --- | --- | --- |\n")
	for _, name := range slices.Sorted(maps.Keys(d.Metrics)) {
		m := d.Metrics[name]
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, strings.Join(m.Attributes, ", "), m.Description)
	}
	return b.String()
}

func labelsTable(t *testing.T) string {
	d := readDeclared(t)
	var b strings.Builder
	fmt.Fprint(&b, "| label | values | meaning |\n| --- | --- | --- |\n")
	for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
		a := d.Attributes[name]
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, strings.Join(a.Enum, ", "), a.Description)
	}
	return b.String()
}

// settingsTable is the comments of Config's fields.
func settingsTable(t *testing.T) string {
	f, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	require.NoError(t, err)
	types := map[string]*ast.StructType{}
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok {
			for _, s := range g.Specs {
				if s, ok := s.(*ast.TypeSpec); ok {
					types[s.Name.Name] = s.Type.(*ast.StructType)
				}
			}
		}
	}
	var b strings.Builder
	fmt.Fprint(&b, "| key | meaning | default |\n| --- | --- | --- |\n")
	var write func(name, prefix string)
	write = func(name, prefix string) {
		for _, field := range types[name].Fields.List {
			if field.Doc == nil {
				continue
			}
			key := prefix + reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("mapstructure")
			if of, ok := field.Type.(*ast.Ident); ok && types[of.Name] != nil {
				write(of.Name, key+"::")
				continue
			}
			meaning, standard, ok := strings.Cut(strings.Join(strings.Fields(field.Doc.Text()), " "), " Default: ")
			require.True(t, ok, "%s: its comment gives no default", key)
			_, meaning, _ = strings.Cut(meaning, " ") // the field's name
			meaning = strings.TrimPrefix(strings.TrimPrefix(meaning, "is "), "are ")
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", key, strings.TrimSuffix(meaning, "."), strings.TrimSuffix(standard, "."))
		}
	}
	write("Config", "")
	return b.String()
}
