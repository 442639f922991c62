package kernhesreceiver

import (
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"

	"context"
	"sync"
	"time"

	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.uber.org/zap"

	"github.com/kernhes/kernhes/internal/chunklog"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
)

// deliver writes and sends what a session has, and reports whether there is something to acknowledge. While the logs
// pipeline does not keep up, it waits, so that nothing more is read from the engine, whose shim then buffers within its
// bound. The caller has the session's turn.
func (r *kernhesReceiver) deliver(ctx context.Context, s *session) (pending bool) {
	for {
		lost, err := s.deliver(r.dump, func(c *engine.OutboundChunk) (bool, error) { return r.send(ctx, c) })
		r.delivered(ctx, lost, err)
		if err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.engine.Settled()
			return s.engine.Acknowledgeable() > s.acked
		}
		if s.unsent() <= maxUnsent {
			return false
		}
		select {
		case <-time.After(r.retryDelay):
		case <-ctx.Done():
			return false
		}
	}
}

// defaultRetryDelay is the time between two attempts to give the pipeline what it did not take.
const defaultRetryDelay = 100 * time.Millisecond

// send gives a chunk to the logs pipeline. What that refuses for good, taken says, is counted and gone.
func (r *kernhesReceiver) send(ctx context.Context, c *engine.OutboundChunk) (taken bool, err error) {
	ctx = r.obs.StartLogsOp(ctx)
	err = r.logs.ConsumeLogs(ctx, logsOf(c))
	r.obs.EndLogsOp(ctx, metadata.Type.String(), 1, err)
	if err != nil && consumererror.IsPermanent(err) {
		r.refused(ctx, c, err)
		return false, nil
	}
	return err == nil, err
}

// logsOf is a chunk as the logs pipeline takes it.
func logsOf(c *engine.OutboundChunk) plog.Logs {
	logs := plog.NewLogs()
	resource := logs.ResourceLogs().AppendEmpty()
	rankResource(resource.Resource().Attributes(), c.Source, c.Source.Instance())
	chunklog.Put(c.Sealed, resource.ScopeLogs().AppendEmpty().LogRecords().AppendEmpty(), c.Source.Run())
	return logs
}

// refused counts a chunk that is given up.
func (r *kernhesReceiver) refused(ctx context.Context, c *engine.OutboundChunk, err error) {
	kernels, copies := uint64(c.Kernels), uint64(c.Copies)
	r.trouble.refuse(kernels+copies, err)
	r.telemetry.RefusedKernels.Add(ctx, int64(kernels))
	r.telemetry.RefusedCopies.Add(ctx, int64(copies))
	r.set.Logger.Error("the logs pipeline refused packed steps", zap.Uint64("kernels", kernels), zap.Uint64("copies", copies), zap.Error(err))
}

// delivered says when delivering begins to fail and when it works again, and counts the lines that were given up.
func (r *kernhesReceiver) delivered(ctx context.Context, lost int, err error) {
	if lost > 0 {
		r.telemetry.DumpErrors.Add(ctx, int64(lost))
	}
	if changed := r.trouble.note(err, time.Now()); changed {
		if err != nil {
			r.set.Logger.Error("nothing is acknowledged until this works again", zap.Error(err))
		} else {
			r.set.Logger.Info("all is delivered again")
		}
	}
}

// lastTries is how often an ended session's last chunks are offered: for five seconds.
const lastTries = 50

// deliverLast delivers what an ended session has; chunks that the pipeline does not take are given up.
func (r *kernhesReceiver) deliverLast(ctx context.Context, s *session) error {
	for try := 1; ; try++ {
		lost, err := s.deliver(r.dump, func(c *engine.OutboundChunk) (bool, error) { return r.send(ctx, c) })
		r.delivered(ctx, lost, err)
		if err == nil || len(s.chunks) == 0 {
			return err
		}
		if try == lastTries || ctx.Err() != nil {
			for len(s.chunks) > 0 {
				r.refused(ctx, &s.chunks[0], err)
				s.parted(false)
			}
			continue
		}
		time.Sleep(r.retryDelay)
	}
}

// A trouble is what goes wrong with delivering, of all sessions.
type trouble struct {
	mu      sync.Mutex
	since   time.Time // zero: all was delivered the last time
	last    string    // what went wrong last
	refused uint64    // records
}

// note takes what became of delivering, and reports whether it begins to fail or works again.
func (t *trouble) note(err error, now time.Time) (changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := !t.since.IsZero()
	switch {
	case err == nil:
		t.since = time.Time{}
		return was
	case !was:
		t.since = now
	}
	t.last = err.Error()
	return !was
}

// refuse counts records that were refused for good.
func (t *trouble) refuse(records uint64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refused += records
	t.last = err.Error()
}

// status is nil while nothing goes or went wrong that matters still.
func (t *trouble) status() *deliveryStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since.IsZero() && t.refused == 0 {
		return nil
	}
	s := &deliveryStatus{Error: clean(t.last), Refused: t.refused}
	if since := t.since; !since.IsZero() {
		s.Since = &since
	}
	return s
}
