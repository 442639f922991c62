package rules

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFilesAreReadWhenTheyAreOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	_, err := Open(path, "")
	require.ErrorContains(t, err, "class_table: ")
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	_, err = Open("", path)
	require.ErrorContains(t, err, "manifest: ")

	f, err := Open("", "../manifest/testdata/toy-moe-ep2.json")
	require.NoError(t, err)
	require.NotNil(t, f.Latest().Manifest)
	require.Equal(t, Shipped.Classes.Version, f.Latest().Classes.Version)
}

func TestEachChangeIsReturnedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table")
	writes := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	writes("comm\tpath\t^ours$\n")
	f, err := Open(path, "")
	require.NoError(t, err)
	first := f.Latest()
	require.Empty(t, f.Poll())
	require.Same(t, first, f.Latest())

	writes("# version: mine\ncomm\tpath\t^theirs, and others$\n")
	changes := f.Poll()
	require.Equal(t, []Change{{Setting: "class_table", Version: "mine+" + Shipped.Classes.Version}}, changes)
	second := f.Latest()
	require.NotSame(t, first, second)
	require.Empty(t, f.Poll())

	writes("broken\n")
	changes = f.Poll()
	require.Len(t, changes, 1)
	require.ErrorContains(t, changes[0].Err, "rule in line 1: 1 columns")
	require.Empty(t, f.Poll(), "a refusal is returned once")
	require.Same(t, second, f.Latest(), "the last good version stays")
	require.Len(t, f.Refused(), 1)
	require.Contains(t, f.Refused()[0], "class_table is refused, the last good one stays: "+path)
}

func TestWithoutFilesTheShippedRulesHold(t *testing.T) {
	var f Files
	require.Same(t, Shipped, f.Latest())
	require.Empty(t, f.Poll())
	require.Empty(t, f.Refused())
}
