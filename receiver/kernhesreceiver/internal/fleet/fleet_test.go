package fleet

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
)

// rankOfRun is a session of one rank of a run, after some complete steps and comm kernels.
func rankOfRun(run string, rank int64, steps, comm uint64) Session {
	return Session{Reports: []engine.Report{{Info: map[string]string{"run": run}, Rank: rank, Complete: steps, Comm: comm}}}
}

func TestQuietRuns(t *testing.T) {
	check := func(what string, want bool, sessions ...Session) {
		t.Helper()
		assert.Equal(t, want, SilentRuns(sessions)["r"], what)
	}
	check("two ranks that step and say nothing", true, rankOfRun("r", 0, StepsForSilence, 0), rankOfRun("r", 1, StepsForSilence, 0))
	check("one of them communicates", false, rankOfRun("r", 0, 99, 0), rankOfRun("r", 1, 99, 1))
	check("the second has hardly begun", false, rankOfRun("r", 0, 99, 0), rankOfRun("r", 1, StepsForSilence-1, 0))
	check("a third that has hardly begun communicates", false, rankOfRun("r", 0, 99, 0), rankOfRun("r", 1, 99, 0), rankOfRun("r", 2, 0, 1))
	check("one rank", false, rankOfRun("r", 0, 99, 0))
	check("one rank in two sessions", false, rankOfRun("r", 0, 99, 0), rankOfRun("r", 0, 99, 0))
	check("one rank each of two runs", false, rankOfRun("r", 0, 99, 0), rankOfRun("s", 1, 99, 0))
	check("another run communicates", true, rankOfRun("r", 0, 99, 0), rankOfRun("r", 1, 99, 0), rankOfRun("s", 0, 99, 5))
	copies := rankOfRun("r", 1, 99, 0)
	copies.Reports[0].Copies = map[string]uint64{chunk.CopyPeers: 1}
	check("they copy to each other", false, rankOfRun("r", 0, 99, 0), copies)
}

// A run is warned of once, whatever it does after that; the gauge follows it.
func TestHushWarnsOnce(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	var h CommSilence
	check := func(quiet bool, warnings int, sessions ...Session) {
		t.Helper()
		h.Check(zap.New(core), sessions)
		require.Equal(t, quiet, h.Runs["r"])
		require.Equal(t, warnings, logs.FilterField(zap.String("run", "r")).Len())
	}
	zero, one, talking := rankOfRun("r", 0, 99, 0), rankOfRun("r", 1, 99, 0), rankOfRun("r", 1, 99, 7)
	check(false, 0, rankOfRun("r", 0, 1, 0), rankOfRun("r", 1, 1, 0))
	check(true, 1, zero, one)
	check(true, 1, zero, one)
	check(false, 1, zero, talking)
	check(false, 1, zero)
	check(true, 1, zero, one)
	h.Check(zap.New(core), nil)
	require.Empty(t, h.warned, "nothing is kept of runs that have ended")
}
