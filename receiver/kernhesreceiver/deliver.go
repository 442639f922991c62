package kernhesreceiver

import (
	"context"
	"time"

	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.uber.org/zap"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
)

// deliver writes and sends what a session has, and reports whether there is something to acknowledge. While the logs
// pipeline does not keep up, it waits, so that nothing more is read from the engine, whose shim then buffers within its
// bound. The caller has the session's turn.
func (r *kernhesReceiver) deliver(ctx context.Context, s *session) (pending bool) {
	for {
		lost, err := s.deliver(r.dump, func(p parcel) error { return r.send(ctx, p) })
		r.delivered(ctx, lost, err)
		if err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.engine.settled()
			return s.engine.acknowledgeable() > s.acked
		}
		if s.unsent() <= maxUnsent {
			return false
		}
		select {
		case <-time.After(retryDelay):
		case <-ctx.Done():
			return false
		}
	}
}

// retryDelay is the time between two attempts to give the pipeline what it did not take.
const retryDelay = 100 * time.Millisecond

// send gives a chunk to the logs pipeline. What that refuses for good is counted, and gone.
func (r *kernhesReceiver) send(ctx context.Context, p parcel) error {
	ctx = r.obs.StartLogsOp(ctx)
	err := r.logs.ConsumeLogs(ctx, p.logs)
	r.obs.EndLogsOp(ctx, metadata.Type.String(), 1, err)
	if err != nil && consumererror.IsPermanent(err) {
		r.refused(ctx, p, err)
		return nil
	}
	return err
}

// refused counts a chunk that is given up.
func (r *kernhesReceiver) refused(ctx context.Context, p parcel, err error) {
	r.telemetry.RefusedKernels.Add(ctx, int64(p.kernels))
	r.telemetry.RefusedCopies.Add(ctx, int64(p.copies))
	r.set.Logger.Error("the logs pipeline refused packed steps", zap.Int("kernels", p.kernels), zap.Int("copies", p.copies), zap.Error(err))
}

// delivered says when delivering begins to fail and when it works again, and counts the lines that were given up.
func (r *kernhesReceiver) delivered(ctx context.Context, lost int, err error) {
	if lost > 0 {
		r.telemetry.DumpErrors.Add(ctx, int64(lost))
	}
	if down := err != nil; r.down.Swap(down) != down {
		if down {
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
		lost, err := s.deliver(r.dump, func(p parcel) error { return r.send(ctx, p) })
		r.delivered(ctx, lost, err)
		if err == nil || len(s.parcels) == 0 {
			return err
		}
		if try == lastTries || ctx.Err() != nil {
			for _, p := range s.parcels {
				r.refused(ctx, p, err)
			}
			s.parcels = nil
			continue
		}
		time.Sleep(retryDelay)
	}
}
