// Package hooks turns the marks of an engine's hooks into the device time and the requests of steps.
package hooks

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/kernhes/kernhes/internal/model"
	"github.com/kernhes/kernhes/internal/wire"
)

// Bounds of what is remembered.
const (
	maxSteps    = 1024    // whose marks may still come: they come 64 steps later at most
	maxNumbers  = 1 << 16 // of requests; beyond that all are learned anew, from the next time that they are told
	MaxRequests = 4096    // of a step; further ones count as refused
	waitForMark = 2e9     // ns from the pop of a step on: so long it is not final without its device time
)

// Counts of marks.
type Counts struct {
	Marks   uint64 // that came
	Unread  uint64 // of them, those that are not as their schema says, or of no known schema
	Strange uint64 // of a step that is not known, or no longer
	Refused uint64 // requests beyond MaxRequests of a step
}

// A request is what a number stands for.
type request struct{ id, trace string }

// A Step is a step whose marks may come.
type Step[K any] struct {
	ID       uint64 // of its range
	Key      K
	seq      uint64
	answered bool // its device time came, or that it was not measured
}

// Hooks follow the marks of one process. K is what a step is known by in metrics. They are not safe for concurrent use.
type Hooks[K any] struct {
	Counts Counts

	domain  uint32
	named   bool
	speak   bool // a device mark came: each step with a seq will have one
	steps   map[uint64]*Step[K]
	order   []*Step[K] // oldest first
	numbers map[uint32]request
}

// Domain takes the name of an NVTX domain.
func (h *Hooks[K]) Domain(d uint32, name string) {
	if name == wire.HookDomain {
		h.domain, h.named = d, true
	}
}

// Follows reports whether a payload is a mark of the hooks.
func (h *Hooks[K]) Follows(e wire.Event) bool {
	return h.named && e.Domain() == h.domain && e.Site() == wire.SiteMark
}

// Pushed takes a step that has a seq in its text.
func (h *Hooks[K]) Pushed(seq, id uint64, key K) {
	if !h.named {
		return
	}
	if h.steps == nil {
		h.steps = map[uint64]*Step[K]{}
	}
	if len(h.order) >= maxSteps {
		for _, old := range h.order[:maxSteps/2] {
			if h.steps[old.seq] == old {
				delete(h.steps, old.seq)
			}
		}
		h.order = append(h.order[:0], h.order[maxSteps/2:]...)
	}
	s := &Step[K]{ID: id, Key: key, seq: seq}
	h.steps[seq] = s
	h.order = append(h.order, s)
}

// Awaits reports whether the device time of a step is still to come at a time, unix ns. pop is when its range ended; 0: not known.
func (h *Hooks[K]) Awaits(seq, id, pop, now uint64) bool {
	s := h.steps[seq]
	return h.speak && s != nil && s.ID == id && !s.answered && pop != 0 && now < pop+waitForMark
}

// A Said is what a mark says of a step; without a step it says nothing of one.
type Said[K any] struct {
	Step     *Step[K]
	Device   uint64 // ns
	Measured bool   // Device is known
	Requests []model.StepRequest
}

// Take takes a mark.
func (h *Hooks[K]) Take(e wire.Event) (said Said[K]) {
	h.Counts.Marks++
	var err error
	switch e.Schema() {
	case wire.SchemaStepDevice:
		var d *wire.StepDevice
		if d, err = wire.ParseStepDevice(e.Data()); err == nil {
			said = h.device(d)
		}
	case wire.SchemaRequest:
		var r wire.Request
		if r, err = wire.ParseRequest(e.Data()); err == nil {
			h.number(&r)
		}
	case wire.SchemaStepRequests:
		var r wire.StepRequests
		if r, err = wire.ParseStepRequests(e.Data()); err == nil {
			said = h.requests(r)
		}
	default:
		h.Counts.Unread++
	}
	if err != nil {
		h.Counts.Unread++
	}
	return said
}

// of is the step with a seq.
func (h *Hooks[K]) of(seq uint64) *Step[K] {
	s := h.steps[seq]
	if s == nil {
		h.Counts.Strange++
	}
	return s
}

func (h *Hooks[K]) device(d *wire.StepDevice) (said Said[K]) {
	h.speak = true
	s := h.of(d.Seq())
	if s == nil || s.answered {
		return said
	}
	s.answered = true
	said.Step = s
	said.Device, said.Measured = d.DeviceNS()
	return said
}

func (h *Hooks[K]) number(r *wire.Request) {
	if h.numbers == nil || len(h.numbers) >= maxNumbers {
		h.numbers = map[uint32]request{}
	}
	one := request{id: strings.ToValidUTF8(string(r.ID), "?")}
	if r.TraceID != [16]byte{} {
		one.trace = hex.EncodeToString(r.TraceID[:])
	}
	h.numbers[r.Number] = one
}

func (h *Hooks[K]) requests(r wire.StepRequests) (said Said[K]) {
	if said.Step = h.of(r.Seq()); said.Step == nil {
		return said
	}
	for i := range r.Len() {
		of := r.At(i)
		one := model.StepRequest{Tokens: of.Tokens, Cached: of.Cached}
		if known, ok := h.numbers[of.Number]; ok {
			one.ID, one.Trace = known.id, known.trace
		} else {
			one.ID = "#" + strconv.FormatUint(uint64(of.Number), 10)
		}
		said.Requests = append(said.Requests, one)
	}
	return said
}
