package engine

import (
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/step"
)

// limitNames are the limits on one session by the setting that moves them; the last six are fixed.
var LimitNames = [...]string{
	"max_strings", "max_ranges", "max_shapes", "max_series", "max_session_bytes", "max_total_series", "max_total_bytes", "range_depth", "graph_nodes", "launches", "devices",
	"nccl", "manifest",
}

// limited counts what did not fit each of limitNames, in their order.
func (p *Process) limited() [len(LimitNames)]uint64 {
	r := &p.names.Refused
	return [...]uint64{
		r.Names, p.ranges.Counts.Refused, p.steps.Evicted, max(p.overflowed, p.pace.Overflowed), p.shed, p.unseated, p.yielded, p.ranges.Counts.TooDeep, r.Nodes, r.Launches,
		p.overDevices.kernels + p.overDevices.copies, p.nccl.Refused(), p.matched.Refused(),
	}
}

// limitedByName is limited for the metric: limits that were never reached are left out.
func (p *Process) limitedByName() map[string]uint64 {
	counts := map[string]uint64{}
	for i, n := range p.limited() {
		if n > 0 {
			counts[LimitNames[i]] = n
		}
	}
	return counts
}

// warnOfLimits says once a session of each limit that it was reached.
func (p *Process) warnOfLimits() {
	for i, n := range p.limited() {
		if n > 0 && !p.warned[i] {
			p.warned[i] = true
			p.notice(LevelWarn, "a session reached a limit: what does not fit is in kern_limited_total", Pair{"limit", LimitNames[i]},
				Pair{"session", SessionName(p.session)}, Pair{"run", p.info["run"]}, Pair{"pid", p.info["pid"]})
		}
	}
}

// maxDevices bounds the devices of one process: each has packers and series of its own.
const MaxDevices = 64

// fits reports whether a record's device is not one too many.
func (p *Process) fits(id uint16) bool {
	if _, known := p.findDevice(id); known || len(p.devices) >= p.set.maxDevices {
		return known
	}
	if len(p.devices) == 0 { // each process has its first
		p.set.places.Add(p.held.user, placesOfRank)
		p.held.places += placesOfRank
		return true
	}
	if !p.seat(placesOfRank) {
		p.unseated++
		return false
	}
	return true
}

// bytes is about what the process takes here that grows until something is settled: steps that are not final, kernels
// outside any that are not packed, those that device time still needs, and the ledger.
func (p *Process) bytes() int {
	const kernel = 24 // a span and a ref
	n := p.steps.Bytes() + p.ledger.bytes()
	for _, e := range p.early {
		n += 64 * (len(e.kernels) + len(e.copies))
	}
	for _, d := range p.devices {
		for _, s := range d.closed {
			n += s.Bytes()
		}
		n += d.packed.held.bytes()
		if d.packed.unattributed != nil {
			n += d.packed.unattributed.Bytes()
		}
		n += kernel * d.account.Held()
	}
	return n
}

// checks is how often, in parts of max_session_bytes, it is worked out what a session takes: that goes through all that is open.
const checks = 256

// bound gives up what is open when there is too much of it. It is called after each frame.
func (p *Process) bound(f wire.Frame) {
	p.unchecked += wire.HeaderSize + len(f.Body)
	p.matched.Earn(len(f.Body))
	switch {
	case p.steps.Opened() > step.MaxOpen:
	case p.unchecked <= p.set.maxBytes/checks:
		return
	default:
		p.unchecked = 0
		open := p.bytes()
		over := p.weighed(open + p.names.Bytes() + p.seriesBytes())
		p.names.Full = over
		switch {
		case open > p.set.maxBytes:
		case over && open > p.set.maxBytes/checks:
			p.yielded++
			p.shedOpen(p.now)
			return
		default:
			return
		}
	}
	p.shed++
	p.shedOpen(p.now)
	if p.bytes() > p.set.maxBytes {
		p.shedOpen(p.latest()) // kernels that say that they are still to start
	}
}

// seriesBytes is about what the counts of ranks take.
func (p *Process) seriesBytes() (n int) {
	const rank, labelSet, pace = 4 << 10, 1 << 10, 2 << 10
	n = pace * p.pace.Len()
	for _, d := range p.devices {
		n += rank + labelSet*len(d.series)
	}
	return n
}

// latest is the end of the last kernel or copy that is known, unix ns.
func (p *Process) latest() (end uint64) {
	for _, d := range p.devices {
		end = max(end, d.account.Latest())
	}
	return end
}

// shedOpen gives up all that is open, because it takes too much memory: launches, and with them steps,
// are incomplete, and time up to a moment, unix ns, is unknown where it was idle.
func (p *Process) shedOpen(until uint64) {
	p.takeEarly(p.clock())
	p.names.End(false, p.overLimit)
	closed := p.steps.CloseAll(step.TooLarge, step.TooLarge)
	for _, s := range closed {
		p.ranges.Close(s.ID)
		p.pace.Pop(s.ID, 0)
	}
	p.closed(closed)
	p.lost(until)
	p.watermark = max(p.watermark, until)
	p.settle()
	for _, d := range p.devices {
		d.account.Advance(p.watermark, p.set.stepTimeout)
		p.finalize(d, true)
		d.account.Settle(p.watermark, false)
	}
	p.Cut()
}
