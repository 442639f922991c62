package kernhesreceiver

import (
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"

	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// dumped reads a dump as objects.
func dumped(t *testing.T, path string) (lines []map[string]any) {
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

// tally adds up what the dump says became of records: ids of steps, and the loose ones of ack lines.
func tally(lines []map[string]any) (steps []string, outside float64) {
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

// A collector is killed and started anew: each record is once in the dump.
func TestDumpSurvivesAKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "steps.jsonl")
	withDump := func(c *Config) { c.Dump = path }
	b := newBench(t, withDump)
	c, _, _ := b.connect(1)
	c.word(1, "step a")
	c.word(2, "outside")
	c.ack(2)
	c.word(3, "hold")
	c.word(4, "step b")
	c.word(5, "outside")
	require.Eventually(t, func() bool { steps, _ := tally(dumped(t, path)); return len(steps) == 2 }, waitFor, tick)

	// What a kill leaves: the file as it is, here with a line torn in its middle.
	require.NoError(t, b.r.Shutdown(t.Context()))
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = file.WriteString(`{"kind":"step","run":"r1","sess`)
	require.NoError(t, err)
	require.NoError(t, file.Close())

	b = newBench(t, withDump)
	c, acknowledged, received := b.connect(1)
	assert.EqualValues(t, 2, acknowledged)
	assert.EqualValues(t, 2, received)
	c.word(3, "hold")
	c.word(4, "step b") // written before
	c.word(5, "outside")
	c.word(6, "release")
	c.word(7, "step c")
	c.bye(8)
	c.ack(8)
	lines := dumped(t, path)
	steps, outside := tally(lines)
	assert.Equal(t, []string{"a", "b", "c"}, steps)
	assert.EqualValues(t, 2, outside)
	last := lines[len(lines)-2]
	assert.Equal(t, "session", last["kind"])
	assert.Equal(t, "bye", last["ended"])
	assert.Equal(t, "0000000000000001", last["session"])
	require.NoError(t, b.r.Shutdown(t.Context()))

	// Its last acknowledgement is known as well.
	b = newBench(t, withDump)
	_, acknowledged, _ = b.connect(1)
	assert.EqualValues(t, 8, acknowledged)
	assert.Empty(t, b.r.table.all())
}

func TestNothingIsAcknowledgedThatCannotBeWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "steps.jsonl")
	b := newBench(t, func(c *Config) { c.Dump = path })
	c, _, _ := b.connect(1)
	c.word(1, "outside")
	c.ack(1)

	b.r.dump.mu.Lock()
	good := b.r.dump.file
	broken, err := os.Open(path) // for reading only
	require.NoError(t, err)
	b.r.dump.file = broken
	b.r.dump.mu.Unlock()
	c.word(2, "step a")
	require.Eventually(t, func() bool {
		return b.logs.FilterMessage("nothing is acknowledged until this works again").Len() == 1
	}, waitFor, tick)
	b.r.dump.mu.Lock()
	b.r.dump.file = good
	b.r.dump.mu.Unlock()
	require.NoError(t, broken.Close())

	c.word(3, "outside")
	c.ack(3)
	steps, outside := tally(dumped(t, path))
	assert.Equal(t, []string{"a"}, steps)
	assert.EqualValues(t, 2, outside)
}

// A fullDisk is a file whose next write stops in the middle.
type fullDisk struct {
	*os.File
	full bool
}

func (f *fullDisk) Write(b []byte) (int, error) {
	if !f.full {
		return f.File.Write(b)
	}
	n, err := f.File.Write(b[:len(b)/2])
	return n, errors.Join(err, syscall.ENOSPC)
}

// TestAPartialWriteLeavesNoTornLine: of the lines of one write all are in the dump, or none.
func TestAPartialWriteLeavesNoTornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "steps.jsonl")
	d, _, err := openDump(path)
	require.NoError(t, err)
	disk := &fullDisk{File: d.file.(*os.File)}
	d.file = disk
	line := func(id string) engine.StepTotals { return engine.StepTotals{Kind: "step", Session: "01", ID: id} }
	require.NoError(t, d.write(line("a")))
	disk.full = true
	require.ErrorIs(t, d.write(line("b"), line("c")), syscall.ENOSPC)
	steps, _ := tally(dumped(t, path))
	require.Equal(t, []string{"a"}, steps)
	disk.full = false
	require.NoError(t, d.write(line("d")))
	require.NoError(t, d.close())
	steps, _ = tally(dumped(t, path))
	require.Equal(t, []string{"a", "d"}, steps)
}

