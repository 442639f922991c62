package traces

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/receiverhelper"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/kernhes/kernhes/internal/oracle"
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/enginetest"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/sample"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/trace"
)

// everything samples each step, with room for all.
var everything = sample.Config{OneIn: 1, Slow: 1.5, Keep: 2 * time.Second, KeepBytes: 64 << 20, Spans: 1 << 40}

// A tracingBench is a tracer with its consumer.
type tracingBench struct {
	*Sink
	sink *consumertest.TracesSink
	tel  *componenttest.Telemetry
}

func newTracingBench(tb testing.TB, cfg sample.Config, layout trace.Layout, next consumer.Traces) *tracingBench {
	tb.Helper()
	b := &tracingBench{sink: new(consumertest.TracesSink), tel: componenttest.NewTelemetry()}
	tb.Cleanup(func() { require.NoError(tb, b.tel.Shutdown(context.WithoutCancel(tb.Context()))) })
	set := receivertest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = b.tel.NewTelemetrySettings()
	obs, err := receiverhelper.NewObsReport(receiverhelper.ObsReportSettings{
		ReceiverID: set.ID, Transport: "unix", LongLivedCtx: true, ReceiverCreateSettings: set,
	})
	require.NoError(tb, err)
	telemetry, err := metadata.NewTelemetry(set.TelemetrySettings)
	require.NoError(tb, err)
	if next == nil {
		next = b.sink
	}
	b.Sink = New(cfg, layout, "1.2.3", next, obs, telemetry)
	return b
}

// number is the sum of a counter.
func (b *tracingBench) number(t *testing.T, name string) int64 {
	t.Helper()
	var got metricdata.ResourceMetrics
	require.NoError(t, b.tel.Reader.Collect(t.Context(), &got))
	for _, s := range got.ScopeMetrics {
		for _, m := range s.Metrics {
			if m.Name == "otelcol_"+name {
				return sumOf(t, m)
			}
		}
	}
	return 0
}

// sumOf sums an instrument over its attributes.
func sumOf(t *testing.T, m metricdata.Metrics) (sum int64) {
	t.Helper()
	data, ok := m.Data.(metricdata.Sum[int64])
	require.True(t, ok)
	for _, p := range data.DataPoints {
		sum += p.Value
	}
	return sum
}

// tracedEngine is a process of the default configuration whose steps a tracer is offered; nil: none is.
func tracedEngine(t *Sink, hello wire.Hello) *engine.Process {
	set := enginetest.Settings()
	if t != nil {
		set.Sink = t
	}
	return engine.NewEngines(set).Begin(hello)
}

// playTraced plays frames into a process whose steps the tracer is offered, and writes what is picked after each frame.
func (b *tracingBench) playTraced(tb testing.TB, frames [][]byte) *engine.Process {
	tb.Helper()
	r := wire.NewReader(bytes.NewReader(bytes.Join(frames, nil)))
	var p *engine.Process
	for {
		f, err := r.Next()
		require.NoError(tb, err)
		if f.Kind == wire.KindHello {
			h, err := wire.ParseHello(f.Body)
			require.NoError(tb, err)
			p = tracedEngine(b.Sink, h)
			continue
		}
		require.NoError(tb, p.Frame(f))
		if f.Kind == wire.KindBye {
			p.End(false)
			b.drain()
			return p
		}
		b.drain()
	}
}

// A tracedSpan is a span with its resource.
type tracedSpan struct {
	ptrace.Span
	resource pcommon.Map
}

func (s tracedSpan) int(name string) int64 {
	v, ok := s.Attributes().Get(name)
	if !ok {
		return -1
	}
	return v.Int()
}

func (s tracedSpan) text(name string) string {
	v, ok := s.Attributes().Get(name)
	if !ok {
		return ""
	}
	return v.Str()
}

