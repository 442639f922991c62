package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/chunk"
)

// TestEachCommandRefusesAnUnknownFlag and does nothing.
func TestEachCommandRefusesAnUnknownFlag(t *testing.T) {
	for _, c := range commands {
		if c.name == "report" || c.name == "mcp" {
			continue // kernhes-analysis takes their flags
		}
		var out bytes.Buffer
		assert.ErrorContains(t, run([]string{c.name, "--no-such-flag"}, &out), "no-such-flag", c.name)
		assert.Empty(t, out.String(), c.name)
	}
}

// full is a writer that takes nothing.
type full struct{}

var errFull = errors.New("no space left on device")

func (full) Write([]byte) (int, error) { return 0, errFull }

// TestAnswersThatAreNone: what cannot be reached, read or printed is an error of the command.
func TestAnswersThatAreNone(t *testing.T) {
	answer := "no JSON, and no metrics {"
	short := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if short {
			w.Header().Set("Content-Length", "1000")
		}
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	check := func(want string, args ...string) {
		t.Helper()
		assert.ErrorContains(t, run(args, io.Discard), want)
	}
	check(server.URL+"/flush: invalid character", "flush", "--endpoint", server.URL)
	check("invalid character", "yield", "--endpoint", server.URL)
	check(server.URL+"/metrics: ", "table", "--url", server.URL+"/metrics")
	short, answer = true, "# a comment\n"
	for _, args := range [][]string{{"flush", "--endpoint", server.URL}, {"yield", "--endpoint", server.URL}, {"table", "--url", server.URL}} {
		assert.ErrorIs(t, run(args, io.Discard), io.ErrUnexpectedEOF, args[0])
	}
	const nowhere = "http://[::1"
	check("missing ']'", "flush", "--endpoint", nowhere)
	check("missing ']'", "yield", "--endpoint", nowhere)
	check("missing ']'", "table", "--url", nowhere)

	short, answer = false, `{"files":[{"name":"k-1.parquet","rows":7}], "engines": [{"run": "r", "rank": 3, "pid": "7", "mode": "hes"}]}`
	for _, command := range []string{"flush", "yield"} {
		assert.ErrorIs(t, run([]string{command, "--endpoint", server.URL}, full{}), errFull, command)
	}
	answer = "kern_steps_total{kern_run=\"r\",rank=\"0\",instance=\"i\"} 3\n"
	assert.ErrorIs(t, run([]string{"table", "--url", server.URL}, full{}), errFull)
}

// TestDamagedArchivesAreNamed: each file of an archive in which a byte of the pages or of the footer is another is an error with
// the file's name, or gives what was written; it never ends the program.
func TestDamagedArchivesAreNamed(t *testing.T) {
	dir := t.TempDir()
	smallArchive(t, dir, map[chunk.Identity][]chunk.Step{{Run: "r", Session: 1}: {{Seq: 1, Start: 1000}, {Seq: 2, Start: 2000}}})
	path := filepath.Join(dir, "k.parquet")
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	refused := 0
	for at := 0; at < len(whole); at += 1 + at/40 {
		damaged := bytes.Clone(whole)
		damaged[at] ^= 0xff
		require.NoError(t, os.WriteFile(path, damaged, 0o600))
		a, err := openArchive([]string{dir})
		require.NoError(t, err)
		if _, err := readStep(a, wanted{"r", 2, -1}); err != nil {
			refused++
			require.ErrorContains(t, err, "k.parquet", "byte %d", at)
		}
	}
	require.Greater(t, refused, 10)
	require.NoError(t, os.WriteFile(path, whole[:len(whole)/2], 0o600))
	a, err := openArchive([]string{dir})
	require.NoError(t, err)
	_, err = readStep(a, wanted{"r", 2, -1})
	require.ErrorContains(t, err, "k.parquet")
	require.NoError(t, os.Remove(path))
	_, err = readStep(a, wanted{"r", 2, -1})
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestPodsErrors: what is not there, or is in the way, is said.
func TestPodsErrors(t *testing.T) {
	dir := t.TempDir()
	require.ErrorIs(t, run([]string{"copy", dir}, io.Discard), errNoLibrary)
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.ErrorContains(t, run([]string{"folder", filepath.Join(file, "folder")}, io.Discard), "folder: ")
	require.Error(t, replace(file, filepath.Join(dir, "none", "to")))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "to", "in it"), 0o700))
	require.Error(t, replace(file, filepath.Join(dir, "to")), "a folder that is not empty is in the way")
}