// TestLinesThatAreGivenUpAreCounted: 65,536 lines wait for a dump that cannot be written; of more, the oldest go.
func TestLinesThatAreGivenUpAreCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "steps.jsonl")
	d, _, err := openDump(path)
	require.NoError(t, err)
	disk := &fullDisk{d.file.(*os.File), true}
	d.file = disk
	s := newSession(1, &fakeEngine{}, remembered{})
	const waiting, over = 65_536, 3
	for id := range waiting + over {
		s.lines = append(s.lines, engine.StepTotals{Kind: "step", Session: "01", ID: strconv.Itoa(id)})
	}
	lost, err := s.deliver(d, nil)
	require.Error(t, err)
	require.Equal(t, over, lost)
	lost, err = s.deliver(d, nil)
	require.Error(t, err)
	require.Zero(t, lost, "each is counted once")
	require.Len(t, s.lines, waiting)

	disk.full = false
	s.lines = s.lines[:2]
	lost, err = s.deliver(d, nil)
	require.NoError(t, err)
	require.Zero(t, lost)
	require.NoError(t, d.close())
	steps, _ := tally(dumped(t, path))
	require.Equal(t, []string{"3", "4"}, steps, "the oldest were given up")
}

// TestLinesOfAnEndedSessionThatAreGivenUpAreCounted: a session ends whether or not its lines can be written.
func TestLinesOfAnEndedSessionThatAreGivenUpAreCounted(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Dump = filepath.Join(t.TempDir(), "steps.jsonl") })
	c, _, _ := b.connect(1)
	b.r.dump.mu.Lock()
	b.r.dump.file = &fullDisk{b.r.dump.file.(*os.File), true}
	b.r.dump.mu.Unlock()
	c.word(1, "step a")
	c.word(2, "step b")
	c.bye(3)
	c.closed()
	require.Eventually(t, func() bool { return b.number("kernhes_dump_errors") == 2 }, waitFor, tick)
	require.Empty(t, b.r.table.all())
}

func TestDumpRefuses(t *testing.T) {
	dir := t.TempDir()
	check := func(name, content, want string) {
		t.Helper()
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, _, err := openDump(path)
		assert.ErrorContains(t, err, want, name)
		left, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, content, string(left), "%s: touched a file that is no dump", name)
	}
	check("prose", "hello\n", "dump: line at byte 0")
	check("other", "{\"kind\":\"ack\",\"session\":\"01\"}\n{\"level\":\"info\"}\n", "session \"\"")

	path := filepath.Join(dir, "twice")
	d, _, err := openDump(path)
	require.NoError(t, err)
	_, _, err = openDump(path)
	require.ErrorContains(t, err, "in use by another collector")
	require.NoError(t, d.close())
	_, _, err = openDump(filepath.Join(dir, "missing", "x"))
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
	assert.Equal(t, map[uint64]remembered{
		10: {frame: 7, steps: map[string]uint64{"2/1": 9}, last: 196}, 11: {steps: map[string]uint64{"1/1": 2}, last: 156}}, past)
}

// The names of a recording's expected figures are the dump's.
func TestDumpHasTheNamesOfTheRecordings(t *testing.T) {
	text, err := os.ReadFile("../../testdata/recordings/tp2.rank0.expect.json")
	require.NoError(t, err)
	var want map[string]any
	require.NoError(t, json.Unmarshal(text, &want))

	path := filepath.Join(t.TempDir(), "steps.jsonl")
	d, _, err := openDump(path)
	require.NoError(t, err)
	require.NoError(t, d.write(append(sessionLines(1, []engine.Report{*full()}, "gone"), engine.StepTotals{Kind: "step"})...))
	require.NoError(t, d.close())
	lines := dumped(t, path)
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

// Of more sessions than are remembered, the dump's last ones are.
func TestDumpRemembersItsLastSessions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "steps.jsonl")
	var text strings.Builder
	const sessions = maxPast + 10
	for i := 1; i <= sessions; i++ {
		text.WriteString(`{"kind":"ack","session":"` + engine.SessionName(uint64(i)) + `","frame":7}` + "\n")
	}
	text.WriteString(`{"kind":"session","session":"` + engine.SessionName(1) + `","ended":"bye"}` + "\n") // the first one speaks last
	require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	b := newBench(t, func(c *Config) { c.Dump = path })
	require.Len(t, b.r.table.past, maxPast)
	require.Equal(t, uint64(7), b.r.table.past[1].frame)
	for i := 2; i <= 11; i++ {
		require.NotContains(t, b.r.table.past, uint64(i))
	}
	require.Contains(t, b.r.table.past, uint64(12))
	require.Contains(t, b.r.table.past, uint64(sessions))
}
