package control

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/coverage"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/fleet"
)

// TestTheStatusIsBounded: 256 hostile sessions with all devices and long texts leave it within 16 MB, and a good engine of 16 ranks whole.
func TestTheStatusIsBounded(t *testing.T) {
	long := strings.Repeat("x", 4096)
	names := make([]coverage.Named, 10)
	for i := range names {
		names[i].Name, names[i].NS, names[i].Kernels = long, 1, 1
	}
	session := func(id uint64, ranks int, run string) fleet.Session {
		s := fleet.Session{ID: id, Connected: true}
		for i := range ranks {
			r := engine.Report{Info: map[string]string{"run": run, "pid": "7", "host": long, "model": long}, Rank: int64(i), Device: i}
			r.Coverage.Defaulted, r.Coverage.Unlabelled = names, names
			r.Coverage.By[0].NS, r.Coverage.By[0].Kernels = 1, 1
			s.Reports = append(s.Reports, r)
		}
		return s
	}
	sessions := []fleet.Session{session(1, 4, "a good one")}
	for i := range uint64(255) {
		sessions = append(sessions, session(2+i, 64, "hostile"+long))
	}
	status := NewStatus(time.Now(), Receiver{}, sessions)
	text, err := json.Marshal(status)
	require.NoError(t, err)
	assert.Less(t, len(text), 16<<20)
	require.Len(t, status.Sessions, 256)
	assert.LessOrEqual(t, len(status.Problems), maxStatusProblems+1)
	listed := 0
	for _, s := range status.Sessions {
		listed += len(s.Ranks)
	}
	assert.LessOrEqual(t, listed, maxStatusRanks)
	assert.Equal(t, 4+255*64, listed+status.LeftOut)

	few := NewStatus(time.Now(), Receiver{}, []fleet.Session{session(1, 16, "a good one"), session(2, 64, "another")})
	assert.Zero(t, few.LeftOut)
}
