package engine

import (
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

// stalledAfter is how long no kernel ends while launches wait, before a rank counts as stalled, ns. A kernel takes less.
const stalledAfter = 4e9

// A Stall is a rank in which nothing goes on.
type Stall struct {
	NS      uint64 // since its last kernel ended, or since it launched
	Program string // of the step that it is in
	Call    string // whose kernel does not end, or is not there; empty: not known
	At      Where
}

// Where is what a stalled rank stands at.
type Where string

// Where a rank can stand.
const (
	AtComm   Where = "comm"   // it waits in a call of communication
	AtKernel Where = "kernel" // a kernel of its own does not end
	AtHost   Where = "host"   // it launched nothing that is not done
	Unknown  Where = "unknown"
)

// stall is where a rank stands, if nothing goes on in it; else nil.
func (p *Process) stall(d *deviceState) *Stall {
	if p.accountEnded || !p.traces.on() || d.lastKernelEnd == 0 {
		return nil
	}
	since := max(d.lastKernelEnd, p.active)
	l := p.names.Waiting()
	if l != nil {
		since = max(d.lastKernelEnd, l.Time)
	}
	if p.now < since || p.now-since < stalledAfter {
		return nil
	}
	s := &Stall{NS: p.now - since, At: AtHost}
	if l == nil {
		return s
	}
	s.At = Unknown
	s.Program, _, _ = p.steps.Program(l.Owner)
	if n := l.Due(); n != nil {
		s.Call, s.At = p.ranges.Text(n.Label), where(n.Class)
		return s
	}
	if l.Graph {
		return s
	}
	s.Call = p.ranges.Text(l.Label)
	if class, ok := p.steps.ClassOf(s.Call); l.Comm != 0 {
		s.At = AtComm
	} else if ok {
		s.At = where(class)
	}
	return s
}

func where(c span.Class) Where {
	if c == span.Comm {
		return AtComm
	}
	return AtKernel
}
