package kernwaitsconnector

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/connector"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.uber.org/zap"

	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/cause"
	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/chunklog"
	"github.com/kernhes/kernhes/internal/digest"
	"github.com/kernhes/kernhes/internal/waitsums"
)

// waitsConnector owns the comparison, its clock and its metrics.
type waitsConnector struct {
	set    connector.Settings
	config *Config
	next   consumer.Metrics
	begun  time.Time

	mu         sync.Mutex // held while steps are compared
	comparison *comparison
	refused    map[string]uint64 // log records, by reason

	server  *server
	stop    context.CancelFunc // nil: not started
	ticking sync.WaitGroup
}

func newConnector(set connector.Settings, config *Config, next consumer.Metrics) *waitsConnector {
	return &waitsConnector{set: set, config: config, next: next, begun: time.Now(), comparison: newComparison(config), refused: map[string]uint64{}}
}

// Start begins to send metrics.
func (c *waitsConnector) Start(ctx context.Context, host component.Host) error {
	var err error
	if c.server, err = c.config.serve(ctx, host, c.set.TelemetrySettings, statusHandler(c.status)); err != nil {
		return err
	}
	ticking, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.ticking.Go(func() {
		settling, exporting := time.NewTicker(time.Second), time.NewTicker(c.config.CollectionInterval)
		defer settling.Stop()
		defer exporting.Stop()
		for {
			select {
			case now := <-settling.C:
				c.tick(now)
			case now := <-exporting.C:
				c.export(ticking, now)
			case <-ticking.Done():
				return
			}
		}
	})
	return nil
}

// tick settles what has waited long enough.
func (c *waitsConnector) tick(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.comparison.tick(now)
	c.publish()
}

// publish hands what ranks waited to the live page of this process. The caller holds c.mu.
func (c *waitsConnector) publish() {
	sums := map[waitsums.Key]waitsums.Sum{}
	for _, run := range c.comparison.pairing.Runs() {
		for _, sum := range c.comparison.run(run).ledger.Sums() {
			for i, name := range cause.Names {
				if sum.Wait[i]+sum.Blame[i] > 0 {
					k := waitsums.Key{Run: run.Name, Rank: sum.Rank, Cause: name}
					s := sums[k]
					sums[k] = waitsums.Sum{Wait: s.Wait + sum.Wait[i], Blame: s.Blame + sum.Blame[i]}
				}
			}
		}
	}
	waitsums.Publish(c, sums)
}

// Shutdown compares what waits, and sends the last metrics.
func (c *waitsConnector) Shutdown(ctx context.Context) error {
	if c.stop == nil {
		return nil
	}
	c.stop()
	c.stop = nil
	c.ticking.Wait()
	waitsums.Withdraw(c)
	err := c.server.shutdown(ctx)
	c.mu.Lock()
	c.comparison.pairing.Flush()
	c.mu.Unlock()
	c.export(ctx, time.Now())
	return err
}

// Capabilities says that logs stay as they are.
func (c *waitsConnector) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

// ConsumeLogs takes the chunks of logs. Records that hold none are counted; to send them again would change nothing.
func (c *waitsConnector) ConsumeLogs(_ context.Context, logs plog.Logs) error {
	for _, resource := range logs.ResourceLogs().All() {
		for _, scope := range resource.ScopeLogs().All() {
			for _, record := range scope.LogRecords().All() {
				c.record(record)
			}
		}
	}
	return nil
}

// record takes one log record: a chunk, or a digest of one.
func (c *waitsConnector) record(record plog.LogRecord) {
	var err error
	if chunklog.IsDigest(record) {
		err = c.takeDigest(record)
	} else {
		err = c.takeChunk(record)
	}
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.refused[reasonOf(err)]++
	}
}

func (c *waitsConnector) takeChunk(record plog.LogRecord) error {
	body, err := chunklog.Body(record)
	if err != nil {
		return err
	}
	taken, err := chunk.Unpack(body)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.comparison.chunk(taken, time.Now())
	return nil
}

func (c *waitsConnector) takeDigest(record plog.LogRecord) error {
	body, err := chunklog.DigestBody(record)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	taken, err := digest.Decode(body, c.comparison.shapes)
	if err != nil {
		return err
	}
	c.comparison.digest(taken, time.Now())
	return nil
}

// reasonOf is why a log record was refused.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, chunklog.ErrNoChunk):
		return "not_a_chunk"
	case errors.Is(err, chunk.ErrVersion), errors.Is(err, digest.ErrVersion):
		return "version"
	default:
		return "corrupt"
	}
}

// export sends all metrics.
func (c *waitsConnector) export(ctx context.Context, now time.Time) {
	if err := c.next.ConsumeMetrics(ctx, c.metrics(now)); err != nil && ctx.Err() == nil {
		c.set.Logger.Warn("the metrics pipeline refused the waits; the next ones hold them too", zap.Error(err))
	}
}
