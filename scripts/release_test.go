package scripts_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// versions are the places that name the version, each as a pattern with one group; a file may have several.
var versions = map[string]string{
	"builder-config.yaml":            `(?m)^  version: (\S+)$`,
	"python/pyproject.toml":          `(?m)^version = "(.+)"$`,
	"python/kernhes/__init__.py":     `(?m)^__version__ = "(.+)"$`,
	"shim/capture/identity.h":        `IDENTITY_SHIM_VERSION "(.+)"`,
	"analysis/mcp/mcp.go":            `Name: "kernhes", Version: "(.+?)"`,
	"Makefile":                       `kernhes-(\d[^-]*)-py3-none-any\.whl`,
	"docs/install.md":                `kernhes-(\d[^-]*)-py3-none-any\.whl`,
	"docs/engines.md":                `kernhes-(\d[^-]*)-py3-none-any\.whl`,
	"docs/kubernetes.md":             `/kernhes:(\S+)`,
	"deploy/container/Containerfile": `/kernhes:(\S+)`,
	"deploy/kubernetes/overlays/node/kustomization.yaml":    `newTag: ([^ }]+)`,
	"deploy/kubernetes/overlays/cluster/kustomization.yaml": `newTag: ([^ }]+)`,
	"deploy/kubernetes/examples/vllm/kustomization.yaml":    `newTag: ([^ }]+)`,
}

// version is that of the distribution's manifest.
func version(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../builder-config.yaml")
	require.NoError(t, err)
	found := regexp.MustCompile(versions["builder-config.yaml"]).FindSubmatch(text)
	require.NotNil(t, found)
	return string(found[1])
}

func TestVersionsAgree(t *testing.T) {
	want := version(t)
	assert.Regexp(t, `^\d+\.\d+\.\d+$`, want)
	for file, pattern := range versions {
		text, err := os.ReadFile("../" + file)
		if !assert.NoError(t, err) {
			continue
		}
		found := regexp.MustCompile(pattern).FindAllSubmatch(text, -1)
		assert.NotEmpty(t, found, "%s names no version", file)
		for _, f := range found {
			assert.Equal(t, want, string(f[1]), file)
		}
	}
}

// TestChangelog holds CHANGELOG.md to the form of Keep a Changelog. With KERNHES_RELEASE=VERSION, which scripts/release sets, that
// version has to be its newest, with a date and entries, and nothing may be unreleased.
func TestChangelog(t *testing.T) {
	text, err := os.ReadFile("../CHANGELOG.md")
	require.NoError(t, err)
	parts := strings.Split("\n"+string(text), "\n## ")
	require.Greater(t, len(parts), 1)
	var released []string
	for i, part := range parts[1:] {
		title, body, _ := strings.Cut(part, "\n")
		for _, kind := range regexp.MustCompile(`(?m)^### (.+)$`).FindAllStringSubmatch(body, -1) {
			assert.Contains(t, []string{"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}, kind[1], title)
		}
		if title == "[Unreleased]" {
			assert.Zero(t, i, "what is unreleased comes first")
			if os.Getenv("KERNHES_RELEASE") != "" {
				assert.NotContains(t, body, "\n- ", "entries that are not in the release")
			}
			continue
		}
		found := regexp.MustCompile(`^\[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)$`).FindStringSubmatch(title)
		if !assert.NotNil(t, found, "%q: want [VERSION] - YYYY-MM-DD", title) {
			continue
		}
		_, err := time.Parse(time.DateOnly, found[2])
		assert.NoError(t, err)
		assert.Contains(t, body, "\n- ", title)
		released = append(released, found[1])
		// What later versions are held to is there from the release on.
		assert.DirExists(t, filepath.Join("../testdata/compat", found[1]))
	}
	if want := os.Getenv("KERNHES_RELEASE"); want != "" {
		require.NotEmpty(t, released, "no version is in CHANGELOG.md")
		assert.Equal(t, want, released[0])
		assert.Equal(t, want, version(t))
	}
}
