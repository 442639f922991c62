package engine

import "github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/device"

// A gap is time of which not all records came.
type gap struct {
	open  bool   // no flush has closed it
	until uint64 // unix ns: what did not come lies before this
}

// lost takes note of a loss before a time, unix ns: idle is unknown up to the next flush after that.
func (p *Process) lost(until uint64) { p.missed(until, device.Loss) }

// missed takes note of time before which records did not come, unix ns: idle is unknown up to the next flush after that.
func (p *Process) missed(until uint64, why device.Why) {
	g := &p.gaps[why]
	g.open, g.until = true, max(g.until, until)
	p.unknown(g.until, why)
}

// unknown makes idle of all devices unknown up to a time, unix ns.
func (p *Process) unknown(until uint64, why device.Why) {
	for _, d := range p.devices {
		d.account.Lost(until, why)
	}
}

// losesUpTo closes the gaps that lie before a flush, unix ns: idle is unknown up to it.
func (p *Process) losesUpTo(flushed uint64) {
	for why := range p.gaps {
		if g := &p.gaps[why]; g.open && flushed >= g.until {
			p.unknown(flushed, device.Why(why))
			g.open = false
		}
	}
}
