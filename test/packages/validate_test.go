//go:build packages

package packages_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// validated makes mistakes in the configuration of the package, one at a time, that kernhes validate has to find. These are
// those that the collector refuses; internal/lint has the list of the others.
func validated(t *testing.T, m *machine) {
	t.Helper()
	text, err := os.ReadFile("../../packaging/config.yaml")
	require.NoError(t, err)
	check := func(what, from, to, want string) {
		t.Helper()
		require.Contains(t, string(text), from, what)
		require.NoError(t, os.WriteFile(m.path("/tmp/config.yaml"), []byte(strings.Replace(string(text), from, to, 1)), 0o644))
		out, err := m.as("root", "kernhes", "validate", "/tmp/config.yaml")
		if want == "" {
			assert.NoError(t, err, out)
			assert.Equal(t, "/tmp/config.yaml is fine", out)
			return
		}
		assert.Error(t, err, what)
		assert.Contains(t, out, want, what)
	}
	const endpoint = "endpoint: unix:///run/kernhes/kernhes.sock"
	check("nothing", endpoint, endpoint, "")
	check("a key is misspelt", "runs_file:", "run_file:", "run_file")
	check("a component is misspelt", "kernparquet:", "kernparket:", "kernparket")
	check("a pipeline has what is not configured", "exporters: [kernparquet]", "exporters: [kernparquet, otlp]", `"otlp"`)
	check("a time has no unit", "runs_file:", "step_timeout: 10\n    runs_file:", "step_timeout")
	check("an endpoint has no scheme", "unix:///run/kernhes/kernhes.sock", "127.0.0.1:7777", "endpoint")
	check("other hosts may send in plain text", "unix:///run/kernhes/kernhes.sock", "tcp://0.0.0.0:7777", "tls: missing")
	check("a path is too long", "unix:///run/kernhes/kernhes.sock", "unix:///run/"+strings.Repeat("k", 110)+"/s", "at most 107")
	check("a pattern is no regular expression", "runs_file:", "patterns: [{match: '(?P<program'}]\n    runs_file:", "patterns[0]")
	check("a mode is no octal number", "runs_file:", "socket_mode: rw-rw----\n    runs_file:", "is not octal")
	check("the archive has no folder", "    directory: /var/lib/kernhes/archive\n", "", "directory: is required")
	check("tabs", "  kernhes:\n", "\tkernhes:\n", "yaml")
	check("the archive is in a pipeline of metrics", "exporters: [prometheus]", "exporters: [prometheus, kernparquet]", "kernparquet takes logs only")
	check("the receiver is in no pipeline", "receivers: [kernhes]\n      processors: [memory_limiter]\n      exporters: [kernparquet]",
		"receivers: []\n      processors: [memory_limiter]\n      exporters: [kernparquet]", "receiver")
}
