package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestInjection(t *testing.T) {
	check := func(cuda, nvtx string, want ...string) {
		t.Helper()
		environ := map[string]string{"CUDA_INJECTION64_PATH": cuda, "NVTX_INJECTION64_PATH": nvtx}
		got := injection("/opt/libkernhes.so", func(name string) (string, bool) { v, ok := environ[name]; return v, ok })
		assert.Equal(t, want, got)
	}
	const cuda, nvtx = "CUDA_INJECTION64_PATH=/opt/libkernhes.so", "NVTX_INJECTION64_PATH=/opt/libkernhes.so"
	check("", "", cuda, nvtx)
	check("/other/tool.so", "", cuda, "KERNHES_CUDA_NEXT=/other/tool.so", nvtx)
	check("", "/other/tool.so", cuda, nvtx, "KERNHES_NVTX_NEXT=/other/tool.so")
	check("/opt/libkernhes.so", "/old/libkernhes.so", cuda, nvtx) // never itself, nor another copy
}

func TestSaid(t *testing.T) {
	assert.Equal(t, "kernhes: A=1 B=2\n", told("/usr/bin/vllm", []string{"A=1", "B=2"}))
	assert.Contains(t, told("/opt/nsys", nil), "nsys profile kernhes run -- COMMAND")
}

func TestMerge(t *testing.T) {
	assert.Equal(t, []string{"B=2", "A=3"}, merge([]string{"A=1", "B=2", "A=4"}, []string{"A=3"}))
}

func TestFindCUPTI(t *testing.T) {
	root := t.TempDir()
	put := func(path string) string {
		path = filepath.Join(root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, 0o644))
		return path
	}
	environ := map[string]string{"CUDA_HOME": filepath.Join(root, "cuda")}
	lookup := func(name string) (string, bool) { v, ok := environ[name]; return v, ok }
	toolkit := put("cuda/extras/CUPTI/lib64/libcupti.so.12")
	assert.Equal(t, toolkit, findCUPTI("", lookup))
	newer := put("cuda/extras/CUPTI/lib64/libcupti.so.13")
	assert.Equal(t, newer, findCUPTI(filepath.Join(root, "venv/bin/python3"), lookup))
	own := put("venv/lib/python3.12/site-packages/nvidia/cu13/lib/libcupti.so.13")
	assert.Equal(t, own, findCUPTI(filepath.Join(root, "venv/bin/python3"), lookup))
}

// runAs runs a command with a library that need not be one, and gives what would take this process's place.
func runAs(t *testing.T, args ...string) (program string, argv, environ []string, err error) {
	library := filepath.Join(t.TempDir(), "libkernhes.so")
	require.NoError(t, os.WriteFile(library, nil, 0o644))
	execute = func(p string, a, e []string) error { program, argv, environ = p, a, e; return nil }
	t.Cleanup(func() { execute = syscall.Exec })
	err = run(append([]string{"run", "--lib", library, "--quiet"}, args...), io.Discard)
	return program, argv, environ, err
}

func TestRun(t *testing.T) {
	program, argv, environ, err := runAs(t, "--software", "--endpoint", "unix:///k.sock", "--", "sh", "-c", "exit 3")
	require.NoError(t, err)
	assert.Equal(t, []string{"sh", "-c", "exit 3"}, argv)
	assert.Contains(t, environ, "KERNHES_SOFTWARE=on")
	assert.Contains(t, environ, "KERNHES_ENDPOINT=unix:///k.sock")
	var exit *exec.ExitError
	command := &exec.Cmd{Path: program, Args: argv, Env: environ}
	require.ErrorAs(t, command.Run(), &exit)
	assert.Equal(t, 3, exit.ExitCode())
}

func TestRunFails(t *testing.T) {
	_, _, _, err := runAs(t)
	assert.True(t, errors.Is(err, errUsage), err)
	_, _, _, err = runAs(t, "--", "no-such-program-anywhere")
	assert.ErrorIs(t, err, exec.ErrNotFound)
	assert.ErrorIs(t, run([]string{"run", "--lib", "/nowhere/libkernhes.so", "--", "true"}, io.Discard), errNoLibrary)
}

func TestRunWithWindows(t *testing.T) {
	t.Setenv("LD_PRELOAD", "/usr/lib/libjemalloc.so.2:/old/libkernhes.so")
	_, _, environ, err := runAs(t, "--windows", "--", "sh")
	require.NoError(t, err)
	assert.Contains(t, environ, "KERNHES_SOFTWARE=windows")
	preloaded := ""
	for _, pair := range environ {
		if value, ok := strings.CutPrefix(pair, "LD_PRELOAD="); ok {
			preloaded = value
		}
	}
	assert.Regexp(t, `^/.+/libkernhes\.so:/usr/lib/libjemalloc\.so\.2$`, preloaded)
	_, _, _, err = runAs(t, "--windows", "--software", "--", "sh")
	assert.ErrorContains(t, err, "exclude each other")
}
