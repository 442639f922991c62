package engine

import (
	"cmp"
	"strings"
	"time"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/cupti"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/device"
)

// What HELLO and INFO say of the mode windows.
const (
	modeWindows   = "windows"
	stateTracing  = "tracing"
	stateDetached = "detached"
	StateStuck    = "stuck_attached"
)

// A tracing is whether kernels are traced, and in the mode windows since when, or until when:
//
//	                TRACING_ON              TRACING_OFF            a flush began later
//	between windows ──────────▶ in a window ───────────▶ left, draining ──────────────▶ between windows
type tracing struct {
	off  bool       // nothing is traced
	why  device.Why // then
	open bool       // in the mode windows: a window is

	id       uint64
	since    uint64 // unix ns of its TRACING_ON
	left     uint64 // unix ns of the TRACING_OFF after which no flush began yet; 0: none
	cut      bool   // the GPU had not become idle: work of the window is without records
	outcomes [len(WindowOutcomes)]uint64
}

// WindowOutcomes are how a window can end, as metrics say it; TRACING_OFF has their place as reason.
var WindowOutcomes = [...]string{"other", "complete", "cancelled", "yielded", "overdue", "failed"}

func (t *tracing) on() bool { return !t.off }

// state says whether kernels are traced by what the engine says of its mode, or why not.
func (t *tracing) state(mode, reason string) (off bool, why device.Why) {
	switch {
	case mode == "off" && strings.HasPrefix(reason, "yielded"):
		return true, device.Yielded
	case mode == "off":
		return true, device.Off
	case mode == modeWindows && !t.open:
		return true, device.OutsideWindow
	}
	return false, 0
}

// modeChanged takes note of whether kernels are traced, as the engine says. While they are not, idle is unknown, and steps lack launches.
func (p *Process) modeChanged() {
	t, mode := &p.traces, p.info["mode"]
	if mode != p.mode && (mode != "off" || p.mode == "") {
		for _, d := range p.devices {
			d.taken = d.taken.in(p.mode, d.kernels)
		}
		p.mode = mode
	}
	off, why := t.state(mode, p.info["mode_reason"])
	if off == t.off && (!off || why == t.why) {
		return
	}
	before := *t
	p.times.edges++
	t.off, t.why = off, why
	p.steps.Traced(!off)
	// A window's edges are exact, since the GPU is idle at one. At others work is under way.
	if before.off && before.why != device.OutsideWindow {
		p.missed(p.now, before.why)
	}
	if off && why != device.OutsideWindow {
		p.missed(p.now, why)
	}
}

// windowOpened takes TRACING_ON: launches and records begin. Correlation ids may begin anew.
func (p *Process) windowOpened(e wire.Event) {
	t := &p.traces
	p.windowGone(max(p.now, t.left+1))
	p.names.Restart()
	p.snapshot.Launches = false
	t.open, t.id, t.since, t.cut = true, e.Window(), e.Time(), false
	for _, d := range p.devices {
		d.traced = false
	}
	p.modeChanged()
}

// windowClosed takes TRACING_OFF: no launch comes any more, and records only until a flush has begun.
func (p *Process) windowClosed(e wire.Event) {
	t := &p.traces
	if !t.open {
		return
	}
	reason := e.Reason()
	if reason >= uint32(len(WindowOutcomes)) {
		reason = 0
	}
	t.outcomes[reason]++
	t.cut = reason == wire.TracingOverdue || reason == wire.TracingFailed
	t.open, t.left = false, max(e.Time(), 1)
	p.modeChanged()
}

// windowLeft closes a window whose TRACING_OFF was lost: the engine says that it has left CUPTI.
func (p *Process) windowLeft() {
	t := &p.traces
	if state := p.info["window_state"]; t.open && (state == stateDetached || state == StateStuck) {
		t.outcomes[0]++
		t.open, t.cut, t.left = false, true, max(p.now, 1)
	}
}

// underway is how long before the end of a window a launch call may have been entered that was not done then, ns.
const underway = 1e9

