// Package scripts_test runs the scripts that CI rests on.
package scripts_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// flaky is a command in the place of `go test`: it counts its calls, and says and exits as its arguments tell for each.
// An argument is a status, a colon and lines separated by semicolons. What again adds follows "--".
const flaky = `#!/usr/bin/env bash
dir=$(dirname "$0")
echo x >>"$dir/calls"
n=$(wc -l <"$dir/calls")
say=${!n}
while [ $# -gt 0 ] && [ "$1" != -- ]; do shift; done
echo "$*" >>"$dir/flags"
tr ';' '\n' <<<"${say#*:}"
exit "${say%%:*}"
`

// again runs scripts/again over answers of a flaky command.
func again(t *testing.T, answers ...string) (passed bool, out, report, flags string) {
	t.Helper()
	return againIn(t, t.TempDir(), answers...)
}

// againIn runs it in a folder: command and flags are the same each time.
func againIn(t *testing.T, dir string, answers ...string) (passed bool, out, report, flags string) {
	t.Helper()
	command, reported := filepath.Join(dir, "flaky"), filepath.Join(dir, "report")
	require.NoError(t, os.WriteFile(command, []byte(flaky), 0o700))
	b, err := exec.Command("./again", append(append([]string{reported, command}, answers...), "--")...).CombinedOutput()
	var exit *exec.ExitError
	require.True(t, err == nil || errors.As(err, &exit), "%v", err)
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.True(t, err == nil || os.IsNotExist(err), "%v", err)
		return string(text)
	}
	if calls := strings.Count(read("calls"), "x"); read("report") != "" || calls != 2 {
		require.Equal(t, len(answers), calls, "calls")
	}
	return err == nil, string(b), read("report"), read("flags")
}

const (
	good = "0:--- PASS: TestA (0.1s);--- PASS: TestB (0.1s)"
	bad  = "1:--- PASS: TestA (0.1s);--- FAIL: TestB (0.1s);    --- PASS: TestB/one (0.1s);    --- FAIL: TestB/two (0.1s)"
	only = "0:--- PASS: TestB (0.1s);    --- PASS: TestB/one (0.1s);    --- PASS: TestB/two (0.1s)"
	not  = "1:--- FAIL: TestB (0.1s)"
)

// counted are the lines that the count at the end of CI takes.
func counted(out, what string) (n int) {
	for line := range strings.Lines(out) {
		if strings.HasPrefix(strings.TrimLeft(line, " "), "--- "+what) {
			n++
		}
	}
	return n
}

func TestWhatPassesRunsOnce(t *testing.T) {
	passed, out, report, _ := again(t, good)
	assert.True(t, passed)
	assert.Equal(t, 2, counted(out, "PASS"))
	assert.Empty(t, report)
}

func TestATestThatFailedOnceMustPassTwice(t *testing.T) {
	passed, out, report, flags := again(t, bad, only, only)
	assert.True(t, passed)
	assert.Equal(t, "failed at first: TestB\n", report)
	assert.Equal(t, "--\n-- -run ^(TestB)$ -count=1\n-- -run ^(TestB)$ -count=1\n", flags)
	assert.Equal(t, 4, counted(out, "PASS"), "A, B and its subtests, each once:\n%s", out)
	assert.Zero(t, counted(out, "FAIL"), out)
	assert.Contains(t, out, "first try: --- FAIL: TestB (0.1s)\n")

	for _, answers := range [][]string{{bad, not}, {bad, only, not}} {
		passed, out, report, _ = again(t, answers...)
		assert.False(t, passed)
		assert.Equal(t, 1, counted(out, "FAIL"), out)
		assert.Equal(t, "failed at first: TestB\n", report)
	}
}

func TestAPartThatFailsWithoutATestMustPassTwice(t *testing.T) {
	for _, first := range []string{
		"1:no such tool",
		"1:FAIL\texample.com/x [build failed]",
		"2:--- FAIL: TestA (0.1s);panic: test timed out after 1m0s", // the tests after A did not run
	} {
		passed, out, report, flags := again(t, first, good, good)
		assert.True(t, passed)
		assert.Contains(t, report, "(the whole part)\n")
		assert.Equal(t, "--\n--\n--\n", flags)
		assert.Equal(t, 2, counted(out, "PASS"), out)
		assert.Zero(t, counted(out, "FAIL"), out)
		passed, _, _, _ = again(t, first, good, bad)
		assert.False(t, passed)
	}
}

// TestAPartThatNeedsASecondTryInTwoRunsInARowFails: the folder stays between runs. A run between them that needs none is the end
// of it.
func TestAPartThatNeedsASecondTryInTwoRunsInARowFails(t *testing.T) {
	for _, first := range []string{bad, "1:no such tool"} {
		dir := t.TempDir()
		t.Setenv("AGAIN_MEMORY", filepath.Join(dir, "memory"))
		second := map[string]string{bad: only}[first]
		if second == "" {
			second = good
		}
		// The arguments are the command, so those of all runs are equal: what passes at once says so by its call alone.
		run := func(healthy bool) (bool, string) {
			t.Helper()
			for _, name := range []string{"calls", "flags", "report"} {
				_ = os.Remove(filepath.Join(dir, name))
			}
			if healthy {
				require.NoError(t, os.WriteFile(filepath.Join(dir, "calls"), []byte("x\n"), 0o600)) // it answers as at its second call
			}
			passed, _, report, _ := againIn(t, dir, first, second, second)
			return passed, report
		}
		passed, _ := run(false)
		assert.True(t, passed)
		passed, report := run(false)
		assert.False(t, passed)
		assert.Contains(t, report, "needed a second try in the last run too")
		passed, report = run(true)
		assert.True(t, passed)
		assert.Empty(t, report)
		passed, _ = run(false)
		assert.True(t, passed, "the run before needed none")
	}
}
