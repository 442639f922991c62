package kernparquetencodingextension

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/kernhes/kernhes/extension/kernparquetencodingextension/internal/metadata"
	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/chunklog"
	"github.com/kernhes/kernhes/internal/parquet"
)

// An encoding makes Parquet of chunks. It is safe for concurrent use.
type encoding struct {
	table     parquet.Table
	options   parquet.Options
	files     *files // nil: each message is a whole file
	telemetry *metadata.Telemetry
}

var (
	_ extension.Extension = (*encoding)(nil)
	_ plog.Marshaler      = (*encoding)(nil)
)

func newEncoding(c *Config, set component.TelemetrySettings) (*encoding, error) {
	telemetry, err := metadata.NewTelemetry(set)
	if err != nil {
		return nil, err
	}
	e := &encoding{
		table: parquet.Table(c.Table), telemetry: telemetry,
		// A message is in memory whole, so its rows may all wait: a row group early would only cost footer.
		options: parquet.Options{RowGroupRows: c.RowGroupRows, MaxPending: math.MaxInt, Compression: c.Compression},
	}
	if c.Path != "" {
		e.files = newFiles(c, set.Logger, telemetry)
	}
	return e, nil
}

// Start mends files that an earlier life left torn. Extensions start before exporters, so no exporter writes them yet.
func (e *encoding) Start(ctx context.Context, _ component.Host) error {
	if e.files == nil {
		return nil
	}
	return e.files.mend(ctx)
}

// Shutdown has nothing to do: whatever is open is the exporter's.
func (e *encoding) Shutdown(context.Context) error { return nil }

// MarshalLogs returns the rows of the chunks in logs as a message. Records that hold no chunk are counted and passed over;
// if there is nothing else, that is an error.
func (e *encoding) MarshalLogs(logs plog.Logs) ([]byte, error) {
	var pages bytes.Buffer
	w, err := parquet.NewWriter(&pages, e.table, e.options)
	if err != nil {
		return nil, err
	}
	taken := 0
	var refused error
	for _, resource := range logs.ResourceLogs().All() {
		for _, scope := range resource.ScopeLogs().All() {
			for _, record := range scope.LogRecords().All() {
				c, err := unpack(record)
				if err != nil {
					refused = err
					e.telemetry.RefusedRecords.Add(context.Background(), 1, metric.WithAttributes(attribute.String(metadata.AttributeReason, reason(err))))
					continue
				}
				taken++
				if err := w.WriteChunk(c); err != nil {
					return nil, err
				}
			}
		}
	}
	if taken == 0 {
		if refused == nil {
			return nil, errors.New("no log records")
		}
		return nil, fmt.Errorf("%d log records: %w", logs.LogRecordCount(), refused)
	}
	rows, _ := w.Rows()
	message, err := e.message(logs, w, &pages)
	if err == nil {
		e.telemetry.Rows.Add(context.Background(), rows)
	}
	return message, err
}

// message ends what w wrote as the exporter wants it.
func (e *encoding) message(logs plog.Logs, w *parquet.Writer, pages *bytes.Buffer) ([]byte, error) {
	if e.files == nil {
		err := w.Close(nil)
		return pages.Bytes(), err
	}
	if err := w.Flush(); err != nil {
		return nil, err
	}
	return e.files.place(logs.ResourceLogs().At(0).Resource(), pages.Bytes(), w.Groups())
}

func unpack(r plog.LogRecord) (*chunk.Chunk, error) {
	body, err := chunklog.Body(r)
	if err != nil {
		return nil, err
	}
	return chunk.Unpack(body)
}

// reason is why a record was refused, as the counter has it.
func reason(err error) string {
	switch {
	case errors.Is(err, chunk.ErrVersion):
		return "version"
	case errors.Is(err, chunk.ErrCorrupt):
		return "corrupt"
	}
	return "no_chunk"
}

// field names a file in the log.
func field(path string) zap.Field { return zap.String("path", path) }
