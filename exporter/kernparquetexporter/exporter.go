package kernparquetexporter

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/kernhes/kernhes/exporter/kernparquetexporter/internal/archive"
	"github.com/kernhes/kernhes/exporter/kernparquetexporter/internal/metadata"
	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/chunklog"
	"github.com/kernhes/kernhes/internal/parquet"
)

// maxPending is how many kernels may wait in memory for their row groups, at some 20 bytes each where shapes repeat: 16 ranks
// of the default. Beyond, a rank gets a smaller row group. While files are being closed, theirs wait besides.
const maxPending = 16 * parquet.DefaultRowGroupRows

// parquetExporter owns the archive, its clock and the HTTP server.
type parquetExporter struct {
	set       exporter.Settings
	config    *Config
	disk      archive.Disk
	telemetry *metadata.Telemetry

	unpacking sync.Mutex // of unpacker
	unpacker  chunk.Unpacker

	archive archive.Store // nil: not started
	server  *server
	stop    context.CancelFunc
	ticking sync.WaitGroup
}

func newExporter(set exporter.Settings, config *Config, disk archive.Disk) (*parquetExporter, error) {
	telemetry, err := metadata.NewTelemetry(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	return &parquetExporter{set: set, config: config, disk: disk, telemetry: telemetry}, nil
}

// start takes the directory and begins to close what another process left open in it.
func (e *parquetExporter) start(ctx context.Context, host component.Host) error {
	name, err := os.Hostname()
	if err != nil {
		name = ""
	}
	o := archive.Options{
		Disk: e.disk, Host: archive.HostName(name), Roll: e.config.Roll,
		MaxAge: e.config.Retention.MaxAge, MaxBytes: e.config.Retention.MaxBytes,
		Tables: parquet.Options{
			RowGroupRows: e.config.RowGroupRows, MaxPending: max(maxPending, e.config.RowGroupRows), Compression: e.config.Compression,
			Profile: parquet.Profile(e.config.Profile),
		},
		Logger: e.set.Logger,
	}
	var a archive.Store
	if e.config.Layout == layoutHive {
		root := archive.NewDirectory(e.config.Directory)
		root.Mode = fs.FileMode(e.config.FileMode)
		a, err = archive.OpenPartitions(o, root, time.Now())
	} else {
		a, err = archive.Open(o)
	}
	if err != nil {
		return fmt.Errorf("directory: %w", err)
	}
	if e.config.HTTP.HasValue() {
		e.server, err = serve(ctx, e.config.HTTP.Get(), e.config.HTTPHosts, host, e.set.TelemetrySettings, a)
		if errors.Is(err, syscall.EADDRINUSE) {
			// The archive is worth more than its server: files close by the clock and at shutdown all the same.
			e.set.Logger.Warn("http::endpoint: cannot listen, so the archive answers no POST /flush and no GET /status", zap.Error(err))
			componentstatus.ReportStatus(host, componentstatus.NewRecoverableErrorEvent(err))
			err = nil
		}
		if err != nil {
			return errors.Join(err, a.Close(ctx))
		}
	}
	if err := e.telemetry.Observe(func() metadata.Observed { return observed(a) }); err != nil {
		return errors.Join(err, e.server.shutdown(ctx), a.Close(ctx))
	}
	e.archive = a
	ticking, stop := context.WithCancel(context.Background())
	e.stop = stop
	e.ticking.Go(func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case now := <-ticker.C:
				a.Tick(now)
			case <-ticking.Done():
				return
			}
		}
	})
	return nil
}

// shutdown closes the open files. What is not closed when ctx ends is closed by the next start.
func (e *parquetExporter) shutdown(ctx context.Context) error {
	if e.archive == nil {
		return nil
	}
	e.stop()
	e.ticking.Wait()
	err := errors.Join(e.server.shutdown(ctx), e.archive.Close(ctx), e.telemetry.Shutdown())
	e.archive = nil
	return err
}

// consume takes the chunks of logs, all or none. Records that hold none are counted; to send them again would change nothing.
func (e *parquetExporter) consume(ctx context.Context, logs plog.Logs) error {
	var chunks []archive.Chunk
	refused := map[string]int64{}
	e.unpacking.Lock()
	for _, resource := range logs.ResourceLogs().All() {
		for _, scope := range resource.ScopeLogs().All() {
			for _, record := range scope.LogRecords().All() {
				c, err := e.chunkOf(record)
				if err != nil {
					refused[reasonOf(err)]++
					continue
				}
				chunks = append(chunks, c)
			}
		}
	}
	e.unpacking.Unlock()
	if len(chunks) > 0 {
		if err := e.archive.Add(chunks, time.Now()); err != nil {
			return err
		}
	}
	for reason, n := range refused {
		e.telemetry.RefusedRecords.Add(ctx, n, metric.WithAttributes(attribute.String("reason", reason)))
	}
	return nil
}

func (e *parquetExporter) chunkOf(record plog.LogRecord) (archive.Chunk, error) {
	body, err := chunklog.Body(record)
	if err != nil {
		return archive.Chunk{}, err
	}
	c, err := e.unpacker.Unpack(body)
	return archive.Chunk{Body: body, Chunk: c}, err
}

// reasonOf is the attribute reason of a record that was refused.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, chunklog.ErrNoChunk):
		return "not_a_chunk"
	case errors.Is(err, chunk.ErrVersion):
		return "version"
	default:
		return "corrupt"
	}
}

// observed is what the archive has counted, as the instruments take it.
func observed(a archive.Store) metadata.Observed {
	n := a.Counts()
	rows := func(r archive.Rows) map[string]int64 {
		return map[string]int64{string(parquet.Kernels): r.Kernels, string(parquet.Steps): r.Steps, string(parquet.Copies): r.Copies, string(parquet.Requests): r.Requests}
	}
	return metadata.Observed{
		Chunks: n.Chunks, DuplicateChunks: n.Duplicates, Rows: rows(n.Rows), LostRows: rows(n.Lost), ClosedFiles: n.Files,
		ClosedBytes: n.Bytes, RecoveredParts: n.Recovered, DamagedBytes: n.Damaged, UnclosedParts: int64(a.Unclosed()), RemovedFiles: n.Removed,
		Failures: n.Failures,
	}
}
