package jsonl

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/model"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/jsonl/jsonltest"
)

func nothing(Entry) {}

func write(f *File, lines ...any) error {
	_, err := f.Write(lines...)
	return err
}

// TestAPartialWriteLeavesNoTornLine: of the lines of one write all are in the dump, or none.
func TestAPartialWriteLeavesNoTornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "steps.jsonl")
	d, err := Open(path, 0, nothing)
	require.NoError(t, err)
	disk := &jsonltest.FullDisk{File: d.Out.(*os.File)}
	d.Out = disk
	line := func(id string) engine.StepTotals { return engine.StepTotals{Kind: "step", Session: "01", ID: id} }
	require.NoError(t, write(d, line("a")))
	disk.Full = true
	require.ErrorIs(t, write(d, line("b"), line("c")), syscall.ENOSPC)
	steps, _ := jsonltest.Tally(jsonltest.Read(t, path))
	require.Equal(t, []string{"a"}, steps)
	disk.Full = false
	require.NoError(t, write(d, line("d")))
	require.NoError(t, d.Close())
	steps, _ = jsonltest.Tally(jsonltest.Read(t, path))
	require.Equal(t, []string{"a", "d"}, steps)
}

// TestOthersDoNotReadTheDump also with a umask that takes nothing away: ranges' texts are in it.
func TestOthersDoNotReadTheDump(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	path := filepath.Join(t.TempDir(), "steps.jsonl")
	d, err := Open(path, 0, nothing)
	require.NoError(t, err)
	require.NoError(t, d.Close())
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode())
}

func TestDumpRefuses(t *testing.T) {
	dir := t.TempDir()
	check := func(name, content, want string) {
		t.Helper()
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, err := Open(path, 0, nothing)
		assert.ErrorContains(t, err, want, name)
		left, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, content, string(left), "%s: touched a file that is no dump", name)
	}
	check("prose", "hello\n", "dump: line at byte 0")
	check("other", "{\"kind\":\"ack\",\"session\":\"01\"}\n{\"level\":\"info\"}\n", "session \"\"")

	path := filepath.Join(dir, "twice")
	d, err := Open(path, 0, nothing)
	require.NoError(t, err)
	_, err = Open(path, 0, nothing)
	require.ErrorContains(t, err, "in use by another collector")
	require.NoError(t, d.Close())
	_, err = Open(filepath.Join(dir, "missing", "x"), 0, nothing)
	require.ErrorContains(t, err, "dump: open")
}

// The names of a recording's expected figures are the dump's.
func TestDumpHasTheNamesOfTheRecordings(t *testing.T) {
	text, err := os.ReadFile("../../../../testdata/recordings/tp2.rank0.expect.json")
	require.NoError(t, err)
	var want map[string]any
	require.NoError(t, json.Unmarshal(text, &want))

	path := filepath.Join(t.TempDir(), "steps.jsonl")
	d, err := Open(path, 0, nothing)
	require.NoError(t, err)
	require.NoError(t, write(d, append(SessionLines(1, []engine.Report{{
		ComputeNS: 678404441, Became: model.Outcomes{InSteps: 100}, Launches: engine.LaunchCounts{Captured: 20}, NCCL: &engine.NCCLReport{},
	}}, "gone"), engine.StepTotals{Kind: "step"})...))
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

// TestLinesFromAnOffsetOn: what lies before it is not read, a torn last line goes, and a file that is shorter is read from its start.
func TestLinesFromAnOffsetOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "steps.jsonl")
	const first, second = "no line of ours\n", `{"kind":"ack","session":"0a","frame":7}` + "\n"
	require.NoError(t, os.WriteFile(path, []byte(first+second+`{"kind":"ack","se`), 0o600))
	var got []Entry
	take := func(e Entry) { got = append(got, e) }
	f, err := Open(path, int64(len(first)), take)
	require.NoError(t, err)
	require.Equal(t, []Entry{{Kind: "ack", Session: 10, Frame: 7}}, got)
	require.EqualValues(t, len(first)+len(second), f.Size())
	require.NoError(t, f.Close())
	left, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, first+second, string(left))

	require.NoError(t, os.WriteFile(path, []byte(second), 0o600))
	got = nil
	f, err = Open(path, int64(len(first)+len(second)), take)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.NoError(t, f.Close())
}

// TestRotation: when the path names no file any more, or another one, lines go on there.
func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "steps.jsonl")
	f, err := Open(path, 0, nothing)
	require.NoError(t, err)
	line := func(id string) engine.StepTotals { return engine.StepTotals{Kind: "step", Session: "01", ID: id} }
	require.NoError(t, write(f, line("a")))
	require.NoError(t, os.Rename(path, path+".1"))
	require.NoError(t, write(f, line("b")), "it is not looked at each write")
	f.checked = f.checked.Add(-rotateInterval)
	size, err := f.Write(line("c"))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	steps, _ := jsonltest.Tally(jsonltest.Read(t, path+".1"))
	require.Equal(t, []string{"a", "b"}, steps)
	steps, _ = jsonltest.Tally(jsonltest.Read(t, path))
	require.Equal(t, []string{"c"}, steps)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, info.Size(), size)
}
