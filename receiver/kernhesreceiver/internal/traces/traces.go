// Package traces turns final steps into spans for the pipeline, as far as sampling picks them.
package traces

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/receiverhelper"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/resource"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/sample"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/trace"
)

// A pick is a step on its way to the traces pipeline.
type pick = sample.Pick[trace.Step]

// maxPicks bounds the steps that wait to be written: at the default budget some 100 s of them.
const maxPicks = 1024

// A Sink offers final steps to sampling and writes those that are picked, in a goroutine of its own: sessions never
// wait for the traces pipeline.
type Sink struct {
	sampler   *sample.Sampler[trace.Step]
	writer    *trace.Writer
	next      consumer.Traces
	obs       *receiverhelper.ObsReport
	telemetry *metadata.Telemetry
	told      sample.Counts // as far as the counters have them

	making  sync.Mutex
	sources map[*engine.Source]*trace.Source // those that were asked for lately

	queue   chan pick
	stop    chan struct{} // closed: write what waits, and end
	running sync.WaitGroup
	closing sync.Once
}

func New(cfg sample.Config, layout trace.Layout, version string, next consumer.Traces, obs *receiverhelper.ObsReport,
	telemetry *metadata.Telemetry) *Sink {
	return &Sink{
		sampler: sample.New[trace.Step](cfg),
		writer:  trace.NewWriter(trace.Options{Layout: layout, Version: version}),
		next:    next, obs: obs, telemetry: telemetry,
		queue: make(chan pick, maxPicks), stop: make(chan struct{}),
	}
}

// Start begins to write. interval is how often the counters are brought up to date.
func (t *Sink) Start(interval time.Duration) {
	t.running.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case p := <-t.queue:
				t.write(p)
			case <-ticker.C:
				t.count()
			case <-t.stop:
				t.drain()
				return
			}
		}
	})
}

// Shutdown writes what waits, unless the context ends before. Steps that are offered later are counted as not written.
func (t *Sink) Shutdown(ctx context.Context) error {
	t.closing.Do(func() { close(t.stop) })
	done := make(chan struct{})
	go func() { t.running.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *Sink) drain() {
	for {
		select {
		case p := <-t.queue:
			t.write(p)
		default:
			t.count()
			return
		}
	}
}

// Take offers a final step to sampling, and returns its span if it will be written.
func (t *Sink) Take(f engine.FinalStep) (engine.SpanID, bool) {
	s := trace.Step{Step: f.Step, Source: t.source(f.Source), Seq: f.Seq, Pairs: f.Pairs, BatchBucket: f.BatchBucket, KVBucket: f.KVBucket}
	if !t.offer(s) {
		return engine.SpanID{}, false
	}
	return engine.SpanID{Trace: s.TraceID(), Span: s.SpanID()}, true
}

// maxSources bounds the sources that are kept with their resources.
const maxSources = 1024

// source is a rank as traces have it.
func (t *Sink) source(s *engine.Source) *trace.Source {
	t.making.Lock()
	defer t.making.Unlock()
	if made := t.sources[s]; made != nil {
		return made
	}
	if t.sources == nil || len(t.sources) >= maxSources {
		t.sources = map[*engine.Source]*trace.Source{}
	}
	attributes := pcommon.NewMap()
	resource.Rank(attributes, s, s.Instance())
	made := trace.NewSource(s.Run(), s.Rank, s.Session, s.Mode, attributes)
	t.sources[s] = made
	return made
}

// offer takes a final step, and reports whether it will be written.
func (t *Sink) offer(s trace.Step) (picked bool) {
	for _, p := range t.sampler.Offer(s.Candidate(), time.Now(), nil) {
		queued := t.put(p)
		picked = picked || queued && p.Item.Step == s.Step
	}
	return picked
}

// put queues a step, if there is room.
func (t *Sink) put(p pick) bool {
	select {
	case t.queue <- p:
		t.telemetry.SampledSteps.Add(context.Background(), 1,
			metric.WithAttributes(attribute.String("sampled_by", string(p.Why))))
		return true
	default:
		t.lost("queue")
		return false
	}
}

// lost counts a step that was picked and not written.
func (t *Sink) lost(reason string) {
	t.telemetry.UnsampledSteps.Add(context.Background(), 1, metric.WithAttributes(attribute.String("reason", reason)))
}

// write gives the spans of a step to the pipeline.
func (t *Sink) write(p pick) {
	spans, err := t.writer.Write(&p.Item, p.Why, func(traces ptrace.Traces) error {
		n := traces.SpanCount()
		ctx := t.obs.StartTracesOp(context.Background())
		err := t.next.ConsumeTraces(ctx, traces)
		t.obs.EndTracesOp(ctx, metadata.Type.String(), n, err)
		return err
	})
	t.telemetry.SampledSpans.Add(context.Background(), int64(spans))
	t.sampler.Spent(spans - p.Spans)
	if err != nil {
		t.lost("refused")
	}
}

// count brings the counters up to what sampling says.
func (t *Sink) count() {
	c := t.sampler.Counts()
	if n := c.Away - t.told.Away; n > 0 {
		t.telemetry.UnsampledSteps.Add(context.Background(), int64(n), metric.WithAttributes(attribute.String("reason", "budget")))
	}
	if n := c.Forgotten - t.told.Forgotten; n > 0 {
		t.telemetry.ForgottenSteps.Add(context.Background(), int64(n))
	}
	t.told = c
}

// traceLook is how often a request for traces looks whether a rank that it waits for has ended.
const traceLook = 200 * time.Millisecond

// Demand has the steps of a request written, and returns what was taken once all of it is, or the context ends.
func (t *Sink) Demand(ctx context.Context, ask sample.Ask) (sample.Got, error) {
	request, picks, err := t.sampler.Ask(ask, time.Now(), nil)
	if err != nil {
		return sample.Got{}, err
	}
	for _, p := range picks {
		t.put(p)
	}
	look := time.NewTicker(traceLook)
	defer look.Stop()
	for {
		select {
		case <-look.C: // a rank that has ended is waited for no more
			t.sampler.Settle(request, time.Now())
			continue
		case <-request.Done:
		case <-ctx.Done():
		case <-t.stop:
		}
		return t.sampler.End(request, time.Now()), nil
	}
}
