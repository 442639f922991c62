package kernhesreceiver

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// layers says which rooms a room may import: the ones that a record has passed before. Only this package knows the Collector.
var layers = map[string][]string{
	"books":    {},
	"faults":   {},
	"runname":  {},
	"wire":     {},
	"span":     {},
	"metadata": {},
	"classify": {"span"},
	"manifest": {"span", "classify"},
	"reload":   {},
	"rules":    {"classify", "manifest", "reload"},
	"coverage": {"span"},
	"cupti":    {"wire", "span"},
	"ranges":   {},
	"groups":   {},
	"nccl":     {"wire"},
	"seq":      {},
	"identity": {"runname"},
	"step":     {"wire", "span", "coverage", "cupti", "ranges"},
	"device":   {"span", "cupti"},
	"sample":   {},
	"trace":    {"wire", "span", "classify", "step", "metadata", "sample"},
}

const module = "github.com/kernhes/kernhes/"

// pdata is what spans are written in.
const pdata = "go.opentelemetry.io/collector/pdata/"

// folder is where a room lies in the module.
func folder(room string) string {
	if room == "wire" || room == "books" || room == "faults" || room == "runname" {
		return "internal/" + room
	}
	return "receiver/kernhesreceiver/internal/" + room
}

// imports is what the Go files of a folder import, tests aside.
func imports(t *testing.T, dir string) (paths []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, i := range f.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			require.NoError(t, err)
			paths = append(paths, path)
		}
	}
	return paths
}

func TestImportsGoDownTheStairs(t *testing.T) {
	for room, rooms := range layers {
		var allowed []string
		for _, r := range rooms {
			allowed = append(allowed, module+folder(r))
		}
		for _, path := range imports(t, filepath.Join("..", "..", folder(room))) {
			if strings.HasPrefix(path, module) {
				assert.True(t, slices.Contains(allowed, path), "%s may not import %s", room, path)
			}
			if strings.HasPrefix(path, "go.opentelemetry.io/") {
				assert.True(t, room == "metadata" || room == "trace" && strings.HasPrefix(path, pdata), "%s may not know the Collector (%s)", room, path)
			}
		}
	}
	// A room that is not in the table has no rules.
	entries, err := os.ReadDir("internal")
	require.NoError(t, err)
	for _, entry := range entries {
		assert.Contains(t, layers, entry.Name())
	}
}
