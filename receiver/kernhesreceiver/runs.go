package kernhesreceiver

import (
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"

	"iter"
	"time"

	"go.uber.org/zap"

	"github.com/kernhes/kernhes/internal/chunk"
)

// A liveSession is a session that has not ended, as it stands at one time.
type liveSession struct {
	id        uint64
	connected bool
	waits     time.Duration // since its connection ended, if it has none
	open      uint64        // frames that were taken and are not settled
	holds     string        // what rests on the first of them
	reports   []engine.Report
}

// live is the sessions that have not ended.
func (r *kernhesReceiver) live(now time.Time) (sessions []liveSession) {
	for _, s := range r.table.all() {
		s.mu.Lock()
		if !s.over {
			one := liveSession{id: s.id, connected: s.conn != nil, reports: s.reports()}
			notice(one.reports, max(0, now.Sub(s.heard)))
			settled, by := s.engine.Holds()
			one.open, one.holds = s.engine.Received()-settled, by
			if !one.connected {
				one.waits = now.Sub(s.left)
			}
			sessions = append(sessions, one)
		}
		s.mu.Unlock()
	}
	return sessions
}

// ranks goes through the reports of sessions.
func ranks(sessions []liveSession) iter.Seq[*engine.Report] {
	return func(yield func(*engine.Report) bool) {
		for i := range sessions {
			for k := range sessions[i].reports {
				if !yield(&sessions[i].reports[k]) {
					return
				}
			}
		}
	}
}

// quietSteps is how many complete steps of each of two ranks make silence between them telling: the first steps of an engine
// may well warm up each GPU alone.
const quietSteps = 10

// quietRuns are the runs of which several ranks have steps, and no rank was ever seen to communicate: their kernels may have
// names that no rule knows.
func quietRuns(sessions []liveSession) map[string]bool {
	stepping, talking := map[string]map[int64]bool{}, map[string]bool{}
	for r := range ranks(sessions) {
		run := r.Info["run"]
		talking[run] = talking[run] || r.Comm > 0 || r.Copies[chunk.CopyPeers] > 0
		if r.Complete < quietSteps {
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

// A hush knows which runs are quiet, and of which that was said. Whoever holds exporting has it.
type hush struct {
	quiet map[string]bool
	said  map[string]bool // among the runs of live sessions
}

// listen looks at all live sessions, and warns once of each run that is quiet.
func (h *hush) listen(log *zap.Logger, sessions []liveSession) {
	h.quiet = quietRuns(sessions)
	said := map[string]bool{}
	for r := range ranks(sessions) {
		run := r.Info["run"]
		if h.quiet[run] && !h.said[run] && !said[run] {
			log.Warn("several ranks run, and no communication was ever seen: kernels may have names that no rule knows",
				zap.String("run", run))
			said[run] = true
		}
		said[run] = said[run] || h.said[run]
	}
	h.said = said
}
