package engine

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/identity"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/nccl"
)

// settleTime is how long after its first record, by the engine's clock, a process without a final step is settled anyway, ns.
// Nothing of it is exported before: evidence such as NCCL's world communicator comes while the engine starts.
const settleTime = 30e9

// maxUnsettled is how many kernels outside any step, of a device, wait for that; more settle the process.
const maxUnsettled = 1 << 16

// noRank is the rank of a device on which the process runs no step while it runs steps on others.
const NoRank = -1

// A who is what a process turned out to be. It is settled once, before anything of it is exported:
//
//	unsettled ──first final step, settleTime after the first record, too much to hold, or the end──▶ settled
type who struct {
	evidence map[string]string // HELLO's pairs, as INFO changed them
	first    uint64            // engine's clock at the first record, unix ns; 0: none came
	settled  bool
	name     identity.Name
	rank     identity.Rank  // of the first device with steps, where more than the device says it
	ranked   bool           // rank is known
	again    bool           // the name was used before
	stepping []*deviceState // devices with steps, in the order of their ranks
	guessed  bool           // stepping is a guess: no step was seen yet
	texts    map[int64]rankOwner
	foreign  uint64 // ranks that are another process's
	late     uint64 // times that evidence came too late

	lateWorld bool // NCCL's came late
	follower  *nccl.Follower
}

// identify takes evidence from HELLO or INFO. The run in p.info is the settled one.
func (p *Process) identify(info map[string]string) {
	for key, value := range info {
		p.who.evidence[key] = value
		if key != "run" && key != "rank" {
			p.info[key] = value
		}
	}
}

// claimed is what the process calls its start.
func (w *who) claimed() string {
	if w.settled {
		return w.name.Text
	}
	return identity.NameOf(w.evidence, w.world()).Text
}

// world is NCCL's world communicator, as far as it is known.
func (w *who) world() identity.World {
	world := w.follower.World()
	if !world.OK {
		return identity.World{}
	}
	return identity.World{Comm: world.CommID, Rank: int64(world.Rank), Ranks: int64(world.Ranks)}
}

// worldRank is the rank of a device in it.
func (w *who) worldRank(device uint16) (int64, bool) {
	rank, ok := w.follower.RankOf(int(device))
	return int64(rank), ok
}

// recorded takes note that a record came.
func (p *Process) recorded() {
	if p.who.first == 0 {
		p.who.first = p.clock()
	}
}

// overdue reports whether the process has to be settled now.
func (p *Process) overdue() bool {
	if p.who.settled || p.who.first == 0 {
		return false
	}
	if p.clock() > p.who.first+settleTime {
		return true
	}
	return slices.ContainsFunc(p.devices, func(d *deviceState) bool {
		waits := d.packed.unattributed
		return waits != nil && len(waits.Recorded().Spans) > maxUnsettled
	})
}

// settle decides the run of the process and the ranks of its devices.
func (p *Process) settle() {
	w := &p.who
	if w.settled || len(p.devices) == 0 && !p.accountEnded {
		return
	}
	w.settled = true
	world := p.world()
	w.name = identity.NameOf(w.evidence, world)
	w.rank, w.ranked = identity.RankOf(w.evidence, world, p.set.starts.Inherited(p.session))
	w.stepping = p.withSteps()
	if w.guessed = len(w.stepping) == 0; w.guessed && len(p.devices) > 0 {
		w.stepping = []*deviceState{slices.MaxFunc(p.devices, func(a, b *deviceState) int { return cmp.Compare(a.kernels, b.kernels) })}
	}
	claim := identity.Claim{Session: p.session, Name: w.name, World: world, Host: w.evidence["host"], Started: p.started(), Guess: w.guessed}
	for i, d := range w.stepping {
		claim.Wants = append(claim.Wants, p.want(d, i))
	}
	if len(p.devices) == 0 { // it ends without a record, and claims nothing
		p.info["run"] = w.name.Text
		return
	}
	joined, err := p.set.starts.Join(claim)
	p.rememberFailed(err)
	p.info["run"], w.again = joined.Run, joined.Again
	w.foreign += joined.Live
	for _, d := range p.devices {
		d.rank = NoRank
	}
	for i, d := range w.stepping {
		if d.rank = joined.Ranks[i]; !w.guessed { // a guess holds no rank
			p.holdsRank(d.rank, d, joined.Own[i])
		}
	}
	p.renamed()
	p.notice(LevelInfo, "engine process has a run and ranks", Pair{"session", SessionName(p.session)}, Pair{"pid", p.info["pid"]},
		Pair{"run", joined.Run}, Pair{"run_from", w.name.From}, Pair{"name_used_again", joined.Again},
		Pair{"ranks", joined.Ranks}, Pair{"rank_from", p.rankFrom()})
}

