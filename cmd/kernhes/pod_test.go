package main

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestReplace has a process that maps the old library keep it.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	require.NoError(t, os.WriteFile(from, []byte("new"), 0o600))
	require.NoError(t, os.WriteFile(to, []byte("old"), 0o600))
	open, err := os.Open(to)
	require.NoError(t, err)
	defer open.Close()
	require.NoError(t, replace(from, to))
	text, err := os.ReadFile(to)
	require.NoError(t, err)
	assert.Equal(t, "new", string(text))
	info, err := os.Stat(to)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o644), info.Mode(), "other users load it")
	text, err = io.ReadAll(open)
	require.NoError(t, err)
	assert.Equal(t, "old", string(text))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 2, "nothing is left")
	assert.Error(t, replace(filepath.Join(dir, "none"), to))
}

func TestFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	for range 2 { // the second time it is there
		require.NoError(t, run([]string{"folder", "-mode", "2750", path}, io.Discard))
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, fs.ModeDir|fs.ModeSetgid|0o750, info.Mode())
	}
	for _, args := range [][]string{{path, path}, {"-mode", "9", path}, {}} {
		assert.ErrorIs(t, run(append([]string{"folder"}, args...), io.Discard), errUsage)
	}
	assert.ErrorIs(t, run([]string{"copy"}, io.Discard), errUsage)
}
