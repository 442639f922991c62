package shim

import (
	"github.com/kernhes/kernhes/internal/sender"
	"github.com/kernhes/kernhes/internal/sim/fleet"
)

const latest = 1_000_000_000 // ns that disorder delays a record at most

// Kinds of copies, as CUPTI numbers them.
const (
	memcpy = 1
	hToD   = 1
	peer   = 22
	pToP   = 10
)

// add has a record wait for a flush. A kernel that does not end has none.
func (h *Shim) add(s fleet.Span, k sender.Kernel) {
	if s.End == 0 {
		return
	}
	due := int64(k.End)
	if h.rng != nil {
		due += h.rng.Int64N(latest)
	}
	h.late = max(h.late, int64(k.End))
	h.kernels = append(h.kernels, kernel{k, due})
}

// copied has the records of a step's copies wait.
func (h *Shim) copied(s *fleet.Step, offset int64) {
	one := func(s fleet.Span, kind, copyKind uint8, bytes uint64) {
		h.correlation++
		h.copies = append(h.copies, sender.Copy{Start: uint64(s.Start + offset), End: uint64(s.End + offset), Bytes: bytes,
			Correlation: h.correlation, Stream: copyOn, Kind: kind, CopyKind: copyKind, From: 2, To: 3, Context: 1})
		h.late = max(h.late, s.End+offset)
	}
	one(s.Copy, memcpy, hToD, 96<<10)
	for _, p := range s.Peer {
		one(p, peer, pToP, 256<<20)
	}
}

// to lets time pass up to an event: launches outside any step, and flushes, that come before it.
func (h *Shim) to(t int64) {
	h.until(t)
	h.Wire.Now = max(h.Wire.Now, uint64(t))
}

func (h *Shim) until(t int64) {
	for {
		next := h.flushed + int64(h.set.Flush)
		if len(h.foreign) > 0 && h.foreign[0].at <= min(t, next) {
			f := h.foreign[0]
			h.foreign = h.foreign[1:]
			h.Wire.Now = max(h.Wire.Now, uint64(f.at))
			f.record.Correlation = h.launch(side, false)
			h.add(fleet.Span{End: 1}, f.record)
			continue
		}
		if next >= t {
			return
		}
		h.flush(next)
	}
}

// flush sends what is due.
func (h *Shim) flush(at int64) {
	h.flushed = at
	if !h.traced {
		h.send(at, nil, nil)
		return
	}
	var due []sender.Kernel
	kept := h.kernels[:0]
	for _, k := range h.kernels {
		if k.due <= at {
			due = append(due, k.Kernel)
		} else {
			kept = append(kept, k)
		}
	}
	h.kernels = kept
	var copies []sender.Copy
	left := h.copies[:0]
	for _, c := range h.copies {
		if int64(c.End) <= at {
			copies = append(copies, c)
		} else {
			left = append(left, c)
		}
	}
	h.copies = left
	h.send(at, due, copies)
}

// deliver sends all that waits; at is not before the end of any of it.
func (h *Shim) deliver(at int64) {
	h.until(at)
	for i := range h.kernels {
		h.kernels[i].due = 0
	}
	h.flush(at)
}

func (h *Shim) send(at int64, kernels []sender.Kernel, copies []sender.Copy) {
	h.Wire.Now = max(h.Wire.Now, uint64(at))
	if h.rng != nil {
		h.rng.Shuffle(len(kernels), func(i, k int) { kernels[i], kernels[k] = kernels[k], kernels[i] })
	}
	if n := min(h.lose, len(kernels)); n > 0 {
		from, to := kernels[0].Start, kernels[0].End
		for _, k := range kernels[:n] {
			from, to = min(from, k.Start), max(to, k.End)
		}
		kernels = kernels[n:]
		h.Wire.Lost(sender.Loss{Reason: sender.LostCUPTI, What: sender.LostKernels, Count: uint64(n), From: from, To: to})
		h.lose -= n
		h.dropped += n
	}
	h.Wire.Records(kernels, copies)
	if h.Losses != nil { // before the watermark passes the time in which they were lost
		for _, l := range h.Losses() {
			h.Wire.Lost(l)
		}
	}
	h.Wire.Flush(uint64(at))
}

// Idle lets time pass without a step: heartbeats go on.
func (h *Shim) Idle(t int64) { h.until(t) }

// Bye sends all that waits, and BYE.
func (h *Shim) Bye(t int64) {
	if h.Ended {
		return
	}
	h.Ended = true
	h.deliver(max(t, h.late, h.flushed))
	h.Wire.Bye()
}