// spansOf are all spans by id, checked for doubles and for the size of their batches.
func spansOf(t *testing.T, all []ptrace.Traces) map[spanKey]tracedSpan {
	t.Helper()
	spans := map[spanKey]tracedSpan{}
	for _, traces := range all {
		require.Less(t, (&ptrace.ProtoMarshaler{}).TracesSize(traces), 3<<20)
		for _, r := range traces.ResourceSpans().All() {
			for _, scope := range r.ScopeSpans().All() {
				assert.Equal(t, metadata.ScopeName, scope.Scope().Name())
				for _, s := range scope.Spans().All() {
					id := key(s.TraceID(), s.SpanID())
					if _, ok := spans[id]; ok || s.SpanID().IsEmpty() {
						t.Fatalf("span %v of %s is doubled, or has no id", id, s.Name())
					}
					spans[id] = tracedSpan{s, r.Resource().Attributes()}
				}
			}
		}
	}
	return spans
}

// A spanKey names a span.
type spanKey struct {
	trace pcommon.TraceID
	span  pcommon.SpanID
}

func key(trace pcommon.TraceID, span pcommon.SpanID) spanKey { return spanKey{trace, span} }

// whole fails unless each span has its parent, and each parent reaches exactly from its first child to its last. It
// returns the steps' spans and their leaves.
func whole(t *testing.T, spans map[spanKey]tracedSpan) (roots []tracedSpan, leaves map[spanKey][]tracedSpan) {
	t.Helper()
	type extent struct{ start, end pcommon.Timestamp }
	below := map[spanKey]extent{}
	leaves = map[spanKey][]tracedSpan{}
	for id, s := range spans {
		if s.ParentSpanID().IsEmpty() {
			roots = append(roots, s)
			continue
		}
		up := key(s.TraceID(), s.ParentSpanID())
		if _, ok := spans[up]; !ok {
			t.Fatalf("%s is an orphan", s.Name())
		}
		e, ok := below[up]
		if !ok {
			e = extent{s.StartTimestamp(), s.EndTimestamp()}
		}
		below[up] = extent{min(e.start, s.StartTimestamp()), max(e.end, s.EndTimestamp())}
		if s.int(metadata.AttributeKernKernelPosition) < 0 {
			continue
		}
		top := id
		for !spans[top].ParentSpanID().IsEmpty() {
			top = key(s.TraceID(), spans[top].ParentSpanID())
		}
		leaves[top] = append(leaves[top], s)
	}
	for id, s := range spans {
		if e, ok := below[id]; ok && e != (extent{s.StartTimestamp(), s.EndTimestamp()}) {
			t.Fatalf("%s is not what its children are: %v", s.Name(), e)
		} else if !ok && s.int(metadata.AttributeKernKernelPosition) < 0 {
			t.Fatalf("%s has no child and is no kernel", s.Name())
		}
	}
	return roots, leaves
}

// kernelLines are what spans or the oracle say of a step's kernels, in order of start.
func kernelLines(spans []tracedSpan) (lines []string) {
	for _, s := range spans {
		lines = append(lines, fmt.Sprint(s.StartTimestamp().AsTime().UnixNano(), s.EndTimestamp().AsTime().UnixNano(),
			s.text(metadata.AttributeKernKernelSymbol), s.text(metadata.AttributeKernKernelClass),
			s.text(metadata.AttributeKernKernelCall), s.int(metadata.AttributeKernKernelStream)))
	}
	slices.Sort(lines)
	return lines
}

func oracleLines(w *oracle.Work) map[string][]string {
	lines := map[string][]string{}
	for _, k := range w.Kernels {
		if k.Step < 0 {
			continue
		}
		class := "compute"
		if k.Comm {
			class = "comm"
		}
		lines[k.StepText] = append(lines[k.StepText], fmt.Sprint(k.Start, k.End, k.Name, class, k.Call, int64(k.Stream)))
	}
	for _, l := range lines {
		slices.Sort(l)
	}
	return lines
}
