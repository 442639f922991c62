package session

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/flood"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/identity"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/logs"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/share"
)

// Settings are what the sessions of a receiver share.
type Settings struct {
	Log              *zap.Logger
	Telemetry        *metadata.Telemetry
	Limit            int           // of live sessions
	PerMinute        int           // new sessions of a container, user or host; 0: any number
	ReconnectTimeout time.Duration // after that a session without a connection has ended
	RetryDelay       time.Duration // between two attempts to deliver; 0: 100 ms
	Starts           *identity.Starts
	Logs             *logs.Sender // nil: engines make no chunks
	Dump             string       // file; empty: none
	NewEngine        func(wire.Hello) Account
	BeforeEngine     func() // is called before an engine begins, without any lock
	// Ended is called with the last reports of a session.
	Ended func(ctx context.Context, session uint64, reports []engine.Report, gone bool)
}

// Sessions are all that a receiver has, and has had.
type Sessions struct {
	set Settings
	*table
	rate    rate
	turns   *turns
	floods  flood.Guard
	journal *journal           // nil: there is no dump
	trouble trouble            // what could not be delivered
	left    map[uint64]*losses // of sessions that the receiver before had, and that have not come back; the table's lock guards it
}

// Open opens the dump, if there is to be one, and remembers the sessions that it tells of.
func Open(set Settings) (*Sessions, error) {
	set.RetryDelay = cmp.Or(set.RetryDelay, defaultRetryDelay)
	t := &Sessions{set: set, table: newTable(set.Limit), turns: newTurns()}
	if set.Dump == "" {
		return t, nil
	}
	j, err := openJournal(set.Dump)
	if err != nil {
		return nil, err
	}
	t.journal = j
	for _, id := range j.remembered() { // the table forgets those that it was told of first
		t.table.remember(id, *j.past[id])
	}
	return t, nil
}

// Close closes the dump and its journal. Sessions are not ended: their engines keep what was not acknowledged.
func (t *Sessions) Close() error {
	if t.journal == nil {
		return nil
	}
	err := t.journal.close()
	t.journal = nil
	return err
}

// Why a connection gets no session.
var (
	ErrTooMany  = errors.New("max_sessions are open")
	ErrTooOften = errors.New("max_new_sessions of this container, user or host began within a minute")
	ErrForeign  = errors.New("the session is another process's")
)

// Attach gives a session to a connection of the process that has it. An older connection of the session is closed first, and its
// reader waited for. Where all sessions are taken, the holder of most of them loses one to those that have few.
func (t *Sessions) Attach(ctx context.Context, conn net.Conn, hello wire.Hello, peer share.Peer) (*Feed, error) {
	if t.set.BeforeEngine != nil {
		t.set.BeforeEngine() // not under the lock of the session table
	}
	if t.live(hello.Session) == nil && !t.rate.begin(peer.Group, t.set.PerMinute, time.Now()) {
		return nil, ErrTooOften
	}
	for {
		s, known := t.find(hello.Session, func(past remembered) *session {
			t.set.Telemetry.Sessions.Add(ctx, 1)
			s := newSession(hello.Session, t.set.NewEngine(hello), past)
			s.peer = peer
			s.lost = t.claim(hello.Session)
			return s
		})
		if s == nil {
			if err := t.makeRoom(ctx, peer); err != nil {
				return nil, err
			}
			continue
		}
		if !s.peer.Same(peer) {
			return nil, ErrForeign
		}
		if known && s.conn.close() {
			t.set.Telemetry.SessionsTakenOver.Add(ctx, 1)
		}
		select {
		case <-s.ingest:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		s.mu.Lock()
		if !s.ended {
			s.conn.set(conn)
			s.mu.Unlock()
			t.set.Starts.Arrive(s.id, hello.Info)
			return &Feed{t: t, s: s}, nil
		}
		s.mu.Unlock()
		s.ingest <- struct{}{}
	}
}

// makeRoom ends a session of the holder of most of them.
func (t *Sessions) makeRoom(ctx context.Context, newcomer share.Peer) error {
	s := t.givesWay(newcomer)
	if s == nil {
		return ErrTooMany
	}
	s.conn.close()
	select {
	case <-s.ingest:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { s.ingest <- struct{}{} }()
	if s.ended { // the holder of the ingest lock may read it
		return nil
	}
	t.set.Telemetry.SessionsShed.Add(ctx, 1)
	t.floods.Warn(t.set.Log, flood.Kind{Who: s.peer.Group, What: "shed"}, "a session gave way: max_sessions are open, and its container, user or host has most of them",
		zap.String("session", engine.SessionName(s.id)), zap.String("peer", s.peer.Group))
	_, _ = t.finish(ctx, s, true)
	return nil
}

// Sweep ends the sessions whose engines did not come back, all at once: one whose chunks no pipeline takes keeps none waiting.
func (t *Sessions) Sweep(ctx context.Context) {
	var ending sync.WaitGroup
	defer ending.Wait()
	for _, s := range t.all() {
		select {
		case <-s.ingest:
		default:
			continue // connected
		}
		s.mu.Lock()
		gone := !s.ended && !s.left.IsZero() && time.Since(s.left) >= t.set.ReconnectTimeout
		s.mu.Unlock()
		if !gone || ctx.Err() != nil {
			s.ingest <- struct{}{}
			continue
		}
		t.floods.Warn(t.set.Log, flood.Kind{Who: s.peer.Group, What: "gone"}, "engine is gone", zap.String("session", engine.SessionName(s.id)))
		ending.Go(func() {
			_, _ = t.finish(ctx, s, true) // what went wrong was logged and counted there
			s.ingest <- struct{}{}
		})
	}
}

// finish ends a session and exports its numbers for the last time. It returns the frame that may be acknowledged.
// The caller has the session's ingest lock.
func (t *Sessions) finish(ctx context.Context, s *session, gone bool) (uint64, error) {
	s.mu.Lock()
	s.engine.End(gone)
	s.collect()
	s.mu.Unlock()
	failed := t.deliverLast(ctx, s)
	s.mu.Lock()
	reports, unwritten, err := s.finish(t.journal, gone, failed)
	frame := s.acked
	s.mu.Unlock()
	t.delivered(ctx, unwritten, err)
	t.end(s, gone)
	t.set.Telemetry.Sessions.Add(ctx, -1)
	t.set.Ended(ctx, s.id, reports, gone)
	return frame, err
}
