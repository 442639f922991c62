package session

import (
	"context"
	"time"

	"github.com/kernhes/kernhes/internal/wire"
)

// ackFrames is how many frames are acknowledged at once: at 64 frames a second of a busy engine makes some 10
// acknowledgements.
const ackFrames = 64

// cutInterval is how long packed steps wait at most for more of their chunk, by our clock: an engine's may stand still.
const cutInterval = time.Second

// A Feed gives the frames of one connection to its session. Whoever has it holds the session's ingest lock.
type Feed struct {
	t *Sessions
	s *session

	cut    time.Time // when the engine last made chunks of all that was packed
	heard  time.Time // when the last frame came
	frames int       // since the last acknowledgement
	told   told
}

// An Ack is a frame to acknowledge.
type Ack struct {
	Frame uint64
	Due   bool // there is something to acknowledge
	Ended bool // the session has ended: it is the last one
}

// Welcome is how far the session is.
func (f *Feed) Welcome() wire.Welcome {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	return wire.Welcome{Acknowledged: f.s.acked, Received: max(f.s.acked, f.s.engine.Received())}
}

// Take gives one frame to the session. An error ends the connection, not the session.
func (f *Feed) Take(ctx context.Context, frame wire.Frame) (Ack, error) {
	s := f.s
	user := s.peer.User()
	f.t.turns.begin(user)
	s.mu.Lock()
	s.heard = time.Now()
	err := s.frame(frame)
	f.t.turns.end(user)
	if err == nil && frame.Kind == wire.KindBye {
		s.mu.Unlock()
		last, err := f.t.finish(ctx, s, false)
		return Ack{Frame: last, Due: true, Ended: true}, err
	}
	f.heard = time.Now()
	f.collect()
	s.mu.Unlock()
	if pending := f.t.deliver(ctx, s); err != nil {
		return Ack{}, err
	} else if pending {
		f.frames++
	}
	if f.frames >= ackFrames {
		return f.acknowledge(ctx), nil
	}
	return Ack{}, nil
}

// Orders are the frames that the shim is to have because of the last frame that was taken; empty: none.
func (f *Feed) Orders() []byte {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	return f.told.tell(f.s.engine)
}

// Passed delivers what has become final while no frame came.
func (f *Feed) Passed(ctx context.Context) Ack {
	f.s.mu.Lock()
	f.collect()
	f.s.mu.Unlock()
	f.t.deliver(ctx, f.s)
	return f.acknowledge(ctx)
}

// Settled reports whether nothing is left to deliver until another frame comes.
func (f *Feed) Settled() bool { return f.cut.After(f.heard) && f.s.unsent() == 0 }

// collect takes what has become final from the engine, once in cutInterval also what is packed. The caller holds the
// session's mu.
func (f *Feed) collect() {
	if now := time.Now(); now.Sub(f.cut) >= cutInterval {
		f.cut = now
		f.s.engine.Cut()
	}
	f.s.collect()
}

// acknowledge returns what may be acknowledged.
func (f *Feed) acknowledge(ctx context.Context) Ack {
	f.frames = 0
	f.s.mu.Lock()
	frame, ok, err := f.s.acknowledge(f.t.journal)
	f.s.mu.Unlock()
	if ok || err != nil { // else nothing was tried: chunks may wait
		f.t.delivered(ctx, 0, err)
	}
	return Ack{Frame: frame, Due: ok}
}

// Leave gives the session back when its connection has ended.
func (f *Feed) Leave() {
	f.t.set.Starts.Leave(f.s.id)
	f.s.mu.Lock()
	f.s.conn.set(nil)
	f.s.left = time.Now()
	f.s.mu.Unlock()
	f.s.ingest <- struct{}{}
}
