// Package fleet turns the reports of all live sessions into what spans the ranks of a run.
package fleet

import (
	"cmp"
	"iter"
	"time"

	"go.uber.org/zap"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/runname"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
)

// A Session is a session that has not ended, as it stands at one time.
type Session struct {
	ID         uint64
	Connected  bool
	Waits      time.Duration // since its connection ended, if it has none
	OpenFrames uint64        // frames that were taken and are not settled
	HeldBy     string        // what rests on the first of them
	Reports    []engine.Report
}

// ranks goes through the reports of sessions.
func ranks(sessions []Session) iter.Seq[*engine.Report] {
	return func(yield func(*engine.Report) bool) {
		for i := range sessions {
			for k := range sessions[i].Reports {
				if !yield(&sessions[i].Reports[k]) {
					return
				}
			}
		}
	}
}

// StepsForSilence is how many complete steps of each of two ranks make silence between them telling: the first steps of an engine
// may well warm up each GPU alone.
const StepsForSilence = 10

// SilentRuns are the runs of which several ranks have steps, and no rank was ever seen to communicate: their kernels may have
// names that no rule knows.
func SilentRuns(sessions []Session) map[string]bool {
	stepping, talking := map[string]map[int64]bool{}, map[string]bool{}
	for r := range ranks(sessions) {
		run := r.Info["run"]
		talking[run] = talking[run] || r.Comm > 0 || r.Copies[chunk.CopyPeers] > 0
		if r.Complete < StepsForSilence {
			continue
		}
		if stepping[run] == nil {
			stepping[run] = map[int64]bool{}
		}
		stepping[run][r.Rank] = true
	}
	quiet := map[string]bool{}
	for run, ranks := range stepping {
		if len(ranks) > 1 && !talking[run] {
			quiet[run] = true
		}
	}
	return quiet
}

// A CommSilence knows which runs are quiet, and which of these were logged. The holder of exporting has it.
type CommSilence struct {
	Runs   map[string]bool
	warned map[string]bool // among the runs of live sessions
}

// Check looks at all live sessions, and warns once of each run that is quiet.
func (h *CommSilence) Check(log *zap.Logger, sessions []Session) {
	h.Runs = SilentRuns(sessions)
	said := map[string]bool{}
	for r := range ranks(sessions) {
		run := r.Info["run"]
		if h.Runs[run] && !h.warned[run] && !said[run] {
			log.Warn("several ranks run, and no kernel counts as communication: set class_table if their names match no rule",
				zap.String("run", run))
			said[run] = true
		}
		said[run] = said[run] || h.warned[run]
	}
	h.warned = said
}

// Conflicts counts the connected ranks that claim to be what another one claims to be.
func Conflicts(sessions []Session) (n uint64) {
	claims := map[string]uint64{}
	for _, s := range sessions {
		for i := range s.Reports {
			if r := &s.Reports[i]; s.Connected && !r.Unplaced && !r.Guessed && r.Rank != engine.NoRank {
				claims[r.ClaimRank()]++
			}
		}
	}
	for _, c := range claims {
		if c > 1 {
			n += c
		}
	}
	return n
}

// An Standing engine is a live process as requests see it.
type Standing struct {
	Session   uint64
	Connected bool
	engine.Standing
}

// OfRun reports whether a process is of a run that a person asks for. One that is not settled has only the name that it claims.
func (s *Standing) OfRun(run string) bool { return runname.Is(cmp.Or(s.Run, s.Claims), run) }
