package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReportRunsTheProgramWithDuckDB(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	script := "#!/bin/sh\necho \"$@\"\n[ \"$3\" = good ] && exit 0\nexit 1\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, analysisName), []byte(script), 0o755))
	var out bytes.Buffer
	require.NoError(t, run([]string{"report", "--quiet", "good"}, &out))
	assert.Equal(t, "report --quiet good\n", out.String())
	err := run([]string{"report", "--quiet", "bad"}, &out)
	assert.Equal(t, exitStatus(1), err, "findings are the exit status, and no error of this program")
	out.Reset()
	require.NoError(t, run([]string{"mcp", "x", "good"}, &out))
	assert.Equal(t, "mcp x good\n", out.String())

	t.Setenv("PATH", t.TempDir())
	require.ErrorContains(t, run([]string{"report", "x"}, &out), "make analysis")
}
