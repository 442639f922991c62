//go:build packages

package packages_test

import (
	"os"
	"regexp"
	"slices"
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
	check("a pipeline has what is not configured", "exporters: [kernparquet, kernwaits]", "exporters: [kernparquet, kernwaits, otlp]", `"otlp"`)
	check("a time has no unit", "runs_file:", "step_timeout: 10\n    runs_file:", "step_timeout")
	check("an endpoint has no scheme", "unix:///run/kernhes/kernhes.sock", "127.0.0.1:7777", "endpoint")
	check("other hosts may send in plain text", "unix:///run/kernhes/kernhes.sock", "tcp://0.0.0.0:7777", "tls: missing")
	check("a path is too long", "unix:///run/kernhes/kernhes.sock", "unix:///run/"+strings.Repeat("k", 110)+"/s", "at most 107")
	check("a pattern is no regular expression", "runs_file:", "patterns: [{match: '(?P<program'}]\n    runs_file:", "patterns[0]")
	check("a mode is no octal number", "runs_file:", "socket_mode: rw-rw----\n    runs_file:", "is not octal")
	check("the archive has no folder", "    directory: /var/lib/kernhes/archive\n", "", "directory: is required")
	check("tabs", "  kernhes:\n", "\tkernhes:\n", "yaml")
	check("the archive is in a pipeline of metrics", "exporters: [prometheus]", "exporters: [prometheus, kernparquet]", "kernparquet takes logs only")
	check("the receiver is in no pipeline", "receivers: [kernhes]\n      processors: [memory_limiter]\n      exporters: [kernparquet, kernwaits]",
		"receivers: []\n      processors: [memory_limiter]\n      exporters: [kernparquet, kernwaits]", "receiver")

	// What collectors in Kubernetes get.
	for _, config := range []string{"base/collector", "gateway/collector", "gateway/gateway"} {
		path := m.has("../../deploy/kubernetes/" + config + "-config.yaml")
		out, err := m.as("root", "env", "POD_IP=10.0.0.1", "kernhes", "validate", path)
		assert.NoError(t, err, out)
		assert.Equal(t, path+" is fine", out)
	}
}

// image runs what the Containerfile puts into an image without anything else, as its user: it must need no file of a system.
func image(t *testing.T, m *machine) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/container/Containerfile")
	require.NoError(t, err)
	for _, removed := range regexp.MustCompile(`/image(/usr/[^ \n]+)`).FindAllStringSubmatch(string(text), -1) {
		m.must("test", "-e", removed[1])
	}
	m.must("sh", "-c", "dpkg-deb --extract /tmp/kernhes_*_amd64.deb /tmp/image && mkdir -m 777 /tmp/image/out && mkdir /tmp/image/proc")
	m.must("mount", "--bind", "/proc", "/tmp/image/proc") // as each container has it
	in := []string{"chroot", "--userspec=10001:10001", "/tmp/image"}
	assert.Contains(t, m.must(append(in, "/usr/bin/otelcol-kernhes", "--version")...), "otelcol-kernhes")
	assert.Equal(t, []string{"/out/kernhes.whl", "/out/libkernhes.so"}, sorted(m.must(append(in, "/usr/bin/kernhes", "copy", "/out")...)))
	m.must("cmp", "/tmp/image/out/libkernhes.so", "/usr/lib/kernhes/libkernhes.so")
	m.must("chroot", "/tmp/image", "/usr/bin/kernhes", "folder", "--user=10001", "--group=10002", "--mode=2750", "/run/kernhes")
	assert.Equal(t, "2750 10001 10002", m.must("stat", "-c", "%a %u %g", "/tmp/image/run/kernhes"))
}

// sorted are the lines of a text, in order.
func sorted(text string) []string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return lines
}
