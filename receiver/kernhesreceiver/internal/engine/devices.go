package engine

import (
	"cmp"
	"slices"

	"github.com/kernhes/kernhes/internal/model"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/coverage"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/cupti"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/device"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/step"
)

// A deviceState is one device that the process uses.
type deviceState struct {
	id      uint16
	rank    int64
	source  *Source // nil: to be made anew
	account device.Account
	outside *cupti.Columns // of the kernels that belong to no step
	copying *cupti.Columns
	closed  []*step.Step // not final yet, in order of their first start
	packed  packed

	stepCopies      stepCopies // only where final steps are kept for TakeSteps
	kernels         uint64
	taken           taken
	became          model.Outcomes    // of the kernels that are settled
	settledBefore   uint64            // those of became.Duplicate that an earlier collector had settled
	invalid         map[string]uint64 // kernels, by reason
	commKernels     uint64
	kernelsWithCall uint64
	lastKernelEnd   uint64 // latest end of a kernel, unix ns
	traced          bool   // in the window that is open, a launch of it has records
	copies          map[string]uint64
	badCopies       map[string]uint64 // of them, those whose timestamps cannot be believed, by reason
	complete        uint64
	failed          map[string]uint64 // incomplete steps by reason
	untraced        uint64            // steps
	overlong        uint64            // steps that were given up while their ranges were open
	lastStep        uint64            // end of the last step that became final, unix ns
	series          map[seriesKey]*SeriesReport
	coverage        coverage.Account
}

// device returns the state of a device, making it if need be.
func (p *Process) device(id uint16) *deviceState {
	if p.supposed != nil {
		p.suppose(id)
	}
	i, ok := p.findDevice(id)
	if !ok {
		p.devices = slices.Insert(p.devices, i, &deviceState{
			id: id, rank: NoRank, outside: &cupti.Columns{}, copying: &cupti.Columns{}, invalid: map[string]uint64{},
			copies: map[string]uint64{}, badCopies: map[string]uint64{}, failed: map[string]uint64{}, series: map[seriesKey]*SeriesReport{},
		})
		if p.main == nil {
			p.main = p.devices[i]
		}
		for why, g := range p.gaps {
			if g.open {
				p.devices[i].account.Lost(g.until, device.Why(why))
			}
		}
	}
	return p.devices[i]
}

// findDevice returns where a device is among those that were seen, or would be.
func (p *Process) findDevice(id uint16) (int, bool) {
	return slices.BinarySearchFunc(p.devices, id, func(d *deviceState, id uint16) int { return cmp.Compare(d.id, id) })
}
