// Package logs turns chunks of packed steps into log records for the pipeline.
package logs

import (
	"context"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/receiver/receiverhelper"
	"go.uber.org/zap"

	"github.com/kernhes/kernhes/internal/chunklog"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/flood"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/resource"
)

// A Sender gives chunks to the logs pipeline.
type Sender struct {
	log       *zap.Logger
	next      consumer.Logs
	obs       *receiverhelper.ObsReport
	telemetry *metadata.Telemetry
	floods    flood.Guard
}

func New(log *zap.Logger, next consumer.Logs, obs *receiverhelper.ObsReport, telemetry *metadata.Telemetry) *Sender {
	return &Sender{log: log, next: next, obs: obs, telemetry: telemetry}
}

// Send gives a chunk to the pipeline. An error is permanent where the pipeline refuses the chunk for good.
func (s *Sender) Send(ctx context.Context, c *engine.OutboundChunk) error {
	ctx = s.obs.StartLogsOp(ctx)
	err := s.next.ConsumeLogs(ctx, logsOf(c))
	s.obs.EndLogsOp(ctx, metadata.Type.String(), 1, err)
	return err
}

// IsRefused reports whether an error says that a chunk is refused for good.
func IsRefused(err error) bool { return consumererror.IsPermanent(err) }

// logsOf is a chunk as the logs pipeline takes it.
func logsOf(c *engine.OutboundChunk) plog.Logs {
	logs := plog.NewLogs()
	entry := logs.ResourceLogs().AppendEmpty()
	resource.Rank(entry.Resource().Attributes(), c.Source, c.Source.Instance())
	chunklog.Put(c.Sealed, entry.ScopeLogs().AppendEmpty().LogRecords().AppendEmpty(), c.Source.Run())
	return logs
}

// Refuse counts a chunk that is given up, and returns how many records are in it.
func (s *Sender) Refuse(ctx context.Context, c *engine.OutboundChunk, err error) (records uint64) {
	kernels, copies := uint64(c.Kernels), uint64(c.Copies)
	s.telemetry.RefusedKernels.Add(ctx, int64(kernels))
	s.telemetry.RefusedCopies.Add(ctx, int64(copies))
	s.floods.Error(s.log, flood.Kind{Who: c.Source.Run(), What: err.Error()}, "the logs pipeline refused packed steps", zap.Uint64("kernels", kernels), zap.Uint64("copies", copies), zap.Error(err))
	return kernels + copies
}
