package kernwaitsconnector

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/cause"
	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/pairing"
	"github.com/kernhes/kernhes/internal/sim"
	"github.com/kernhes/kernhes/internal/sim/program"
)

// The drill that was recorded: before every fourth decode step of round 2, a matrix product ran on rank 1's GPU.
func TestTheRecordedDrillBlamesRank1(t *testing.T) {
	chunks := tp2(t, nil)
	c := compared(t, nil, chunks[0], chunks[1])
	run := c.only(t)
	for rank := range int64(2) {
		require.Equal(t, [pairing.Outcomes]uint64{pairing.Compared: 189 * 72}, run.ledger.Rank(rank).Calls)
	}
	zero, one := totals(run, 0), totals(run, 1)
	t.Log(zero, one)
	require.Equal(t, zero.Wait, one.Blame)
	require.Equal(t, one.Wait, zero.Blame)
	// 15 steps of rank 0 wait some 1.45 ms each for what was foreign on rank 1.
	require.InDelta(t, 15*1.45e6, zero.Wait[cause.Foreign], 1.5e6)
	require.Zero(t, one.Wait[cause.Foreign])
}

func TestSimulatedWaitsAreTheTruth(t *testing.T) {
	for _, layout := range program.Layouts() {
		t.Run(layout.Name, func(t *testing.T) {
			s := simulate(t, layout, nil, func(c *sim.Config) { c.Load.Mixed = true })
			c := compared(t, nil, s.chunks...)
			run := c.only(t)
			for rank, want := range s.wanted(layout.Ranks()) {
				got := totals(run, int64(rank))
				t.Log(rank, run.ledger.Rank(int64(rank)).Calls, got)
				require.Equal(t, want.Meetings, got.Meetings)
				require.Equal(t, want.Transfer, got.Transfer)
				require.Equal(t, all(want.Wait), all(got.Wait))
				require.Equal(t, all(want.Blame), all(got.Blame))
				require.Equal(t, want.Last, got.Last)
			}
		})
	}
}
