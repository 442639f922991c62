package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An engine chooses the name of its run, and people paste that name into `make sql RUN=…`.
func TestMakeRunsNoPartOfARunsName(t *testing.T) {
	makefile, err := filepath.Abs("../Makefile")
	require.NoError(t, err)
	for _, name := range []string{
		"$(shell touch marker)", "`touch marker`", "'; touch marker; '", `"; touch marker; "`, "$$(touch marker)", "${HOME}", "a b",
	} {
		dir := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
		program := "#!/bin/sh\nfor a in \"$@\"; do printf '%s\\n' \"$a\"; done\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, "bin", "duckdb-run"), []byte(program), 0o755))

		for _, variable := range []string{"RUN", "ARCHIVE", "A"} {
			cmd := exec.CommandContext(t.Context(), "make", "-s", "-f", makefile, "-o", "bin/duckdb-run", "-o", "setup", "sql", variable+"="+name)
			cmd.Dir = dir
			out, err := cmd.Output()
			require.NoError(t, err, name)
			assert.Contains(t, strings.Split(string(out), "\n"), name, "%s=%s", variable, name)
			assert.NoFileExists(t, filepath.Join(dir, "marker"), "%s=%s", variable, name)
		}
	}
}
