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
	totals   []engine.StepTotals
	pending  int // totals and chunks that are not settled

	chunks     []engine.OutboundChunk
	lastChunks []engine.OutboundChunk // made when it ends
	became     []bool                 // of chunks, in order: taken by the pipeline, or refused
	count      engine.Unattributed
	asked      int // how often the counts were asked for
	steps      uint64
	lost       uint64
	ended      bool
}

// New returns the account of a process that said HELLO.
func New(hello wire.Hello) *Fake { return &Fake{hello: hello, since: time.Now()} }

// Chunk is a chunk of three kernels and two copies.
func Chunk(bytes int) engine.OutboundChunk {
	return engine.OutboundChunk{Sealed: &chunk.Sealed{Body: make([]byte, bytes), Kernels: 3, Copies: 2}, Source: &engine.Source{}}
}

// EndsWith has chunks cut when the account ends.
func (e *Fake) EndsWith(chunks ...engine.OutboundChunk) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lastChunks = chunks
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
		e.totals = append(e.totals, engine.StepTotals{
			Kind: "step", Session: engine.SessionName(e.hello.Session), ID: id, Frame: f.Number, Complete: true,
		})
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
		e.chunks = append(e.chunks, Chunk(bytes))
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
	switch {
	case e.pending > 0:
		return 0
	case e.held > 0:
		return e.held - 1
	case e.pack > 0:
		return e.pack - 1
	}
	return e.received
}

// Holds says that a word holds the rest.
func (e *Fake) Holds() (uint64, string) { return e.Acknowledgeable(), "a word" }

// TakeSteps returns the steps since the last call.
func (e *Fake) TakeSteps() []engine.StepTotals {
	e.mu.Lock()
	defer e.mu.Unlock()
	totals := e.totals
	e.totals = nil
	e.pending += len(totals)
	return totals
}

// TakeChunks returns the chunks since the last call.
func (e *Fake) TakeChunks() []engine.OutboundChunk {
	e.mu.Lock()
	defer e.mu.Unlock()
	chunks := e.chunks
	e.chunks = nil
	e.pending += len(chunks)
	return chunks
}

// Delivered takes what became of a chunk.
func (e *Fake) Delivered(_ engine.OutboundChunk, taken bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.became = append(e.became, taken)
}

// Cut settles what waits for a cut.
func (e *Fake) Cut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pack = 0
}

// Settled settles what was taken.
func (e *Fake) Settled() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pending = 0
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
	e.chunks, e.lastChunks = append(e.chunks, e.lastChunks...), nil
}

// Reports are one report.
func (e *Fake) Reports() []engine.Report {
	e.mu.Lock()
	defer e.mu.Unlock()
	return []engine.Report{{
		Info: e.hello.Info, Kernels: e.steps + e.count.Outside,
		Became: engine.KernelStates{InSteps: e.steps, Outside: e.count.Outside}, Complete: e.steps,
		Whole: true, SinceNS: uint64(e.since.UnixNano()), Dropped: map[string]uint64{"other": e.lost},
	}}
}

// Standing is what HELLO says.
func (e *Fake) Standing() engine.Standing {
	info := e.hello.Info
	return engine.Standing{
		Run: info["run"], PID: info["pid"], Mode: info["mode"], ModeReason: info["mode_reason"], Subscribed: info["subscribed"] == "1",
	}
}
