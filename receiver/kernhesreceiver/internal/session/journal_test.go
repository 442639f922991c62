package session

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/jsonl"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/jsonl/jsonltest"
)

// What cannot come again is forgotten: steps that rest on acknowledged frames.
func TestJournalForgetsWhatCannotComeAgain(t *testing.T) {
	j := &journal{past: map[uint64]*remembered{}}
	for _, e := range []jsonl.Entry{
		{Kind: "step", Session: 10, ID: "1/1", Frame: 4}, {Kind: "step", Session: 10, ID: "2/1", Frame: 9},
		{Kind: "step", Session: 11, ID: "1/1", Frame: 2}, {Kind: "ack", Session: 10, Frame: 7},
	} {
		j.took(e)
	}
	require.Equal(t, map[uint64]*remembered{
		10: {frame: 7, steps: map[string]uint64{"2/1": 9}, last: 4}, 11: {steps: map[string]uint64{"1/1": 2}, last: 3},
	}, j.past)
	require.Equal(t, []uint64{11, 10}, j.remembered())
}

// restarted is what a collector does with a session of two steps, of which the first is acknowledged before what between does, and
// both come again to a second collector.
func restarted(t *testing.T, path string, between func(journalBefore []byte)) (acknowledged uint64) {
	t.Helper()
	first := newSessionBench(t, path)
	f := first.attach(1)
	require.NoError(t, first.word(f, 1, "step a"))
	require.Equal(t, Ack{Frame: 1, Due: true}, f.Passed(t.Context()))
	before, err := os.ReadFile(path + ".journal")
	require.NoError(t, err)
	require.NoError(t, first.word(f, 2, "hold"))
	require.NoError(t, first.word(f, 3, "step b"))
	require.Equal(t, Ack{Frame: 0}, f.Passed(t.Context()))
	require.NoError(t, first.sessions.Close())
	between(before)

	second := newSessionBench(t, path)
	f = second.attach(1)
	acknowledged = f.Welcome().Acknowledged
	require.NoError(t, second.word(f, 2, "hold"))
	require.NoError(t, second.word(f, 3, "step b"))
	require.NoError(t, second.word(f, 4, "release"))
	require.NoError(t, second.word(f, 5, "step c"))
	require.Equal(t, Ack{Frame: 5, Due: true}, f.Passed(t.Context()))
	return acknowledged
}

func stepsIn(t *testing.T, path string) []string {
	t.Helper()
	steps, _ := jsonltest.Tally(jsonltest.Read(t, path))
	return steps
}

// A dump can be moved away: the journal knows what was acknowledged, and which steps are in the file that is gone.
func TestTheDumpCanBeMovedAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "steps.jsonl")
	acknowledged := restarted(t, path, func([]byte) { require.NoError(t, os.Rename(path, path+".1")) })
	require.EqualValues(t, 1, acknowledged)
	require.Equal(t, []string{"a", "b"}, stepsIn(t, path+".1"))
	require.Equal(t, []string{"c"}, stepsIn(t, path))
}

// A kill may come after a line is in the dump and before its entry is in the journal. Each step is in the dump once all the same.
func TestAKillBetweenTheDumpAndTheJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "steps.jsonl")
	acknowledged := restarted(t, path, func(before []byte) {
		require.NoError(t, os.WriteFile(path+".journal", append(before, `{"kind":"st`...), 0o600))
	})
	require.EqualValues(t, 1, acknowledged)
	require.Equal(t, []string{"a", "b", "c"}, stepsIn(t, path))
}

// A dump from before there were journals says all.
func TestADumpWithoutAJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "steps.jsonl")
	acknowledged := restarted(t, path, func([]byte) { require.NoError(t, os.Remove(path+".journal")) })
	require.EqualValues(t, 1, acknowledged)
	require.Equal(t, []string{"a", "b", "c"}, stepsIn(t, path))
}

// While the journal cannot be written, one line more is written to the dump and no other, and it is not written twice.
func TestAJournalThatCannotBeWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "steps.jsonl")
	j, err := openJournal(path)
	require.NoError(t, err)
	line := func(id string, frame uint64) *engine.StepTotals {
		return &engine.StepTotals{Kind: "step", Session: engine.SessionName(1), ID: id, Frame: frame}
	}
	j.file = &jsonltest.FullDisk{File: j.file.(*os.File), Full: true}
	require.NoError(t, j.step(1, line("a", 1)))
	require.NoError(t, os.Mkdir(path+".journal.new", 0o700)) // it cannot be written anew either
	require.Error(t, j.step(1, line("b", 2)))
	require.NoError(t, j.step(1, line("a", 1)))
	require.Equal(t, []string{"a"}, stepsIn(t, path))
	require.NoError(t, os.Remove(path+".journal.new"))
	require.NoError(t, j.step(1, line("b", 2)))
	require.Equal(t, []string{"a", "b"}, stepsIn(t, path))
	require.NoError(t, j.close())

	j, err = openJournal(path)
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{"a": 1, "b": 2}, j.past[1].steps)
	require.NoError(t, j.close())
}

// A journal does not grow with what is past.
func TestAJournalIsWrittenAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "steps.jsonl")
	j, err := openJournal(path)
	require.NoError(t, err)
	j.limit = 1000
	for frame := range uint64(200) {
		require.NoError(t, j.ack(1, jsonl.AckLine{Kind: "ack", Session: engine.SessionName(1), Frame: frame + 1}))
	}
	require.Equal(t, int64(minJournal), j.limit)
	require.NoError(t, j.close())
	require.Equal(t, 200, len(jsonltest.Read(t, path)))
	j, err = openJournal(path)
	require.NoError(t, err)
	require.Equal(t, remembered{frame: 200, last: j.past[1].last}, *j.past[1])
	info, err := os.Stat(path + ".journal")
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(200))
	require.NoError(t, j.close())
}
