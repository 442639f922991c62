package sim

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers says which rooms a room may import. Only this package joins them.
var layers = map[string][]string{
	"program": {},
	"fault":   {},
	"clock":   {"program"},
	"load":    {"program", "fault"},
	"fleet":   {"program", "fault"},
	"truth":   {"program", "fleet"},
	"shim":    {"program", "fleet", "sender"},
	"link":    {"sender"},
}

const module = "github.com/kernhes/kernhes/internal/"

func TestImportsGoDown(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !entry.IsDir() || entry.Name() == "testdata" {
			continue
		}
		rooms, ok := layers[entry.Name()]
		if !ok {
			t.Errorf("room %s is not in the table", entry.Name())
		}
		files, _ := filepath.Glob(filepath.Join(entry.Name(), "*.go"))
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range f.Imports {
				path, _ := strconv.Unquote(i.Path.Value)
				room, ours := strings.CutPrefix(path, module)
				if ours && !strings.HasSuffix(file, "_test.go") && !slices.Contains(rooms, strings.TrimPrefix(room, "sim/")) {
					t.Errorf("%s may not import %s", file, room)
				}
			}
		}
	}
}
