package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// usage is what a subcommand prints for --help.
func usage(t *testing.T, name string) string {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	stderr := os.Stderr
	os.Stderr = w
	_ = run([]string{name, "--help"}, io.Discard)
	os.Stderr = stderr
	require.NoError(t, w.Close())
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(text)
}

// TestCommandsOfTheDocumentationExist checks each subcommand of kernhes, with its flags, that the documentation names.
func TestCommandsOfTheDocumentationExist(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	files = append(files, "../../README.md", "../../python/README.md")
	var (
		code    = regexp.MustCompile("(?ms)^ *```sh$.*?^ *```$|^    kernhes .*?[^\\\\]$|`kernhes [^`]+`")
		command = regexp.MustCompile(`(?m)(?:^|[\s/` + "`" + `])kernhes ([a-z]+)([^|;&#` + "`\n" + `]*)`)
		flag    = regexp.MustCompile(`[\s\[]--?([a-z][a-z-]*)`)
		others  = regexp.MustCompile(`kernhes (alice|port-forward|receiver/)`) // the user, the namespace and a folder of that name
		helps   = map[string]string{}
		names   []string
	)
	for _, c := range commands {
		names = append(names, c.name)
	}
	checked := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue
		}
		require.NoError(t, err)
		for _, block := range code.FindAllString(string(text), -1) {
			for _, m := range command.FindAllStringSubmatch(strings.ReplaceAll(block, "\\\n", " "), -1) {
				name, args := m[1], m[2]
				if !slices.Contains(names, name) && others.MatchString(m[0]) {
					continue
				}
				if !assert.Contains(t, names, name, "%s: %s", file, m[0]) {
					continue
				}
				checked++
				if slices.Contains([]string{"report", "mcp"}, name) {
					continue // kernhes-analysis, a program of its own, has these flags
				}
				if helps[name] == "" {
					helps[name] = usage(t, name)
				}
				args, _, _ = strings.Cut(args+" ", " -- ") // what follows is the engine's
				for _, f := range flag.FindAllStringSubmatch(args, -1) {
					if f[1] != "help" {
						assert.Regexp(t, `(?m)^  -`+f[1]+`\b`, helps[name], "%s: %s", file, m[0])
						checked++
					}
				}
			}
		}
	}
	assert.Greater(t, checked, 30)
}
