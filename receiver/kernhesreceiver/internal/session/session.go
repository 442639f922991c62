// Package session turns the frames of engine processes, over all their connections, into records that are delivered before
// their frames are acknowledged.
package session

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/jsonl"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/share"
)

// An engine is the account of one engine process; *process is it. Whoever holds the session's lock may call it.
type Account interface {
	Frame(f wire.Frame) error           // takes one frame; an error ends the connection, not the session
	Received() uint64                   // highest numbered frame taken
	Acknowledgeable() uint64            // highest frame of which every record is settled
	Holds() (uint64, string)            // the same, and what rests on the frame after it; "": nothing
	TakeSteps() []engine.OutboundStep   // steps that closed since the last call, in order of closing
	TakeChunks() []engine.OutboundChunk // chunks of packed steps that were cut since the last call
	Cut()                               // makes chunks of all packed steps
	Unattributed() engine.Unattributed  // records in frames up to acknowledgeable that are settled without a step
	End(gone bool)                      // the engine sent BYE, or is gone: everything open closes
	Ended() bool
	Reports() []engine.Report
	Standing() engine.Standing
	Places() (all []engine.Place, version int) // where steps are pushed, and how often that has changed
}

// A pausing account takes a large frame in parts, and calls between two of them.
type pausing interface{ Pause(between func()) }

// A session is one engine process over all its connections.
//
//	       connect                    connection ends                reconnect_timeout
//	new ───────────▶ connected ────────────────────────▶ waiting ─────────────────────▶ ended
//	                  ▲  │ BYE                              │                             ▲
//	                  │  └──────────────────────────────────┼─────────────────────────────┘
//	                  └─────────────────────────────────────┘ reconnect
type session struct {
	id     uint64
	peer   share.Peer
	place  uint64        // among the sessions of the table, in the order in which they began
	ingest chan struct{} // the ingest lock: holds one token; its holder feeds the engine

	conn   connection
	latest atomic.Pointer[published]
	asked  atomic.Bool // somebody wants to know how it stands
	over   atomic.Bool // it has ended

	mu      sync.Mutex
	engine  Account
	left    time.Time           // when the last connection ended
	heard   time.Time           // when the last frame came
	acked   uint64              // highest frame acknowledged, and journaled if there is a dump
	counted engine.Unattributed // what the journal has
	lost    *losses             // before the configuration was reloaded; nil: nothing
	ended   bool

	// What waits to be delivered; the holder of the ingest lock has these.
	lines  []engine.OutboundStep
	chunks []engine.OutboundChunk
}

func newSession(id uint64, e Account, past remembered) *session {
	s := &session{id: id, ingest: make(chan struct{}, 1), engine: e, acked: past.frame, heard: time.Now()}
	s.ingest <- struct{}{}
	if e, ok := e.(pausing); ok {
		e.Pause(s.pause)
	}
	s.latest.Store(&published{heard: s.heard, reports: e.Reports(), standing: e.Standing()})
	return s
}

const (
	// maxUnwritten bounds the lines that wait for a dump that cannot be written: at some 600 bytes a line 40 MB.
	maxUnwritten = 1 << 16
	// maxUnsent is how many bytes of chunks may wait for the logs pipeline before nothing more is read from the engine.
	maxUnsent = 8 << 20
)

// frame gives a frame to the engine. The caller holds mu, and has the ingest lock.
func (s *session) frame(f wire.Frame) error {
	s.lost.next(f.Number, s.engine)
	err := s.engine.Frame(f)
	s.lost.next(0, s.engine)
	return err
}

// reports are the engine's, with what was lost before. The caller holds mu.
func (s *session) reports() []engine.Report {
	reports := s.engine.Reports()
	s.lost.add(reports)
	return reports
}

// collect takes what has become final from the engine. The caller holds mu, and has the ingest lock.
func (s *session) collect() {
	s.lines = append(s.lines, s.engine.TakeSteps()...)
	s.chunks = append(s.chunks, s.engine.TakeChunks()...)
}

// unsent is how many bytes of chunks wait. The caller has the ingest lock.
func (s *session) unsent() (n int) {
	for _, p := range s.chunks {
		n += len(p.Body)
	}
	return n
}

// deliver sends the chunks that wait and writes the lines. It returns the lines that were given up, and an error if something
// could not be delivered now: then the frames on which it rests are not acknowledged. The caller has the ingest lock, and not mu.
func (s *session) deliver(j *journal, send func(*engine.OutboundChunk) (taken bool, err error)) (lost int, err error) {
	for len(s.chunks) > 0 {
		taken, err := send(&s.chunks[0])
		if err != nil {
			return 0, err
		}
		s.parted(taken)
	}
	written := 0
	for ; j != nil && written < len(s.lines); written++ {
		if err = j.step(s.id, &s.lines[written].StepTotals); err != nil {
			break
		}
	}
	if j == nil {
		written = len(s.lines)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.partedLines(written, true)
	if err != nil {
		lost = max(0, len(s.lines)-maxUnwritten)
		s.partedLines(lost, false)
	}
	return lost, err
}

// partedLines lets go of the first n lines that wait: they are written, or given up. The caller holds mu.
func (s *session) partedLines(n int, written bool) {
	for i := range s.lines[:n] {
		s.lines[i].Release(written)
	}
	s.lines = append(s.lines[:0], s.lines[n:]...)
}

// parted lets go of the first chunk that waits: the pipeline took it, or it is refused. The caller has the
// ingest lock, and not mu.
func (s *session) parted(taken bool) {
	s.mu.Lock()
	s.chunks[0].Release(taken)
	s.mu.Unlock()
	s.chunks = s.chunks[1:]
}

// acknowledge returns the frame to acknowledge now, after it was journaled; ok is false if there is nothing new.
// The caller holds mu.
func (s *session) acknowledge(j *journal) (frame uint64, ok bool, err error) {
	frame = s.engine.Acknowledgeable()
	if frame <= s.acked {
		return 0, false, nil
	}
	if j != nil {
		if err := j.ack(s.id, s.ackLine(frame)); err != nil {
			return 0, false, err
		}
	}
	s.counted = s.engine.Unattributed() // also without a dump: the engine forgets what it has counted
	s.acked = frame
	return frame, true, nil
}

// ackLine is the journal entry for frame. The caller holds mu.
func (s *session) ackLine(frame uint64) jsonl.AckLine {
	return jsonl.AckLine{Kind: "ack", Session: engine.SessionName(s.id), Frame: frame, Unattributed: s.engine.Unattributed().Less(s.counted)}
}

// finish writes the session's last lines, one write for all: a kill leaves them all or, at the worst, a session
// line without its ack line, which is then written again. The engine has ended and all is delivered, unless failed
// says why it could not be: then it returns how many lines are given up. The caller holds mu.
func (s *session) finish(j *journal, gone bool, failed error) (reports []engine.Report, unwritten int, err error) {
	s.ended = true
	s.over.Store(true)
	unwritten = len(s.lines)
	s.partedLines(unwritten, false)
	reports = s.reports()
	frame := max(s.acked, s.engine.Acknowledgeable())
	if failed != nil || j == nil {
		s.acked = frame
		return reports, unwritten, failed
	}
	if err := j.end(s.id, jsonl.SessionLines(s.id, reports, how(gone)), how(gone), s.ackLine(frame)); err != nil {
		return reports, unwritten, err
	}
	s.acked, s.counted = frame, s.engine.Unattributed()
	return reports, unwritten, nil
}

// how a session ended, as metrics and the dump say it.
func how(gone bool) string {
	if gone {
		return "gone"
	}
	return "bye"
}
