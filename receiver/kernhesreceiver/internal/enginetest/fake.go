// Package enginetest turns words into what an engine's account does, for tests of what lies above it.
package enginetest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/model"
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
)

// A Fake understands INFO frames whose body is a word: "step ID" closes a step, "outside" settles a record without one,
// "hold" begins something that stays open until "release", "pack" something that waits for a cut, "chunk BYTES" makes a
// chunk of three kernels and two copies, "lose" counts a lost record, "bad" is a protocol error.
type Fake struct {
	hello wire.Hello
	since time.Time

	mu       sync.Mutex
	received uint64
	held     uint64
	pack     uint64
	totals   []engine.OutboundStep
	holds    map[uint64]int // of steps and chunks, by frame

	chunks     []engine.OutboundChunk
	lastChunks int    // made when it ends
	became     []bool // of chunks, in order: taken by the pipeline, or refused
	count      engine.Unattributed
	asked      int // how often the counts were asked for
	steps      uint64
	lost       uint64
	ended      bool
}

// New returns the account of a process that sent HELLO.
func New(hello wire.Hello) *Fake { return &Fake{hello: hello, since: time.Now()} }

// hold holds a frame. The caller holds mu.
func (e *Fake) hold(frame uint64, became func(taken bool)) *engine.Hold {
	if e.holds == nil {
		e.holds = map[uint64]int{}
	}
	e.holds[frame]++
	return engine.NewHold(func(taken bool) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.holds[frame]--; e.holds[frame] == 0 {
			delete(e.holds, frame)
		}
		became(taken)
	})
}

// outbound is a chunk of three kernels and two copies. The caller holds mu.
func (e *Fake) outbound(bytes int) engine.OutboundChunk {
	return engine.OutboundChunk{
		Sealed: &chunk.Sealed{Body: make([]byte, bytes), Kernels: 3, Copies: 2}, Source: &engine.Source{},
		Hold: e.hold(e.received, func(taken bool) { e.became = append(e.became, taken) }),
	}
}

// EndsWithChunks has so many empty chunks cut when the account ends.
func (e *Fake) EndsWithChunks(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lastChunks = n
}

// Became is what became of the chunks, in order: taken by the pipeline, or refused.
func (e *Fake) Became() []bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.became)
}

// Asked is how often the counts of unattributed records were asked for.
func (e *Fake) Asked() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked
}

// Frame takes one frame.
func (e *Fake) Frame(f wire.Frame) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f.Pinned() || f.Number <= e.received && f.Number != 0 {
		return nil
	}
	e.received = f.Number
	switch word, id, _ := strings.Cut(string(f.Body), " "); {
	case f.Kind == wire.KindBye:
	case word == "step":
		e.steps++
		e.totals = append(e.totals, engine.OutboundStep{StepTotals: engine.StepTotals{
			Kind: "step", Session: engine.SessionName(e.hello.Session), ID: id, Frame: f.Number, Complete: true,
		}, Hold: e.hold(f.Number, func(bool) {})})
	case word == "outside":
		e.count.Outside++
	case word == "lose":
		e.lost++
	case word == "hold":
		e.held = f.Number
	case word == "pack":
		e.pack = f.Number
	case word == "chunk":
		bytes, err := strconv.Atoi(id)
		if err != nil {
			return err
		}
		e.chunks = append(e.chunks, e.outbound(bytes))
	case word == "release":
		e.held = 0
	case word == "bad":
		return fmt.Errorf("frame %d: %w", f.Number, wire.ErrBadFrame)
	}
	return nil
}

// Received is the highest numbered frame taken.
func (e *Fake) Received() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.received
}

// Acknowledgeable is the highest frame of which all is settled.
func (e *Fake) Acknowledgeable() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	frame := e.received
	for held := range e.holds {
		frame = min(frame, held-1)
	}
	for _, held := range []uint64{e.held, e.pack} {
		if held > 0 {
			frame = min(frame, held-1)
		}
	}
	return frame
}

// Holds says that a word holds the rest.
func (e *Fake) Holds() (uint64, string) { return e.Acknowledgeable(), "a word" }

// TakeSteps returns the steps since the last call.
func (e *Fake) TakeSteps() []engine.OutboundStep {
	e.mu.Lock()
	defer e.mu.Unlock()
	totals := e.totals
	e.totals = nil
	return totals
}

// TakeChunks returns the chunks since the last call.
func (e *Fake) TakeChunks() []engine.OutboundChunk {
	e.mu.Lock()
	defer e.mu.Unlock()
	chunks := e.chunks
	e.chunks = nil
	return chunks
}

// Cut settles what waits for a cut.
func (e *Fake) Cut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pack = 0
}

// Unattributed counts the records without a step.
func (e *Fake) Unattributed() engine.Unattributed {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked++
	return e.count
}

// Ended reports whether the account is closed.
func (e *Fake) Ended() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ended
}

// End closes the account.
func (e *Fake) End(bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended, e.held, e.pack = true, 0, 0
	for ; e.lastChunks > 0; e.lastChunks-- {
		e.chunks = append(e.chunks, e.outbound(0))
	}
}

// Reports are one report.
func (e *Fake) Reports() []engine.Report {
	e.mu.Lock()
	defer e.mu.Unlock()
	return []engine.Report{{
		Info: e.hello.Info, Kernels: e.steps + e.count.Outside,
		Became: model.Outcomes{InSteps: e.steps, Settled: model.Settled{Outside: e.count.Outside}}, Complete: e.steps,
		Whole: true, SinceNS: uint64(e.since.UnixNano()), Dropped: map[string]uint64{"other": e.lost},
	}}
}

// Places are none.
func (e *Fake) Places() ([]engine.Place, int) { return nil, 0 }

// Standing is what HELLO says.
func (e *Fake) Standing() engine.Standing {
	info := e.hello.Info
	s := engine.Standing{
		Run: info["run"], PID: info["pid"], Mode: info["mode"], ModeReason: info["mode_reason"], Subscribed: info["subscribed"] == "1",
	}
	if s.Mode == "windows" {
		s.Windows = &engine.WindowsStanding{State: info["window_state"]}
	}
	return s
}
