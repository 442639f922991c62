package fleet

import (
	"strings"

	"go.uber.org/zap"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
)

// A Why is why a run stands still because of a rank.
type Why string

// Whys are all of them, as kern_rank_blocks_run has them.
var Whys = []Why{OwnKernel, OwnHost, OtherCall}

// Why a run stands still because of a rank.
const (
	OwnKernel Why = "kernel"     // a kernel of its own does not end, while others wait for it
	OwnHost   Why = "host"       // it launches nothing, while others wait for it
	OtherCall Why = "other_call" // it waits in another call than most
)

// A Blocker is a rank because of which its run stands still.
type Blocker struct {
	Run   string
	Rank  int64
	Why   Why
	Call  string // that it stands at; empty: not known
	Waits string // the call that most others wait in; empty: none does
}

// Blockers are the ranks of all runs because of which others wait. Where a process ended or is silent, that is why its run stands
// still, and no other rank is named.
func Blockers(sessions []Session) (all []Blocker) {
	byRun := map[string][]*engine.Report{}
	var runs []string
	for r := range ranks(sessions) {
		run := r.Info["run"]
		if byRun[run] == nil {
			runs = append(runs, run)
		}
		byRun[run] = append(byRun[run], r)
	}
	for _, run := range runs {
		all = append(all, blockersOf(run, byRun[run])...)
	}
	return all
}

func blockersOf(run string, reports []*engine.Report) (all []Blocker) {
	waiting := map[string]int{} // ranks, by the call they wait in, without its program
	for _, r := range reports {
		if r.Down == Silent || r.Down == Gone {
			return nil
		}
		if r.Stall != nil && r.Stall.At == engine.AtComm {
			waiting[tail(r.Stall.Call)]++
		}
	}
	most := ""
	for call, n := range waiting {
		if n > waiting[most] || n == waiting[most] && call < most {
			most = call
		}
	}
	block := func(r *engine.Report, why Why) {
		all = append(all, Blocker{Run: run, Rank: r.Rank, Why: why, Call: r.Stall.Call, Waits: most})
	}
	for _, r := range reports {
		if r.Stall == nil {
			continue
		}
		switch {
		case r.Stall.At == engine.AtKernel:
			block(r, OwnKernel)
		case r.Stall.At == engine.AtHost && len(waiting) > 0:
			block(r, OwnHost)
		}
	}
	if len(all) > 0 || len(waiting) < 2 {
		return all // else all wait in one call: for a rank that is not here, or the link
	}
	for _, r := range reports {
		if r.Stall != nil && r.Stall.At == engine.AtComm && waiting[tail(r.Stall.Call)] < waiting[most] {
			block(r, OtherCall)
		}
	}
	return all
}

// tail is a label without its first word, which names the program in some engines.
func tail(call string) string {
	if _, rest, ok := strings.Cut(call, "."); ok {
		return rest
	}
	return call
}

// A Blocked knows which ranks block their runs, and which of these were logged. The holder of exporting has it.
type Blocked struct {
	now map[blockerKey]Blocker
}

type blockerKey struct {
	run  string
	rank int64
}

// Check looks at all live sessions, and warns once of each rank that blocks its run.
func (b *Blocked) Check(log *zap.Logger, sessions []Session) {
	now := map[blockerKey]Blocker{}
	for _, one := range Blockers(sessions) {
		key := blockerKey{one.Run, one.Rank}
		now[key] = one
		if _, said := b.now[key]; !said {
			log.Warn("a rank blocks its run", zap.String("run", one.Run), zap.Int64("rank", one.Rank), zap.String("why", string(one.Why)),
				zap.String("call", one.Call), zap.String("others_wait_in", one.Waits))
		}
	}
	b.now = now
}

// Why is why a rank blocks its run; empty: it does not.
func (b *Blocked) Why(r *engine.Report) Why { return b.now[blockerKey{r.Info["run"], r.Rank}].Why }
