package kernhesreceiver

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// layers is the map of the module: which packages of it a package may import, tests aside. A package stands below those that
// import it. Names are paths in the module; those of the receiver's rooms are short.
var layers = map[string][]string{
	// What all share.
	"internal/wire":      {},
	"internal/books":     {},
	"internal/faults":    {},
	"internal/model":     {},
	"internal/durations": {},
	"internal/waitsums":  {},
	"internal/lint":      {},
	"internal/runname":   {},
	"internal/webguard":  {},

	// The archive.
	"internal/chunk":                                           {"internal/model"},
	"internal/parquet/pages":                                   {},
	"internal/chunklog":                                        {"internal/chunk", "internal/digest"},
	"internal/parquet":                                         {"internal/books", "internal/chunk", "internal/parquet/pages"},
	"internal/perfetto":                                        {},
	"exporter/kernparquetexporter/internal/archive":            {"internal/chunk", "internal/parquet"},
	"exporter/kernparquetexporter/internal/metadata":           {"internal/books"},
	"exporter/kernparquetexporter":                             {"exporter/kernparquetexporter/internal/archive", "exporter/kernparquetexporter/internal/metadata", "internal/chunk", "internal/chunklog", "internal/durations", "internal/parquet", "internal/webguard"},
	"extension/kernparquetencodingextension/internal/metadata": {},
	"extension/kernparquetencodingextension":                   {"extension/kernparquetencodingextension/internal/metadata", "internal/chunk", "internal/chunklog", "internal/parquet"},

	// The comparison of ranks.
	"internal/digest": {"internal/chunk"},
	"connector/kernwaitsconnector/internal/behaviour": {"internal/chunk", "internal/digest"},
	"connector/kernwaitsconnector/internal/pairing":   {"internal/digest"},
	"connector/kernwaitsconnector/internal/cause":     {"connector/kernwaitsconnector/internal/pairing", "internal/digest"},
	"connector/kernwaitsconnector/internal/diverge":   {"connector/kernwaitsconnector/internal/pairing", "internal/digest"},
	"connector/kernwaitsconnector/internal/ledger":    {"connector/kernwaitsconnector/internal/cause", "connector/kernwaitsconnector/internal/pairing", "internal/digest"},
	"connector/kernwaitsconnector/internal/metadata":  {},
	"connector/kernwaitsconnector": {"connector/kernwaitsconnector/internal/behaviour", "connector/kernwaitsconnector/internal/cause", "connector/kernwaitsconnector/internal/diverge",
		"connector/kernwaitsconnector/internal/ledger", "connector/kernwaitsconnector/internal/metadata", "connector/kernwaitsconnector/internal/pairing",
		"internal/chunk", "internal/chunklog", "internal/digest", "internal/durations", "internal/waitsums", "internal/webguard"},

	// The receiver's rooms, in the order in which a record passes them.
	"span":     {"internal/model"},
	"classify": {"span"},
	"manifest": {"internal/wire", "span", "classify"},
	"reload":   {},
	"rules":    {"classify", "manifest", "reload"},
	"coverage": {"span"},
	"cupti":    {"internal/wire", "span"},
	"ranges":   {},
	"median":   {},
	"pace":     {"median", "wall"},
	"hooks":    {"internal/model", "internal/wire"},
	"groups":   {},
	"nccl":     {"internal/wire"},
	"seq":      {},
	"identity": {"internal/runname"},
	"step":     {"internal/model", "internal/wire", "span", "coverage", "cupti", "ranges"},
	"device":   {"span", "cupti"},
	"engine": {"internal/model", "internal/books", "internal/chunk", "internal/wire", "coverage", "cupti", "device", "groups", "identity", "manifest", "nccl", "ranges",
		"hooks", "pace", "rules", "seq", "span", "step", "wall"},
	"metadata":     {},
	"metadata/gen": {},
	"sample":       {"median"},
	"trace":        {"internal/wire", "span", "classify", "step", "metadata", "sample"},
	"resource":     {"internal/faults", "engine", "metadata"},
	"fleet":        {"internal/chunk", "internal/runname", "engine"},
	"jsonl":        {"internal/model", "engine"},
	"traces":       {"engine", "metadata", "resource", "sample", "trace"},
	"logs":         {"internal/chunklog", "engine", "flood", "metadata", "resource"},
	"metrics":      {"internal/books", "internal/wire", "device", "engine", "fleet", "metadata", "pace", "resource", "span", "step", "wall"},
	"windows":      {},
	"orders":       {"internal/runname", "internal/wire", "engine", "fleet", "windows"},
	"share":        {},
	"flood":        {},
	"machine":      {},
	"session":      {"internal/wire", "engine", "fleet", "flood", "identity", "jsonl", "logs", "metadata", "share"},
	"server":       {"internal/wire", "engine", "flood", "identity", "metadata", "resource", "session", "share"},
	"control":      {"internal/model", "internal/books", "internal/webguard", "internal/wire", "coverage", "device", "engine", "fleet", "orders", "ranges", "resource", "sample", "span"},
	"handover":     {},
	"history":      {},
	"wall":         {},
	"page":         {"internal/perfetto", "internal/wire", "history"},
	"watch":        {"internal/waitsums", "engine", "fleet", "history", "span"},
	"receiver/kernhesreceiver": {"internal/durations", "internal/wire", "control", "engine", "fleet", "flood", "groups", "handover", "identity", "logs", "machine", "metadata", "metrics", "orders",
		"page", "ranges", "rules", "sample", "server", "session", "trace", "traces", "wall", "watch", "windows"},
	"receiver/kernhesreceiver/classes": {"classify"},

	// What only tests, and the simulator, use.
	"metrics/metricstest":          {},
	"metadata/metadatatest":        {},
	"jsonl/jsonltest":              {},
	"enginetest":                   {"internal/model", "internal/chunk", "internal/wire", "engine", "identity", "ranges", "rules"},
	"internal/krec":                {},
	"internal/oracle":              {"internal/krec"},
	"internal/sender":              {},
	"internal/fakeshim":            {"internal/krec", "internal/sender"},
	"internal/chunk/chunktest":     {"internal/chunk", "internal/krec", "internal/oracle"},
	"internal/parquet/parquettest": {"internal/chunk"},
	"shimscript":                   {"internal/fakeshim", "internal/krec", "internal/wire"},
	"internal/sim/program":         {},
	"internal/sim/clock":           {"internal/sim/program"},
	"internal/sim/fault":           {},
	"internal/sim/fleet":           {"internal/sim/fault", "internal/sim/program"},
	"internal/sim/link":            {"internal/sender"},
	"internal/sim/load":            {"internal/sim/fault", "internal/sim/program"},
	"internal/sim/shim":            {"internal/sender", "internal/sim/fleet", "internal/sim/program"},
	"internal/sim/truth":           {"internal/sim/fleet", "internal/sim/program"},
	"internal/sim": {"internal/sim/clock", "internal/sim/fault", "internal/sim/fleet", "internal/sim/link", "internal/sim/load", "internal/sim/program",
		"internal/sim/shim", "internal/sim/truth"},

	"queries":        {},
	"docs":           {},
	"scripts":        {},
	"scripts/mutate": {},
	"test/compat":    {},
	"cmd/kernhes": {"internal/faults", "internal/lint", "internal/perfetto", "internal/runname", "internal/sim", "internal/sim/fault", "internal/sim/program", "internal/wire",
		"receiver/kernhesreceiver/classes"},
}

