package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pages are the Markdown files that git knows, by path from the top of the tree, with their texts.
func pages(t *testing.T) map[string]string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", "ls-files", "-co", "--exclude-standard", "*.md")
	command.Dir = ".."
	out, err := command.Output()
	require.NoError(t, err)
	all := map[string]string{}
	for path := range strings.FieldsSeq(string(out)) {
		text, err := os.ReadFile(filepath.Join("..", path))
		require.NoError(t, err)
		all[path] = string(text)
	}
	require.Contains(t, all, "README.md")
	return all
}

var (
	fence   = regexp.MustCompile("(?ms)^```.*?^```$")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
)

// anchors are the fragments that a page's headings have on GitHub.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		all[strings.Map(func(c rune) rune {
			switch {
			case unicode.IsLetter(c), unicode.IsDigit(c), c == '-', c == '_':
				return unicode.ToLower(c)
			case c == ' ':
				return '-'
			}
			return -1
		}, m[1])] = true
	}
	return all
}

// TestLinks checks that each relative link of the documentation leads to a file, and each fragment to a heading.
func TestLinks(t *testing.T) {
	all := pages(t)
	links := 0
	for path, text := range all {
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			target, fragment, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			links++
			to := path
			if target != "" {
				to = filepath.Join(filepath.Dir(path), target)
			}
			_, err := os.Stat(filepath.Join("..", to))
			assert.NoError(t, err, "%s: link %s", path, m[1])
			if page, ok := all[to]; ok && fragment != "" {
				assert.True(t, anchors(page)[fragment], "%s: link %s: %s has no such heading", path, m[1], to)
			}
		}
	}
	assert.Greater(t, links, 40)
}

// TestReadmeIsShort holds README.md to one page: 700 words.
func TestReadmeIsShort(t *testing.T) {
	assert.LessOrEqual(t, len(strings.Fields(pages(t)["README.md"])), 700)
}

// TestFuzzTargetsAreListed holds the table of docs/threat-model.md to the fuzz targets that there are.
func TestFuzzTargetsAreListed(t *testing.T) {
	command := exec.CommandContext(t.Context(), "git", "grep", "--untracked", "-E", "-o", `^func Fuzz[A-Za-z0-9]+`, "--", "*_test.go")
	command.Dir = ".."
	out, err := command.Output()
	require.NoError(t, err)
	var want, got []string
	for line := range strings.Lines(string(out)) {
		file, target, _ := strings.Cut(strings.TrimSpace(line), ":func ")
		want = append(want, filepath.Dir(file)+" "+target)
	}
	require.NotEmpty(t, want)
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `(Fuzz[^`]+)` \\|").FindAllStringSubmatch(pages(t)["docs/threat-model.md"], -1) {
		got = append(got, row[1]+" "+row[2])
	}
	assert.ElementsMatch(t, want, got)
}
