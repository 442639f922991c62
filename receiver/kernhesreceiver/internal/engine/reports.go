package engine

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/step"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/wall"
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
func (p *Process) stepRank(d *deviceState, s *step.Step) int64 {
	if rank, ok := givenRank(s); ok {
		return rank
	}
	return d.rank
}

// reports copies the totals of each device; those of the process as a whole are in that of the device which
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
	first.Stats = maps.Clone(p.stats)
	first.Late = p.who.late
	first.NCCL = p.ncclLine()
	return reports
}

// ncclLine is what NCCL said of the process; nil if it said nothing.
func (p *Process) ncclLine() *NCCLReport {
	c := p.nccl.Counts
	if c.Payloads == 0 {
		return nil
	}
	w := p.nccl.World()
	if !w.OK {
		w.Rank, w.Device = -1, -1
	}
	return &NCCLReport{
		Comm: SessionName(w.CommID), Rank: w.Rank, Ranks: w.Ranks, Device: w.Device,
		Open: p.nccl.Open(), Payloads: c.Payloads, Unread: c.Unread,
	}
}

// maxListed is how many texts of ranges a report lists.
const maxListed = 10

// hungAfter is how long an engine does nothing while kernels that it launched do not come, before it counts as hung, ns. A prefill
// of a million tokens takes less.
const hungAfter = 30e9

// idle is how long the engine did nothing, ns.
func (p *Process) idle() uint64 { return max(p.now, p.active) - p.active }

// hung reports whether the engine does nothing while kernels that it launched do not come, as when ranks wait for one another.
func (p *Process) hung() bool {
	return !p.accountEnded && !p.untraced && p.idle() >= hungAfter && (p.stuck || p.names.Stalled())
}

func (p *Process) report(d *deviceState) Report {
	t := d.account.Time()
	counts := p.counts(d)
	r := Report{
		Info: maps.Clone(p.info), Claims: p.claimed(), RunFrom: p.runFrom(), RankFrom: p.rankFrom(),
		Mode: p.mode, Tracing: !p.untraced, Hung: p.hung(), Stall: p.stall(d), Rank: d.rank, Device: int(d.id),
		SinceNS: p.since, NowNS: p.now, FirstNS: t.First, LastNS: d.lastKernelEnd, WatermarkNS: t.Watermark, LastStepNS: d.lastStep,
		ComputeNS: t.Compute, CommNS: t.Comm, IdleNS: t.Idle, UnknownNS: t.Unknown,
		OverlapNS: t.Overlapped, CopyNS: t.Copy, CUPTINS: d.taken.in(p.mode, d.kernels).cost,
		Counts: counts, Kernels: d.kernels, Pending: counts[books.KernelsPending], Comm: d.commKernels, Called: d.kernelsWithCall,
		Became:  d.became,
		Invalid: maps.Clone(d.invalid), Copies: maps.Clone(d.copies),
		Coverage: d.coverage.Report(coverNames), Complete: d.complete, Incomplete: maps.Clone(d.failed), Dropped: p.losses(d), Readable: p.readable,
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

// A seriesKey is the labels of a step's metrics.
type seriesKey struct{ program, batch, kv string }

// overflow is the label set of what came when all others were taken.
var overflow = seriesKey{"other", "other", "other"}

// maxProgram is the longest program name that is a label, in bytes.
const maxProgram = 64

// labels are the labels of a step's metrics.
func (p *Process) labels(s *step.Step) seriesKey {
	seqs := max(s.Seqs, 1)
	tokens := cmp.Or(s.Tokens, s.Seqs)
	key := seriesKey{s.Program, p.set.buckets.batch.label(tokens), p.set.buckets.kv.label((s.KV + seqs - 1) / seqs)}
	if len(key.program) > maxProgram {
		key.program = strings.ToValidUTF8(key.program[:maxProgram], "") // a character may be cut in two
	}
	return key
}

// seriesOf is the series that a step counts in.
func (p *Process) seriesOf(d *deviceState, s *step.Step) *SeriesReport {
	key := p.labels(s)
	if d.series[key] == nil && len(d.series) >= p.set.maxSeries {
		key = overflow
		p.overflowed++
	}
	r := d.series[key]
	if r == nil {
		r = &SeriesReport{Program: key.program, Batch: key.batch, KV: key.kv, Wall: wall.Counts{Layout: p.set.wall}}
		d.series[key] = r
	}
	return r
}

// add counts a complete step.
func (s *SeriesReport) add(t *step.Step) {
	s.Steps++
	s.ComputeNS += t.Compute
	s.CommNS += t.ExposedComm
	s.ForeignNS += t.Foreign
	s.AddWall(t.Wall())
}

// buckets are the edges of the labels batch and kv.
type buckets struct{ batch, kv bucketing }

// A bucketing is inclusive upper bounds in ascending order, with their texts.
type bucketing struct {
	edges []int64
	texts []string
}

func newBuckets(batch, kv []int64) buckets { return buckets{newBucketing(batch), newBucketing(kv)} }

func newBucketing(edges []int64) bucketing {
	b := bucketing{edges: edges}
	for _, e := range edges {
		b.texts = append(b.texts, strconv.FormatInt(e, 10))
	}
	b.texts = append(b.texts, "+Inf")
	return b
}

// label is the bucket of n: `unknown` for 0, which stands for what was not given.
func (b *bucketing) label(n int64) string {
	if n == 0 {
		return "unknown"
	}
	i, _ := slices.BinarySearch(b.edges, n)
	return b.texts[i]
}
