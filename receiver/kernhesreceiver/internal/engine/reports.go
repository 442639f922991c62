package engine

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/nccl"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/pace"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/step"
)

// givenRank is the rank that a step's text gives.
func givenRank(s *step.Step) (int64, bool) {
	return parseRank(s.Rank)
}

// parseRank reads a rank; false: it is none.
func parseRank(text string) (int64, bool) {
	rank, err := strconv.ParseInt(text, 10, 64)
	return rank, err == nil && rank >= 0
}

// stepRank is the rank of a step: what its text gives, else its device's.
func (d *deviceState) stepRank(s *step.Step) int64 {
	if rank, ok := givenRank(s); ok {
		return rank
	}
	return d.rank
}

// Reports copies the totals of each device; those of the process as a whole are in that of the device which
// was seen first.
func (p *Process) Reports() []Report {
	reports := make([]Report, max(1, len(p.devices)))
	if len(p.devices) == 0 {
		reports[0] = p.report(&deviceState{}) // no kernel has shown which device it is
		reports[0].Unplaced = !p.accountEnded && p.info["mode"] != "off"
	}
	for i, d := range p.devices {
		reports[i] = p.report(d)
		reports[i].Unplaced = !p.who.settled
		reports[i].Guessed = p.who.guessed
	}
	first := &reports[max(0, slices.Index(p.devices, p.main))]
	c := p.names.Counts
	first.Whole = true
	first.Launches = LaunchCounts{All: c.Launches, Captured: c.Captured, Unfulfilled: c.Unfulfilled, Unchecked: c.Unchecked}
	first.StepRanges = p.ranges.Counts.Steps + uint64(p.graphMode.next)
	first.Missing = p.missing
	first.Mismatches = p.mismatches
	first.Limited = p.limitedByName()
	first.Ranges = &RangesReport{
		Counts: p.ranges.Counts, Open: p.ranges.Open(), Leaks: p.ranges.Leaks(maxListed), Unmatched: p.ranges.Unmatched(maxListed),
	}
	first.Stats = maps.Clone(p.shim.stats)
	first.Late = p.who.late
	first.Windows = p.windowsReport()
	first.Pace = p.pace.Series()
	slices.SortFunc(first.Pace, func(a, b pace.Series) int {
		return cmp.Or(cmp.Compare(a.Program, b.Program), cmp.Compare(a.Batch, b.Batch), cmp.Compare(a.KV, b.KV))
	})
	first.Places = p.placeReports()
	first.Empty = p.steps.Empty
	first.NCCL = ncclReport(p.nccl)
	return reports
}

// ncclReport is what NCCL's payloads told of the process; nil if none came.
func ncclReport(of *nccl.Follower) *NCCLReport {
	c := of.Counts
	if c.Payloads == 0 {
		return nil
	}
	w := of.World()
	if !w.OK {
		w.Rank, w.Device = -1, -1
	}
	return &NCCLReport{
		Comm: SessionName(w.CommID), Rank: w.Rank, Ranks: w.Ranks, Device: w.Device,
		Open: of.Open(), Payloads: c.Payloads, Unread: c.Unread,
	}
}

// maxListed is how many texts of ranges a report lists.
const maxListed = 10

// hungAfter is how long an engine does nothing while kernels that it launched do not come, before it counts as hung, ns. A prefill
// of a million tokens takes less.
const hungAfter = 30e9

// hung reports whether the engine does nothing while kernels that it launched do not come, as when ranks wait for one another.
func (p *Process) hung() bool {
	return !p.accountEnded && p.traces.on() && p.idle() >= hungAfter && (p.stuck || p.names.Stalled())
}

func (p *Process) report(d *deviceState) Report {
	t := d.account.Time()
	counts := p.counts(d)
	r := Report{
		Info: maps.Clone(p.info), Claims: p.claimed(), RunFrom: p.runFrom(), RankFrom: p.rankFrom(),
		Mode: p.mode, Tracing: p.traces.on(), Hung: p.hung(), Stall: p.stall(d), Rank: d.rank, Device: int(d.id),
		SinceNS: p.since, NowNS: p.now, FirstNS: t.First, LastNS: d.lastKernelEnd, WatermarkNS: t.Watermark, LastStepNS: d.lastStep,
		ComputeNS: t.Compute, CommNS: t.Comm, IdleNS: t.Idle, UnknownNS: t.Unknown, UnknownByNS: t.UnknownBy,
		OverlapNS: t.Overlapped, CopyNS: t.Copy, CUPTINS: d.taken.in(p.mode, d.kernels).cost,
		Counts: counts, Kernels: d.kernels, Pending: counts[books.KernelsPending], Comm: d.commKernels, Called: d.kernelsWithCall,
		Became:  d.became,
		Invalid: maps.Clone(d.invalid), Copies: maps.Clone(d.copies),
		Coverage: d.coverage.Report(coverNames), Complete: d.complete, Untraced: d.untraced, Overlong: d.overlong, Incomplete: maps.Clone(d.failed), Dropped: p.losses(d), Readable: p.readable,
	}
	for _, s := range d.series {
		one := *s
		one.Wall = s.Wall.Clone()
		r.Series = append(r.Series, one)
	}
	slices.SortFunc(r.Series, func(a, b SeriesReport) int {
		return cmp.Or(cmp.Compare(a.Program, b.Program), cmp.Compare(a.Batch, b.Batch), cmp.Compare(a.KV, b.KV))
	})
	return r
}
