package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/sim"
)

// stallOf is where a rank stands when the last of its frames has come.
func stallOf(t *testing.T, frames [][]byte) (s *Stall) {
	t.Helper()
	n := 0
	_, _, err := play(frames, func(p *Process) {
		if n++; n%100 == 0 || n > len(frames)-4 {
			s = p.Reports()[0].Stall
		}
	})
	require.NoError(t, err)
	return s
}

// Of ranks that wait for one that hangs, each says where it stands, within seconds: in a call of communication, or in a kernel of its
// own.
func TestAStalledRankSaysWhereItStands(t *testing.T) {
	for _, at := range []string{"200ms", "300ms", "900ms"} { // in a prefill that is launched kernel by kernel; in graphs
		t.Run(at, func(t *testing.T) {
			got := simulate(t, func(c *sim.Config) { c.Steps, c.Duration = 400, 8*time.Second }, "hang:rank=2,at="+at)
			for rank, frames := range got.frames {
				s := stallOf(t, frames)
				require.NotNil(t, s, "rank %d", rank)
				require.Greater(t, s.NS, uint64(stalledAfter))
				if rank == 2 {
					require.Equal(t, AtKernel, s.At, "%+v", s)
				} else {
					require.Equal(t, AtComm, s.At, "rank %d: %+v", rank, s)
					require.Contains(t, s.Call, "experts")
				}
			}
		})
	}
}

// Where a rank leaves out a collective, all wait in calls of communication, and that rank in another than the others.
func TestARankThatSkipsACollectiveWaitsElsewhere(t *testing.T) {
	got := simulate(t, func(c *sim.Config) { c.Steps, c.Duration = 400, 8*time.Second }, "skipped_collective:rank=1,at=900ms")
	calls := map[string][]int{}
	for rank, frames := range got.frames {
		s := stallOf(t, frames)
		require.NotNil(t, s, "rank %d", rank)
		require.Equal(t, AtComm, s.At, "%+v", s)
		calls[s.Call[len("prefill"):]] = append(calls[s.Call[len("prefill"):]], rank)
	}
	require.Len(t, calls, 2, "%v", calls)
	for _, ranks := range calls {
		require.True(t, len(ranks) == 3 || ranks[0] == 1, "%v", calls)
	}
}

// Ranks that do nothing because there is nothing to do stand at their host.
func TestAnIdleRankStandsAtItsHost(t *testing.T) {
	got := simulate(t, func(c *sim.Config) { c.Steps, c.Duration, c.Load.Rate, c.Load.Burst = 0, 30*time.Second, 0.2, 0 })
	if s := stallOf(t, got.frames[0][:len(got.frames[0])-1]); s != nil { // without BYE
		require.Equal(t, AtHost, s.At)
	}
}
