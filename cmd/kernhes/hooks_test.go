package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEngineVariables(t *testing.T) {
	check := func(engine string, environ map[string]string, want ...string) {
		t.Helper()
		lookup := func(name string) (string, bool) { v, ok := environ[name]; return v, ok }
		assert.Equal(t, want, engineVariables(engine, "/opt/k.whl", lookup))
	}
	check("vllm", nil, "KERNHES_ENGINE=vllm", "PYTHONPATH=/opt/k.whl")
	check("vllm", map[string]string{"PYTHONPATH": "/a:/b", "VLLM_PLUGINS": "lora", "KERNHES_ENGINE": "mine"},
		"PYTHONPATH=/opt/k.whl:/a:/b", "VLLM_PLUGINS=lora,kernhes")
	check("sglang", map[string]string{"SGLANG_PLUGINS": "kernhes,x", "VLLM_PLUGINS": "lora"},
		"KERNHES_ENGINE=sglang", "PYTHONPATH=/opt/k.whl")
	check("vllm", map[string]string{"VLLM_PLUGINS": ""}, "KERNHES_ENGINE=vllm", "PYTHONPATH=/opt/k.whl", "VLLM_PLUGINS=kernhes")
	check("sglang", map[string]string{"SGLANG_PLUGINS": ""}, "KERNHES_ENGINE=sglang", "PYTHONPATH=/opt/k.whl")
	check("tensorrt-llm", map[string]string{"PYTHONPATH": "/a"}, "KERNHES_ENGINE=tensorrt-llm")
}

func TestNewestWheel(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	_, err := newestWheel(first, second)
	require.ErrorIs(t, err, errNoWheel)
	for _, name := range []string{"kernhes-0.1.0-py3-none-any.whl", "kernhes-0.2.0-py3-none-any.whl", "other-9-py3-none-any.whl"} {
		require.NoError(t, os.WriteFile(filepath.Join(second, name), nil, 0o644))
	}
	found, err := newestWheel(first, second)
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(second, "kernhes-0.2.0-py3-none-any.whl"), found)
}

func TestRunWithAnEngine(t *testing.T) {
	wheel := filepath.Join(t.TempDir(), "kernhes-0.1.0-py3-none-any.whl")
	require.NoError(t, os.WriteFile(wheel, nil, 0o644))
	t.Setenv("PYTHONPATH", "/mine")
	_, _, environ, err := runAs(t, "--engine", "vllm", "--wheel", wheel, "--requests", "--", "true")
	require.NoError(t, err)
	for _, want := range []string{"PYTHONPATH=" + wheel + ":/mine", "KERNHES_ENGINE=vllm", "KERNHES_REQUESTS=1"} {
		assert.Contains(t, environ, want)
	}
	_, _, _, err = runAs(t, "--engine", "vllm", "--wheel", "/nowhere/k.whl", "--", "true")
	require.ErrorIs(t, err, errNoWheel)
	_, _, environ, err = runAs(t, "--engine", "tensorrt-llm", "--wheel", "/nowhere/k.whl", "--", "true")
	require.NoError(t, err, "it has no hook, so it needs no wheel")
	assert.Contains(t, environ, "PYTHONPATH=/mine")
	_, _, _, err = runAs(t, "--engine", "vlm", "--", "true")
	require.True(t, errors.Is(err, errUsage), err)
	assert.ErrorContains(t, err, `engine "vlm": want one of sglang, tensorrt-llm, vllm`)
}
