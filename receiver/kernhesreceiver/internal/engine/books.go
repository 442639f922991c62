package engine

import (
	"maps"
	"slices"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/cupti"
)

// invalidReasons are the reasons of timestamps that cannot be believed.
var InvalidReasons = [...]string{
	cupti.Zero: books.ZeroTimestamp, cupti.Backward: books.BackwardTimestamp, cupti.TooLong: books.TooLong, cupti.Future: books.FutureTimestamp,
	cupti.BeforeLaunch: books.BeforeLaunch,
}

// records is a number of kernels, and one of copies and memsets.
type records struct{ kernels, copies uint64 }

func (r *records) add(o records) { r.kernels += o.kernels; r.copies += o.copies }
func (r *records) sub(o records) { r.kernels -= o.kernels; r.copies -= o.copies }

// A shimBook holds what the shim has seen of one kind of record against what came. STATS and BYE have a number of their
// own among the frames, so what the shim had seen lies in the frames before.
type shimBook struct {
	heard uint64 // came, until now
	lost  uint64 // of frames that the shim dropped, by LOST, until now

	measured bool // the shim has sent what it saw
	gap      bool // frames are missing since then

	// As the shim sent it last:
	seen      uint64
	heardThen uint64
	lostThen  uint64
	missing   uint64 // lay in frames that did not come, and no LOST has told of them yet
	elsewhere uint64 // came, or were lost, before the session was joined
}

// saw takes what the shim has seen up to here. joined says that it was heard before: the first time, what is more than came
// is the earlier collector's.
func (b *shimBook) saw(seen uint64, joined bool) {
	more := int64(seen - b.heard - b.lost - b.missing - b.elsewhere)
	switch {
	case more <= 0:
	case !b.measured && joined:
		b.elsewhere += uint64(more)
	case b.gap:
		b.missing += uint64(more)
	}
	b.measured, b.gap = true, false
	b.seen, b.heardThen, b.lostThen = seen, b.heard, b.lost
}

// told takes a LOST of records that the shim had seen: they are no longer missing.
func (b *shimBook) told(n uint64) {
	b.lost += n
	missing := min(n, b.missing)
	elsewhere := min(n-missing, b.elsewhere)
	b.missing -= missing
	b.elsewhere -= elsewhere
	b.lostThen += missing + elsewhere
}

// shimBooks are of kernels, and of copies and memsets.
type shimBooks struct {
	kernels, copies shimBook
	stats           map[uint32]uint64 // as STATS had them last
}

// saw takes STATS or BYE.
func (b *shimBooks) saw(kernels, copies uint64, joined bool) {
	b.kernels.saw(kernels, joined)
	b.copies.saw(copies, joined)
}

// told takes a LOST of the shim's buffer.
func (b *shimBooks) told(what uint32, n uint64) {
	switch what {
	case wire.LostKernels:
		b.kernels.told(n)
	case wire.LostCopies:
		b.copies.told(n)
	}
}

// tookStats takes a STATS frame. joined says that the session was joined after it began.
func (b *shimBooks) tookStats(body []byte, joined bool) error {
	err := wire.Stats(body, func(key uint32, value uint64) {
		if key <= wire.StatLast {
			b.stats[key] = value
		}
	})
	kernels, ok := b.stats[wire.StatKernels]
	if err == nil && ok {
		b.saw(kernels, b.stats[wire.StatCopies], joined)
	}
	return err
}

// tookBye takes a BYE frame; joined is as for tookStats.
func (b *shimBooks) tookBye(body []byte, joined bool) error {
	bye, err := wire.ParseBye(body)
	if err == nil {
		b.saw(bye.Kernels, bye.Copies, joined)
	}
	return err
}

// counts are the books of a device; those of the process as a whole are in those of the device that was seen first.
func (p *Process) counts(d *deviceState) books.Counts {
	t := d.account.Time()
	pending := p.steps.Pending(d.id)
	for _, s := range d.closed {
		pending += len(s.Spans)
	}
	c := books.Counts{
		books.KernelsReceived: d.kernels, books.KernelsInSteps: d.became.InSteps, books.KernelsOutside: d.became.Outside,
		books.KernelsLate: d.became.Late, books.KernelsInvalid: d.became.Invalid, books.KernelsDuplicate: d.became.Duplicate,
		books.KernelsPending: uint64(pending),
		books.DeviceWall:     t.Watermark - t.First,
		books.DeviceCompute:  t.Compute, books.DeviceComm: t.Comm, books.DeviceIdle: t.Idle, books.DeviceUnknown: t.Unknown,
	}
	if d == p.main || p.main == nil {
		k, m := &p.shim.kernels, &p.shim.copies
		maps.Copy(c, books.Counts{
			books.ShimKernels: k.seen, books.ShimKernelsHeard: k.heardThen, books.ShimKernelsLost: k.lostThen,
			books.ShimKernelsMissing: k.missing, books.ShimKernelsElsewhere: k.elsewhere,
			books.ShimCopies: m.seen, books.ShimCopiesHeard: m.heardThen, books.ShimCopiesLost: m.lostThen,
			books.ShimCopiesMissing: m.missing, books.ShimCopiesElsewhere: m.elsewhere,
		})
	}
	if p.set.archive {
		b, wait := &d.packed.books, d.packed.waiting()
		maps.Copy(c, books.Counts{
			books.PackedKernels: b.packed.kernels, books.PackedKernelsConsumed: b.consumed.kernels,
			books.PackedKernelsRefused: b.refused.kernels, books.PackedKernelsPending: wait.kernels,
			books.PackedCopies: b.packed.copies, books.PackedCopiesConsumed: b.consumed.copies,
			books.PackedCopiesRefused: b.refused.copies, books.PackedCopiesPending: wait.copies,
		})
	}
	return c
}

// losses are a device's, by reason; those that no device has are with the device that was seen first. Reasons without a
// loss are left out.
func (p *Process) losses(d *deviceState) map[string]uint64 {
	all := map[string]uint64{}
	if d == p.main || p.main == nil {
		maps.Copy(all, p.dropped)
	}
	refused := d.packed.books.refused
	for reason, n := range map[string]uint64{
		books.Late: d.became.Late, books.Duplicate: d.became.Duplicate - d.settledBefore, books.DownstreamRefused: refused.kernels + refused.copies,
	} {
		if n > 0 {
			all[reason] += n
		}
	}
	for reason, n := range d.invalid {
		all[reason] += n
	}
	for reason, n := range d.badCopies {
		all[reason] += n
	}
	return all
}

// chunkCounts are the books and the losses of a device, as chunks carry them to the archive's footers.
func (p *Process) chunkCounts(d *deviceState) []chunk.Count {
	counts := p.counts(d)
	if p.who.foreign > 0 {
		counts[books.RankConflicts] = p.who.foreign
	}
	losses := p.losses(d)
	for _, reason := range books.Received() {
		counts[books.LostPrefix+reason] = losses[reason]
	}
	all := make([]chunk.Count, 0, len(counts))
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, chunk.Count{Name: name, Value: counts[name]})
	}
	return all
}
