package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
)

// What is of the process as a whole, and of each device, goes on there, also when another device is seen first.
func TestLossesGoOnByDevice(t *testing.T) {
	l := &losses{frame: 10, was: []engine.Report{
		{Device: 1, SinceNS: 5, Dropped: map[string]uint64{"late": 3}, Incomplete: map[string]uint64{"range_open": 1}},
		{Device: 2, SinceNS: 5, Whole: true, Dropped: map[string]uint64{"late": 1, "other": 7}, Limited: map[string]uint64{"devices": 2}, Missing: 40},
	}}
	e := &countingEngine{got: 9, now: []engine.Report{{Whole: true, Device: 0, SinceNS: 9, Dropped: map[string]uint64{"other": 2}, Missing: 4}}}
	l.next(12, e) // 10 and 11 are missing: all that comes again has come
	e.now = []engine.Report{
		{Device: 1, SinceNS: 9, Whole: true, Dropped: map[string]uint64{"other": 5, "late": 1}, Limited: map[string]uint64{"devices": 1}, Missing: 5},
		{Device: 2, SinceNS: 9, Dropped: map[string]uint64{"late": 2}},
		{Device: 3, SinceNS: 9, Incomplete: map[string]uint64{"range_open": 6}},
	}
	got := e.Reports()
	l.add(got)
	assert.Equal(t, map[string]uint64{"late": 3 + 1, "other": 5 - 2}, got[0].Dropped)
	assert.Equal(t, map[string]uint64{"range_open": 1}, got[0].Incomplete)
	assert.Equal(t, map[string]uint64{"devices": 2 + 1}, got[0].Limited)
	assert.EqualValues(t, 40+5-4, got[0].Missing)
	assert.Equal(t, map[string]uint64{"late": 1 + 2, "other": 7}, got[1].Dropped)
	assert.Equal(t, map[string]uint64{"range_open": 6}, got[2].Incomplete)
	for i := range got {
		assert.EqualValues(t, 5, got[i].LossSince())
	}
}

// A countingEngine has what it is told.
type countingEngine struct {
	Account
	got uint64
	now []engine.Report
}

func (e *countingEngine) Received() uint64 { return e.got }

func (e *countingEngine) Reports() []engine.Report { return e.now }

// Sessions that do not return are forgotten.
func TestLossesOfSessionsThatDoNotReturnAreForgotten(t *testing.T) {
	b := newSessionBench(t, "")
	b.sessions.set.ReconnectTimeout = time.Millisecond
	b.sessions.left = map[uint64]*losses{7: {left: time.Now().Add(-time.Second)}, 8: {left: time.Now().Add(time.Hour)}}
	l := b.sessions.Leave(time.Now())
	require.NotContains(t, l.losses, uint64(7))
	require.Contains(t, l.losses, uint64(8))
}
