package kernwaitsconnector

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/connector"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/metadata"
	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/chunklog"
	"github.com/kernhes/kernhes/internal/digest"
)

// maxWhole is how long whole chunks may be asked for at a time.
const maxWhole = time.Hour

// A digester turns chunks into their digests, for another collector. It sends whole chunks where that is set or asked for.
type digester struct {
	set    connector.Settings
	config *Config
	next   consumer.Logs

	mu       sync.Mutex
	shapes   *digest.Shapes
	builders map[builderKey]*digest.Builder
	whole    time.Time // up to which whole chunks go besides
	warned   time.Time // of records that were refused
	server   *server
	refused  metric.Int64Counter
}

func newDigester(set connector.Settings, config *Config, next consumer.Logs) (*digester, error) {
	d := &digester{set: set, config: config, next: next, shapes: digest.NewShapes(), builders: map[builderKey]*digest.Builder{}}
	var err error
	d.refused, err = metadata.RefusedDigests(set.TelemetrySettings)
	return d, err
}

// Start begins to answer requests for whole chunks.
func (d *digester) Start(ctx context.Context, host component.Host) (err error) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /chunks", d.ask)
	d.server, err = d.config.serve(ctx, host, d.set.TelemetrySettings, mux)
	return err
}

// Shutdown ends the answers.
func (d *digester) Shutdown(ctx context.Context) error { return d.server.shutdown(ctx) }

// Capabilities says that logs stay as they are.
func (d *digester) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

// ask has whole chunks sent for a while: POST /chunks?for=1m.
func (d *digester) ask(w http.ResponseWriter, r *http.Request) {
	long, err := time.ParseDuration(r.URL.Query().Get("for"))
	if err != nil || long < 0 || long > maxWhole {
		http.Error(w, fmt.Sprintf("for: %q: want a duration up to %v, as 1m", r.URL.Query().Get("for"), maxWhole), http.StatusBadRequest)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.whole = time.Now().Add(long)
	fmt.Fprintf(w, "whole chunks are sent until %s\n", d.whole.UTC().Format(time.RFC3339))
}

// ConsumeLogs hands on the digests of chunks. Other records go on as they are.
func (d *digester) ConsumeLogs(ctx context.Context, logs plog.Logs) error {
	out := plog.NewLogs()
	d.mu.Lock()
	whole := d.config.Send == sendChunks || time.Now().Before(d.whole)
	for _, resource := range logs.ResourceLogs().All() {
		for _, scope := range resource.ScopeLogs().All() {
			for _, record := range scope.LogRecords().All() {
				to := func() plog.LogRecord {
					r := out.ResourceLogs().AppendEmpty()
					resource.Resource().CopyTo(r.Resource())
					s := r.ScopeLogs().AppendEmpty()
					scope.Scope().CopyTo(s.Scope())
					return s.LogRecords().AppendEmpty()
				}
				body, err := d.digest(record)
				if body != nil && d.config.Send == sendDigests {
					chunklog.PutDigest(body, record, to())
				}
				if err != nil || whole {
					record.CopyTo(to())
				}
			}
		}
	}
	d.mu.Unlock()
	if n := out.LogRecordCount(); n > 0 {
		if err := d.next.ConsumeLogs(ctx, out); err != nil {
			d.lost(ctx, int64(n), err)
		}
	}
	return nil // chunks that came again would hold up those who sent them
}

// lost counts records that the next pipeline refused. The archive has what they are of.
func (d *digester) lost(ctx context.Context, n int64, err error) {
	d.refused.Add(ctx, n)
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); now.Sub(d.warned) > time.Minute {
		d.warned = now
		d.set.Logger.Warn("the next pipeline refused digests, which are lost; the next minute's are counted only", zap.Error(err))
	}
}

// digest is that of a chunk's record; nil: it has no step.
func (d *digester) digest(record plog.LogRecord) ([]byte, error) {
	body, err := chunklog.Body(record)
	if err != nil {
		return nil, err
	}
	from, err := chunk.Unpack(body)
	if err != nil {
		return nil, err
	}
	defer d.shapes.Forget()
	key := builderKey{from.Run, from.Rank, from.Session, from.Device}
	b := d.builders[key]
	if b == nil {
		if len(d.builders) >= maxBuilders {
			clear(d.builders)
		}
		b = &digest.Builder{Shapes: d.shapes}
		d.builders[key] = b
	}
	r := digest.Record{Identity: from.Identity}
	for i := range from.Steps {
		if s := b.Add(&from.Steps[i]); s != nil {
			r.Steps = append(r.Steps, s)
		}
	}
	r.Sums = b.TakeSums()
	if len(r.Steps) == 0 {
		return nil, nil
	}
	return digest.Append(nil, &r), nil
}
