package jsonl

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/jsonl/jsonltest"
)

// TestAPartialWriteLeavesNoTornLine: of the lines of one write all are in the dump, or none.
func TestAPartialWriteLeavesNoTornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "steps.jsonl")
	d, _, err := Open(path)
	require.NoError(t, err)
	disk := &jsonltest.FullDisk{File: d.File.(*os.File)}
	d.File = disk
	line := func(id string) engine.StepTotals { return engine.StepTotals{Kind: "step", Session: "01", ID: id} }
	require.NoError(t, d.Write(line("a")))
	disk.Full = true
	require.ErrorIs(t, d.Write(line("b"), line("c")), syscall.ENOSPC)
	steps, _ := jsonltest.Tally(jsonltest.Read(t, path))
	require.Equal(t, []string{"a"}, steps)
	disk.Full = false
	require.NoError(t, d.Write(line("d")))
	require.NoError(t, d.Close())
	steps, _ = jsonltest.Tally(jsonltest.Read(t, path))
	require.Equal(t, []string{"a", "d"}, steps)
}

func TestDumpRefuses(t *testing.T) {
	dir := t.TempDir()
	check := func(name, content, want string) {
		t.Helper()
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, _, err := Open(path)
		assert.ErrorContains(t, err, want, name)
		left, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, content, string(left), "%s: touched a file that is no dump", name)
	}
	check("prose", "hello\n", "dump: line at byte 0")
	check("other", "{\"kind\":\"ack\",\"session\":\"01\"}\n{\"level\":\"info\"}\n", "session \"\"")

	path := filepath.Join(dir, "twice")
	d, _, err := Open(path)
	require.NoError(t, err)
	_, _, err = Open(path)
	require.ErrorContains(t, err, "in use by another collector")
	require.NoError(t, d.Close())
	_, _, err = Open(filepath.Join(dir, "missing", "x"))
	require.ErrorContains(t, err, "dump: open")
}

func TestReadDumpForgetsWhatCannotComeAgain(t *testing.T) {
	past, size, err := readDump(strings.NewReader(`{"kind":"step","session":"0a","id":"1/1","frame":4}
{"kind":"step","session":"0a","id":"2/1","frame":9}
{"kind":"step","session":"0b","id":"1/1","frame":2}
{"kind":"ack","session":"0a","frame":7}
{"kind":"ack","se`))
	require.NoError(t, err)
	assert.EqualValues(t, 196, size)
	assert.Equal(t, map[uint64]Remembered{
		10: {Frame: 7, Steps: map[string]uint64{"2/1": 9}, Last: 196}, 11: {Steps: map[string]uint64{"1/1": 2}, Last: 156}}, past)
}

// The names of a recording's expected figures are the dump's.
func TestDumpHasTheNamesOfTheRecordings(t *testing.T) {
	text, err := os.ReadFile("../../../../testdata/recordings/tp2.rank0.expect.json")
	require.NoError(t, err)
	var want map[string]any
	require.NoError(t, json.Unmarshal(text, &want))

	path := filepath.Join(t.TempDir(), "steps.jsonl")
	d, _, err := Open(path)
	require.NoError(t, err)
	require.NoError(t, d.Write(append(SessionLines(1, []engine.Report{{ComputeNS: 678404441, Became: engine.KernelStates{InSteps: 100}, Launches: engine.LaunchCounts{Captured: 20}, NCCL: &engine.NCCLReport{}}}, "gone"), engine.StepTotals{Kind: "step"})...))
	require.NoError(t, d.Close())
	lines := jsonltest.Read(t, path)
	require.Len(t, lines, 2)
	for key := range want {
		if key != "columns" && key != "steps" && key != "groups" {
			assert.Contains(t, lines[0], key)
		}
	}
	for _, column := range want["columns"].([]any) {
		assert.Contains(t, lines[1], column)
	}
	assert.EqualValues(t, 678404441, lines[0]["compute_ns"])
	assert.EqualValues(t, 100, lines[0]["in_steps"])
	assert.EqualValues(t, 20, lines[0]["captured_launches"])
}
