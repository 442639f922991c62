package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestValidate(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
		return path
	}
	accepts := write("accepts", "#!/bin/sh\ntest \"$1 $2\" = 'validate --config' && test -r \"$3\"\n")
	refuses := write("refuses", "#!/bin/sh\necho 'Error: no such thing' >&2\nexit 1\n")
	const pipelines = "processors: {memory_limiter: {}}\nservice: {pipelines: {metrics: {receivers: [kernhes], processors: [memory_limiter], exporters: [debug]}}}\n"
	fine := write("fine.yaml", "receivers: {kernhes: {}}\nexporters: {debug: {}}\n"+pipelines)
	warned := write("warned.yaml", "receivers: {kernhes: {dump: /tmp/x}}\nexporters: {debug: {}}\n"+pipelines)
	faulty := write("faulty.yaml", "receivers: {kernhes: {}, kernhes/b: {endpoint: unix:///b/s, control_endpoint: \"\"}}\nexporters: {debug: {}}\n"+pipelines)

	check := func(want string, fails bool, args ...string) {
		t.Helper()
		var out strings.Builder
		err := run(append([]string{"validate"}, args...), &out)
		if fails {
			assert.ErrorIs(t, err, errFaults)
		} else {
			assert.NoError(t, err)
		}
		assert.Equal(t, want, out.String())
	}
	check(fine+" is fine\n", false, "--collector", accepts, fine)
	check("warning: receivers::kernhes::dump: the file grows without bound; it is for tests\n", false, "--collector", accepts, warned)
	check("fault: receivers::kernhes/b: is in no pipeline, so it does nothing; add it to one in service::pipelines\n", true, "--collector", accepts, faulty)
	check("fault: the collector refuses it: no such thing\n", true, "--collector", refuses, fine)

	t.Setenv("PATH", dir) // the collector is not beside the test either
	check("warning: no otelcol-kernhes: the collector's own check was left out\n", false, fine)
	assert.ErrorIs(t, run([]string{"validate"}, os.Stdout), errUsage)
	assert.ErrorContains(t, run([]string{"validate", dir + "/none"}, os.Stdout), "no such file")
}
