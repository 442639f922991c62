package engine

// A Hold keeps frames from being acknowledged until the sink that took what rests on them releases it. Each step and chunk that leaves an
// engine has one from the moment at which it is final: what no sink takes, or a sink takes and forgets, is not acknowledged.
type Hold struct {
	of     *openHolds
	at     int    // in of
	frame  uint64 // the first on which it rests
	became func(taken bool)
}

// NewHold returns a hold that no engine has; became is told what it is released with.
func NewHold(became func(taken bool)) *Hold { return &Hold{became: became} }

// Release lets go: what rests on the frames was taken, or is refused for good. Every caller of the engine may call it, once.
func (h *Hold) Release(taken bool) {
	if h.of != nil {
		h.of.remove(h)
	}
	if h.became != nil {
		h.became(taken)
	}
}

// openHolds are all of a process that are not released, in no order.
type openHolds struct{ all []*Hold }

// add holds frames from one on.
func (o *openHolds) add(frame uint64, became func(taken bool)) *Hold {
	h := &Hold{of: o, at: len(o.all), frame: frame, became: became}
	o.all = append(o.all, h)
	return h
}

func (o *openHolds) remove(h *Hold) {
	last := len(o.all) - 1
	o.all[h.at] = o.all[last]
	o.all[h.at].at = h.at
	o.all[last] = nil
	o.all = o.all[:last]
}

// first is the first frame that is held; false: none is.
func (o *openHolds) first() (frame uint64, ok bool) {
	for _, h := range o.all {
		if !ok || h.frame < frame {
			frame, ok = h.frame, true
		}
	}
	return frame, ok
}
