package kernhesreceiver

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/jsonl/jsonltest"
)

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
	require.Eventually(t, func() bool { steps, _ := jsonltest.Tally(jsonltest.Read(t, path)); return len(steps) == 2 }, waitFor, tick)

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
	lines := jsonltest.Read(t, path)
	steps, outside := jsonltest.Tally(lines)
	assert.Equal(t, []string{"a", "b", "c"}, steps)
	assert.EqualValues(t, 2, outside)
	last := lines[len(lines)-2]
	assert.Equal(t, "session", last["kind"])
	assert.Equal(t, "bye", last["ended"])
	assert.Equal(t, engine.SessionName(public(1)), last["session"], "not the number that the engine chose")
	require.NoError(t, b.r.Shutdown(t.Context()))

	// Its last acknowledgement is known as well.
	b = newBench(t, withDump)
	_, acknowledged, _ = b.connect(1)
	assert.EqualValues(t, 8, acknowledged)
	assert.Empty(t, b.r.sessions.Live(time.Now()))
}
