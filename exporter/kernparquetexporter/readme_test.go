package kernparquetexporter

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the README's table anew")

// TestReadmeSettings holds the table of settings to the comments of Config.
func TestReadmeSettings(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	const begin, end = "<!-- begin settings -->\n", "<!-- end settings -->"
	before, rest, ok := strings.Cut(string(text), begin)
	require.True(t, ok)
	_, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	want := before + begin + settingsTable(t) + end + after
	if *update {
		require.NoError(t, os.WriteFile("README.md", []byte(want), 0o644))
		return
	}
	assert.Equal(t, want, string(text), "README.md is not what it is generated from: run make golden")
}

func settingsTable(t *testing.T) string {
	f, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	require.NoError(t, err)
	types := map[string]*ast.StructType{}
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok {
			for _, s := range g.Specs {
				s, ok := s.(*ast.TypeSpec)
				if !ok {
					continue
				}
				if of, ok := s.Type.(*ast.StructType); ok {
					types[s.Name.Name] = of
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
			meaning = strings.TrimPrefix(meaning, "is ")
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", key, strings.TrimSuffix(meaning, "."), strings.TrimSuffix(standard, "."))
		}
	}
	write("Config", "")
	return b.String()
}