// windowGone takes a flush that began at a time, unix ns. Of a window that was left before, all records came: what is open ends.
func (p *Process) windowGone(flushed uint64) {
	t := &p.traces
	if t.left == 0 || flushed <= t.left {
		return
	}
	left := t.left
	t.left = 0
	end := left
	p.names.WindowEnded(!t.cut, func(l *cupti.Launch) {
		p.steps.LaunchEnded(l)
		if !l.Expired() || l.Uncertain() || t.cut || l.Owner == 0 && l.Time+underway > left || p.steps.Untraced(l.Owner) {
			return // it was under way
		}
		p.missing += uint64(l.Missing())
		p.lost(left)
	})
	for _, d := range p.devices {
		end = max(end, d.lastKernelEnd)
	}
	p.losesUpTo(flushed)
	p.advance(min(end, flushed))
	p.unknown(flushed, device.OutsideWindow)
}

// flushedUntraced takes a flush that began at a time, unix ns: idle is unknown up to it where nothing was traced.
func (p *Process) flushedUntraced(flushed uint64) {
	p.windowGone(flushed)
	switch t := &p.traces; {
	case t.off && t.why != device.OutsideWindow:
		p.missed(flushed, t.why)
	case t.off && t.left == 0:
		p.unknown(flushed, device.OutsideWindow)
	case !t.off && p.info["mode"] == modeWindows:
		until := flushed
		if oldest, _, ok := p.names.Oldest(); ok {
			until = min(until, oldest)
		}
		for _, d := range p.devices {
			if !d.traced {
				d.account.Lost(until, device.OutsideWindow)
			}
		}
	}
}

// recordedIn takes note of a device's kernels of a launch, the earliest of which started at a time, unix ns: the device's time is
// known from the first launch of a window on. Work of its stream from before has ended then; of other streams that is not known.
func (p *Process) recordedIn(d *deviceState, l *cupti.Launch, first uint64) {
	if d.traced || l == nil || first == 0 || l.Time < p.traces.since {
		return
	}
	d.traced = true
	if p.info["mode"] == modeWindows {
		d.account.Lost(first, device.OutsideWindow)
	}
}

// A WindowsReport is how the windows of a process went.
type WindowsReport struct {
	State    string            // as INFO says it
	Outcomes map[string]uint64 // windows that were traced and left, by how they ended
	Missed   uint64            // orders
	Left     uint64            // windows that the process may still open
	Held     uint64            // ns for which threads were held at edges

	// What the controller of windows adds, of the run in the last hour.
	Measured  bool    // Slowdown and Share are
	Slowdown  float64 // of a step in a window, as a share of one outside
	Share     float64 // of all step time that windows cost
	Last      string  // why the last one was ordered; empty: none was
	LastStart time.Time
	Closer    uint64 // that were ordered since a rank became slower
}

// A WindowsStanding is how a process in the mode windows stands.
type WindowsStanding struct {
	State     string
	Had, Left uint64 // windows
	Held      uint64 // ns
}

// windowsStanding is that of the process; nil: it is not in the mode windows, nor was before it yielded.
func (p *Process) windowsStanding() *WindowsStanding {
	if p.mode != modeWindows {
		return nil
	}
	stats := p.shim.stats
	return &WindowsStanding{p.info["window_state"], stats[wire.StatWindows], stats[wire.StatWindowsLeft], stats[wire.StatHeldTime]}
}

// windowsReport is that of the process; nil: it is not in the mode windows.
func (p *Process) windowsReport() *WindowsReport {
	if cmp.Or(p.mode, p.info["mode"]) != modeWindows {
		return nil
	}
	r := &WindowsReport{State: p.info["window_state"], Outcomes: map[string]uint64{}}
	for i, n := range p.traces.outcomes {
		if i > 0 || n > 0 {
			r.Outcomes[WindowOutcomes[i]] = n
		}
	}
	r.Missed, r.Left, r.Held = p.shim.stats[wire.StatWindowsMissed], p.shim.stats[wire.StatWindowsLeft], p.shim.stats[wire.StatHeldTime]
	return r
}
