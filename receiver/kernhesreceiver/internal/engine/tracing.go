package engine

// tracing takes note of whether kernels are traced, as the engine says. While they are not, idle is unknown, and steps lack launches.
func (p *Process) tracing() {
	mode := p.info["mode"]
	if mode != p.mode && (mode != "off" || p.mode == "") {
		for _, d := range p.devices {
			d.taken = d.taken.in(p.mode, d.kernels)
		}
		p.mode = mode
	}
	if !p.begun { // from here on, events say more exactly when windows begin and end
		p.windowed = p.info["window_state"] == "tracing"
	}
	p.trace()
}

// window takes the begin or the end of a window in which kernels are traced.
func (p *Process) window(open bool) {
	p.windowed = open
	p.trace()
}

// trace works out whether kernels are traced now.
func (p *Process) trace() {
	mode := p.info["mode"]
	off := mode == "off" || mode == "windows" && !p.windowed
	if off == p.untraced {
		return
	}
	p.untraced = off
	p.steps.Traced(!off)
	p.lost(p.now)
}
