package session

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/flood"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/logs"
)

// defaultRetryDelay is the time between two attempts to give the pipeline what it did not take.
const defaultRetryDelay = 100 * time.Millisecond

// lastTries is how often an ended session's last chunks are offered: for five seconds.
const lastTries = 50

// deliver writes and sends what a session has, and reports whether there is something to acknowledge. While the logs
// pipeline does not keep up, it waits, so that nothing more is read from the engine, whose shim then buffers within its
// bound. The caller has the session's ingest lock.
func (t *Sessions) deliver(ctx context.Context, s *session) (pending bool) {
	for {
		lost, err := s.deliver(t.journal, func(c *engine.OutboundChunk) (bool, error) { return t.send(ctx, c) })
		t.delivered(ctx, lost, err)
		if err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.engine.Acknowledgeable() > s.acked
		}
		if s.unsent() <= maxUnsent {
			return false
		}
		select {
		case <-time.After(t.set.RetryDelay):
		case <-ctx.Done():
			return false
		}
	}
}

// send gives a chunk to the logs pipeline. What that refuses for good, taken says, is counted and gone.
func (t *Sessions) send(ctx context.Context, c *engine.OutboundChunk) (taken bool, err error) {
	err = t.set.Logs.Send(ctx, c)
	if err != nil && logs.IsRefused(err) {
		t.refuse(ctx, c, err)
		return false, nil
	}
	return err == nil, err
}

// refuse counts a chunk that is given up.
func (t *Sessions) refuse(ctx context.Context, c *engine.OutboundChunk, err error) {
	t.trouble.refuse(t.set.Logs.Refuse(ctx, c, err), err)
}

// delivered says when delivering begins to fail and when it works again, and counts the lines that were given up.
func (t *Sessions) delivered(ctx context.Context, lost int, err error) {
	if lost > 0 {
		t.set.Telemetry.DumpErrors.Add(ctx, int64(lost))
	}
	if changed := t.trouble.note(err, time.Now()); changed {
		if err != nil {
			t.floods.Error(t.set.Log, flood.Kind{What: "stuck"}, "nothing is acknowledged until this works again", zap.Error(err))
		} else {
			t.floods.Info(t.set.Log, flood.Kind{What: "delivered"}, "all is delivered again")
		}
	}
}

// deliverLast delivers what an ended session has; chunks that the pipeline does not take are given up.
func (t *Sessions) deliverLast(ctx context.Context, s *session) error {
	for try := 1; ; try++ {
		lost, err := s.deliver(t.journal, func(c *engine.OutboundChunk) (bool, error) { return t.send(ctx, c) })
		t.delivered(ctx, lost, err)
		if err == nil || len(s.chunks) == 0 {
			return err
		}
		if try == lastTries || ctx.Err() != nil {
			for len(s.chunks) > 0 {
				t.refuse(ctx, &s.chunks[0], err)
				s.parted(false)
			}
			continue
		}
		select {
		case <-time.After(t.set.RetryDelay):
		case <-ctx.Done():
		}
	}
}
