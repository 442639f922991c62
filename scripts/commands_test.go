package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	shellBlock = regexp.MustCompile("(?ms)^ *```sh$(.*?)^ *```$")
	codeSpan   = regexp.MustCompile("`([^`\n]+)`")
	makeCall   = regexp.MustCompile(`(?:^|[\s(])make ([^|;&#)]+)`)
	makeRule   = regexp.MustCompile(`(?m)^([a-zA-Z0-9_./ %,-]+):(?:[^=]|$)`)
	pathWord   = regexp.MustCompile(`^[A-Za-z0-9_.*/{},-]+$`)
	variable   = regexp.MustCompile(`\bKERNHES_[A-Z0-9_]*[A-Z0-9]\b`)
)

// commandTexts are the shell blocks and the code spans of a page, a line each.
func commandTexts(page string) []string {
	var all []string
	for _, m := range shellBlock.FindAllStringSubmatch(page, -1) {
		text := strings.ReplaceAll(m[1], "\\\n", " ")
		for line := range strings.Lines(text) {
			line, _, _ = strings.Cut(line, " #")
			all = append(all, strings.TrimSpace(line))
		}
	}
	for _, m := range codeSpan.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
		all = append(all, m[1])
	}
	return all
}

// targets are the targets of a Makefile.
func targets(t *testing.T, path string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	all := map[string]bool{}
	for _, m := range makeRule.FindAllStringSubmatch(string(text), -1) {
		for name := range strings.FieldsSeq(m[1]) {
			all[name] = true
		}
	}
	return all
}

// TestMakeTargetsExist checks each target of make that the documentation names.
func TestMakeTargetsExist(t *testing.T) {
	known := map[string]map[string]bool{}
	checked := 0
	for page, text := range pages(t) {
		for _, command := range commandTexts(text) {
			for _, m := range makeCall.FindAllStringSubmatch(command, -1) {
				folder := ".."
				words := strings.Fields(m[1])
				if len(words) > 1 && words[0] == "-C" {
					folder, words = filepath.Join("..", words[1]), words[2:]
				}
				if known[folder] == nil {
					known[folder] = targets(t, filepath.Join(folder, "Makefile"))
				}
				for _, word := range words {
					if !regexp.MustCompile(`^[a-z][a-z0-9-]*$`).MatchString(word) {
						break // a variable, or an example's placeholder
					}
					checked++
					assert.True(t, known[folder][word], "%s: %q: %s/Makefile has no target %s", page, command, folder, word)
				}
			}
		}
	}
	assert.Greater(t, checked, 20)
}

// TestPathsExist checks each path in shell blocks and code spans of the documentation that begins with a folder of the tree.
func TestPathsExist(t *testing.T) {
	entries, err := os.ReadDir("..")
	require.NoError(t, err)
	folders := map[string]bool{}
	for _, entry := range entries {
		// A collector writes bin and out.
		folders[entry.Name()] = entry.IsDir() && entry.Name() != "bin" && entry.Name() != "out"
	}
	checked := 0
	for page, text := range pages(t) {
		for _, command := range commandTexts(text) {
			for word := range strings.FieldsSeq(command) {
				if _, value, ok := strings.Cut(word, "="); ok {
					word = value
				}
				word = strings.TrimPrefix(strings.Trim(word, `'",:`), "./")
				top, rest, ok := strings.Cut(word, "/")
				if !ok || word == "testdata/fuzz" || // beside each fuzz target
					!folders[top] || strings.Contains(rest, "...") || !pathWord.MatchString(word) {
					continue
				}
				if regexp.MustCompile(`[A-Z]{4,}`).MatchString(strings.TrimSuffix(rest, ".md")) && !strings.HasSuffix(rest, ".md") {
					continue // a placeholder such as otelcol-dist/NAME.yaml
				}
				checked++
				there := false
				for _, path := range braces(word) {
					// From the top of the tree, or from the folder of the page.
					for _, base := range []string{"..", filepath.Join("..", filepath.Dir(page))} {
						found, err := filepath.Glob(filepath.Join(base, path))
						there = there || (err == nil && len(found) > 0)
					}
				}
				assert.True(t, there, "%s: %q: no such file: %s", page, command, word)
			}
		}
	}
	assert.Greater(t, checked, 50)
}

// braces expands one {a,b} of a path.
func braces(path string) []string {
	before, rest, ok := strings.Cut(path, "{")
	if !ok {
		return []string{path}
	}
	choices, after, _ := strings.Cut(rest, "}")
	var all []string
	for choice := range strings.SplitSeq(choices, ",") {
		all = append(all, before+choice+after)
	}
	return all
}

// TestVariablesExist checks that code reads each variable KERNHES_… that the documentation names.
func TestVariablesExist(t *testing.T) {
	command := exec.CommandContext(t.Context(), "git", "grep", "--untracked", "-h", "-o", "-w", "-E", `KERNHES_[A-Z0-9_]+`, "--", ":!*.md", ":!testdata")
	command.Dir = ".."
	out, err := command.Output()
	require.NoError(t, err)
	known := map[string]bool{}
	for name := range strings.FieldsSeq(string(out)) {
		known[name] = true
	}
	for page, text := range pages(t) {
		for _, name := range variable.FindAllString(text, -1) {
			assert.True(t, known[name], "%s: nothing reads %s", page, name)
		}
	}
}
