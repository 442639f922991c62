package orders

import (
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/fleet"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/windows"
)

// fakeEngines take what they are told.
type fakeEngines struct {
	mu   sync.Mutex
	all  []fleet.Standing
	told map[uint64][]uint64 // by session: start, end and id of the last window
}

func (f *fakeEngines) Standings() []fleet.Standing { return f.all }

// Command reads the frame by WIRE.md: 16 bytes of head, the command, a zero, four arguments.
func (f *fakeEngines) Command(session uint64, frame []byte) bool {
	le := binary.LittleEndian
	if le.Uint16(frame[4:]) != 66 || le.Uint32(frame[16:]) != 1 {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told[session] = []uint64{le.Uint64(frame[24:]), le.Uint64(frame[32:]), le.Uint64(frame[40:])}
	return true
}

func engineOf(session uint64, run, mode, state string, connected bool) fleet.Standing {
	s := fleet.Standing{Session: session, Connected: connected, Standing: engine.Standing{Run: run, Mode: mode}}
	if mode == "windows" {
		s.Windows = &engine.WindowsStanding{State: state, Left: 4000}
	}
	return s
}

// TestOrdersGoToAllRanksOfARun: those that can open a window are told the same times.
func TestOrdersGoToAllRanksOfARun(t *testing.T) {
	f := &fakeEngines{told: map[uint64][]uint64{}, all: []fleet.Standing{
		engineOf(1, "a", "windows", "detached", true), engineOf(2, "a", "windows", "detached", true),
		engineOf(3, "a", "windows", "stuck_attached", true), engineOf(4, "a", "windows", "detached", false),
		engineOf(5, "a", "software", "", true), engineOf(6, "b", "windows", "detached", true),
	}}
	midnight := time.Unix(1_800_057_600, 0)
	d := New(zap.NewNop(), f, windows.Settings{Every: time.Hour, Budget: 0.01, Shortest: time.Second, Longest: 10 * time.Second}, midnight)
	d.Look(midnight.Add(time.Minute))
	require.Empty(t, f.told)
	d.Look(midnight.Add(59*time.Minute + 59*time.Second))
	require.Len(t, f.told, 3)
	for session, told := range f.told {
		assert.EqualValues(t, midnight.Add(time.Hour).UnixNano(), told[0], session)
		// 36 s of an hour, at 25%, pay for 144 s; the longest is 10 s, and the last of 1, 2, 4, … below it 8 s.
		assert.EqualValues(t, midnight.Add(time.Hour+8*time.Second).UnixNano(), told[1], session)
		assert.Greater(t, told[2], uint64(midnight.UnixNano()))
	}
	assert.Equal(t, f.told[1], f.told[2])
	assert.NotEqual(t, f.told[1][2], f.told[6][2], "windows of two runs are two")

	opened, err := d.Open(midnight.Add(2*time.Hour-time.Minute), "b", 5*time.Second, "asked for")
	require.NoError(t, err)
	require.Len(t, opened, 1)
	assert.Equal(t, "b", opened[0].Run)
	assert.Equal(t, 1, opened[0].Engines)
	assert.EqualValues(t, opened[0].ID, f.told[6][2])
	_, err = d.Open(midnight, "c", time.Second, "asked for")
	assert.ErrorIs(t, err, ErrNone)
}
