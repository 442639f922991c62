package session

import (
	"slices"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
)

// told is what the shim of one connection was told of where steps are pushed.
type told struct {
	places  []engine.Place
	version int // of the engine's places
}

// tell returns the frames that tell the shim of the engine's places: those that are new, and to forget those that are none any
// more. Empty: it knows. The caller holds the session's mu.
func (t *told) tell(e Account) (frames []byte) {
	places, version := e.Places()
	if version == t.version {
		return nil
	}
	isOf := func(p engine.Place) func(engine.Place) bool {
		return func(o engine.Place) bool { return o.Domain == p.Domain && o.Thread == p.Thread }
	}
	for _, p := range t.places {
		if !slices.ContainsFunc(places, isOf(p)) {
			frames = wire.AppendControl(frames, wire.CommandPlace, uint64(p.Domain), uint64(p.Thread), 0)
		}
	}
	for _, p := range places {
		if !slices.Contains(t.places, p) {
			frames = wire.AppendControl(frames, wire.CommandPlace, uint64(p.Domain), uint64(p.Thread), uint64(p.Depth))
		}
	}
	t.places, t.version = places, version
	return frames
}
