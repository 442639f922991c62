package session

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/enginetest"
)

func TestSessionsAreInTheOrderInWhichTheyBegan(t *testing.T) {
	table := newTable(100)
	var want []uint64
	for i := range uint64(20) {
		id := (i * 7) % 20
		table.find(id, func(past remembered) *session { return newSession(id, enginetest.New(wire.Hello{}), past) })
		want = append(want, id)
	}
	var got []uint64
	for _, s := range table.all() {
		got = append(got, s.id)
	}
	assert.Equal(t, want, got)
}

// TestEndedSessionsAreBounded: 4,096 are remembered, the last ones.
func TestEndedSessionsAreBounded(t *testing.T) {
	const kept = 4096
	table := newTable(1)
	end := func(id uint64) {
		s, _ := table.find(id, func(past remembered) *session { return newSession(id, enginetest.New(wire.Hello{}), past) })
		s.acked = 10 * id
		table.end(s, false)
	}
	for id := uint64(1); id <= kept+5; id++ {
		end(id)
	}
	end(7) // one that is remembered takes no other's place
	frame := func(id uint64) uint64 {
		f, ok := table.SaidBye(id)
		assert.Equal(t, f > 0, ok, "session %d", id)
		return f
	}
	assert.Zero(t, frame(5), "the oldest are forgotten")
	assert.EqualValues(t, 60, frame(6))
	assert.EqualValues(t, 70, frame(7))
	assert.EqualValues(t, 10*(kept+5), frame(kept+5))
	assert.Len(t, table.past, kept)
	assert.Len(t, table.order, kept)
}

// TestSettledRecordsAreCountedWithoutADump: an engine keeps what is settled until its counts are asked for.
func TestSettledRecordsAreCountedWithoutADump(t *testing.T) {
	e := enginetest.New(wire.Hello{})
	require.NoError(t, e.Frame(wire.Frame{Kind: wire.KindInfo, Number: 1}))
	s := newSession(1, e, remembered{})
	_, ok, err := s.acknowledge(nil)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, 1, e.Asked())
}
