package engine

import (
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/cupti"
)

// coverNames is how many names a report has of what is known of a device's kernels.
const coverNames = 10

// cover counts what a run appended to columns of no step, for coverage. Kernels of steps are counted when
// their steps are final.
func (p *Process) cover(d *deviceState, l *cupti.Launch, o *cupti.Outcome) {
	var replayed *cupti.Graph
	call, id := uint32(0), o.Static.Name()
	if l != nil {
		call = l.Label
		if o.Name == nil { // else each record stood for itself
			replayed = l.Replays()
		}
	}
	for i, s := range o.Spans() {
		if replayed != nil {
			if n := replayed.Node(uint32(o.Columns.Refs[o.From+i])); n != nil {
				call, id = n.Label, n.Static.Name()
			}
		}
		name := p.names.Kernel(id)
		d.coverage.Outside(name.Text, p.by(call, id, name), s.End()-s.Start)
	}
}