// started is when the process started, or when it was first heard.
func (p *Process) started() time.Time {
	if ns, err := strconv.ParseInt(p.info["process_start"], 10, 64); err == nil && ns > 0 {
		return time.Unix(0, ns)
	}
	return time.Unix(0, int64(p.since))
}

// runFrom is the evidence for the run, for people; "": it is not settled.
func (w *who) runFrom() string {
	from := w.name.From
	switch {
	case !w.settled:
		return ""
	case w.name.Local:
		from += "; ranks on other hosts do not join"
	}
	if w.again {
		from += "; the name was used before"
	}
	return from
}

// lateWorld takes note of a world communicator that would have given another run or rank.
func (p *Process) lateWorld() {
	w := &p.who
	if !w.settled || w.lateWorld {
		return
	}
	name := identity.NameOf(w.evidence, p.world())
	rank, ranked := identity.RankOf(w.evidence, p.world(), false)
	if name.From != identity.FromNCCL && rank.From != identity.FromNCCL || name.Text == w.name.Text && ranked == w.ranked && rank.N == w.rank.N {
		return
	}
	w.lateWorld = true
	w.late++
	p.notice(LevelWarn, "NCCL's world communicator came after the run and the ranks were settled, and does not count",
		Pair{"session", SessionName(p.session)}, Pair{"run", p.info["run"]}, Pair{"settled_by", w.name.From},
		Pair{"late_name", name.Text}, Pair{"late_rank", rank.N})
}

func (w *who) rankFrom() string {
	if w.ranked {
		return w.rank.From
	}
	return identity.FromDevice
}

func (p *Process) rememberFailed(err error) {
	if err != nil {
		p.notice(LevelError, "runs are not remembered over a restart of the collector", Pair{"error", err})
	}
}

// withSteps are the devices with kernels of steps, in order of their ids.
func (p *Process) withSteps() (with []*deviceState) {
	for _, d := range p.devices {
		if len(d.closed) > 0 || p.steps.Any(d.id) {
			with = append(with, d)
		}
	}
	return with
}

// want is the rank of the device that is the nth with steps.
func (w *who) want(d *deviceState, n int) identity.Want {
	if len(d.closed) > 0 {
		if rank, ok := givenRank(d.closed[0]); ok {
			return identity.Want{Rank: rank}
		}
	}
	if rank, ok := w.worldRank(d.id); ok && w.rank.From == identity.FromNCCL {
		return identity.Want{Rank: rank}
	}
	if w.ranked {
		return identity.Want{Rank: w.rank.N + int64(n)}
	}
	if rank, ok := identity.Place(w.evidence, d.id); ok {
		return identity.Want{Rank: rank}
	}
	return identity.Want{Any: true, Device: identity.Device(w.evidence, d.id)}
}

// hold claims the rank that the process guessed, for the device that has its first step.
func (p *Process) hold(d *deviceState) {
	want := p.want(d, 0)
	if !want.Any {
		want.Rank = d.rank // as it was settled
	}
	rank, own, err := p.set.starts.Own(p.session, want)
	p.rememberFailed(err)
	d.rank = rank
	p.holdsRank(rank, d, own)
}

// stepped takes note that a device has a step that is final: a device that had none before gets a rank now.
func (p *Process) stepped(d *deviceState) {
	w := &p.who
	if slices.Contains(w.stepping, d) {
		if w.guessed && d == w.stepping[0] { // the guess was right
			w.guessed = false
			p.hold(d)
		}
		return
	}
	if w.guessed { // the guess was wrong: the rank goes to the device with steps
		was := w.stepping[0]
		w.stepping[0], w.guessed, w.late = d, false, w.late+1
		d.rank, was.rank = was.rank, NoRank
		p.hold(d)
		p.renamed()
		return
	}
	want := p.want(d, len(w.stepping))
	w.stepping = append(w.stepping, d)
	rank, own, err := p.set.starts.Own(p.session, want)
	p.rememberFailed(err)
	d.rank = rank
	p.holdsRank(rank, d, own)
	d.source, d.packed.stale = nil, true
}