// plain are the packages that know nothing of OpenTelemetry and of the Collector's log, nor does what they import.
var plain = []string{"engine", "internal/chunk", "internal/digest", "internal/parquet", "connector/kernwaitsconnector/internal/ledger"}

// ofTests are the packages that no other than those here, and the simulator, may import.
var ofTests = []string{"internal/krec", "internal/oracle", "internal/fakeshim", "internal/chunk/chunktest", "internal/parquet/parquettest", "shimscript", "enginetest", "metrics/metricstest",
	"metadata/metadatatest", "jsonl/jsonltest"}

const module = "github.com/kernhes/kernhes/"

// folder is where a package lies in the module.
func folder(name string) string {
	for _, top := range []string{"internal/", "receiver/", "connector/", "exporter/", "extension/", "cmd/", "queries", "scripts", "docs", "test/"} {
		if strings.HasPrefix(name, top) {
			return name
		}
	}
	return "receiver/kernhesreceiver/internal/" + name
}

// A listed package is one as the go command lists it.
type listed struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

// list is the packages of the module.
func list(t *testing.T) map[string]listed {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Imports,Deps", module+"...").Output()
	require.NoError(t, err)
	packages := map[string]listed{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		require.NoError(t, err)
		if name, ours := strings.CutPrefix(p.ImportPath, module); ours {
			packages[name] = p
		}
	}
}

func TestImportsGoDownTheStairs(t *testing.T) {
	packages := list(t)
	known := map[string]bool{}
	for name, may := range layers {
		known[folder(name)] = true
		p, ok := packages[folder(name)]
		if !assert.True(t, ok, "there is no package %s", name) {
			continue
		}
		var allowed []string
		for _, one := range may {
			allowed = append(allowed, folder(one))
			assert.Contains(t, layers, one, "%s may import what is not in the map", name)
		}
		for _, path := range p.Imports {
			if path, ours := strings.CutPrefix(path, module); ours {
				assert.Contains(t, allowed, path, "%s may not import %s", name, path)
			}
		}
	}
	for name := range packages {
		assert.True(t, known[name], "%s is not in the map", name)
	}
	for _, name := range plain {
		for _, path := range packages[folder(name)].Deps {
			assert.False(t, strings.HasPrefix(path, "go.opentelemetry.io/") || strings.HasPrefix(path, "go.uber.org/zap"), "%s knows %s", name, path)
		}
	}
	for name, may := range layers {
		for _, one := range may {
			if slices.Contains(ofTests, one) {
				assert.Contains(t, ofTests, name, "%s imports what only tests may", name)
			}
		}
	}
}
