// Package jsonltest turns a dump into objects, for tests.
package jsonltest

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Read reads a dump as objects.
func Read(t *testing.T, path string) (lines []map[string]any) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, len(text) == 0 || bytes.HasSuffix(text, []byte("\n")), "torn")
	for line := range bytes.Lines(text) {
		var l map[string]any
		require.NoError(t, json.Unmarshal(line, &l))
		lines = append(lines, l)
	}
	return lines
}

// Tally adds up what the dump says became of records: ids of steps, and the unattributed ones of ack lines.
func Tally(lines []map[string]any) (steps []string, outside float64) {
	for _, l := range lines {
		switch l["kind"] {
		case "step":
			steps = append(steps, l["id"].(string))
		case "ack":
			outside += l["outside"].(float64)
		}
	}
	return steps, outside
}
