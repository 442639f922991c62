// Package compat_test holds the code of today to what earlier versions wrote: testdata/compat/VERSION has what a shim sent, what a
// collector answered, chunks, an archive, configurations and public names of each version.
//
// A version's folder never changes once it is released. Until then -update writes that of the version in builder-config.yaml anew;
// what a shim sends is written by the test with the tag chain (make build first).
package compat_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the folder of the version in builder-config.yaml anew")

const (
	root   = "../../"
	folder = root + "testdata/compat/"
)

// current is the version in builder-config.yaml.
func current(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(root + "builder-config.yaml")
	require.NoError(t, err)
	version := regexp.MustCompile(`(?m)^  version: (\S+)$`).FindSubmatch(text)
	require.NotNil(t, version)
	return string(version[1])
}

// each runs a test for each version.
func each(t *testing.T, test func(t *testing.T, dir string)) {
	t.Helper()
	versions, err := filepath.Glob(folder + "*")
	require.NoError(t, err)
	require.NotEmpty(t, versions)
	for _, dir := range versions {
		t.Run(filepath.Base(dir), func(t *testing.T) { test(t, dir) })
	}
}

// rewrites reports whether a test has to write dir anew: that of a version that the changelog does not have as released.
func rewrites(t testing.TB, dir string) bool {
	version := current(t)
	if !*update || filepath.Base(dir) != version {
		return false
	}
	changes, err := os.ReadFile(root + "CHANGELOG.md")
	require.NoError(t, err)
	return !strings.Contains(string(changes), "## ["+version+"]")
}

// expected is what a version's engine did: by hand, from how engine builds it.
type expected struct {
	Steps     int   `json:"steps"`
	Kernels   int   `json:"kernels"`
	Calls     int   `json:"calls"` // different labels
	ComputeNS int64 `json:"compute_ns"`
	CommNS    int64 `json:"comm_ns"`
}

func expectations(t testing.TB, dir string) (e expected) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "expect.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &e))
	require.Positive(t, e.Steps)
	return e
}
