package trace

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
)

// A batch is spans of one rank on their way out.
type batch struct {
	resource pcommon.Map
	o        Options
	emit     func(ptrace.Traces) error
	traces   ptrace.Traces
	spans    ptrace.SpanSlice
	bytes    int // upper bound of the spans' size as OTLP
	sent     int // spans that emit took
	err      error
}

// full is when a batch goes: OTLP over gRPC takes 4 MiB by default, and one span may have 10 KiB at the most.
const full = 2 << 20

// Upper bounds of what OTLP adds, in bytes: to an attribute tags and lengths of key, value and pair; to a span its ids,
// times, kind and lengths; a status and an event or a link.
const (
	attributeBytes = 24
	spanBytes      = 112
	statusBytes    = 64
	linkBytes      = 48
)

func newBatch(resource pcommon.Map, o Options, emit func(ptrace.Traces) error) *batch {
	b := &batch{resource: resource, o: o, emit: emit}
	b.begin()
	return b
}

func (b *batch) begin() {
	b.traces = ptrace.NewTraces()
	r := b.traces.ResourceSpans().AppendEmpty()
	b.resource.CopyTo(r.Resource().Attributes())
	scope := r.ScopeSpans().AppendEmpty()
	scope.Scope().SetName(metadata.ScopeName)
	scope.Scope().SetVersion(b.o.Version)
	b.spans = scope.Spans()
	b.bytes = 0
}

// span begins a span; done ends it.
func (b *batch) span(trace pcommon.TraceID, id, parent pcommon.SpanID, name string, start, end uint64) *spanWriter {
	s := b.spans.AppendEmpty()
	s.SetTraceID(trace)
	s.SetSpanID(id)
	s.SetParentSpanID(parent)
	s.SetName(name)
	s.SetKind(ptrace.SpanKindInternal)
	s.SetStartTimestamp(pcommon.Timestamp(start))
	s.SetEndTimestamp(pcommon.Timestamp(end))
	s.Attributes().EnsureCapacity(16)
	return &spanWriter{s, s.Attributes(), spanBytes + len(name)}
}

func (b *batch) done(s *spanWriter) {
	b.bytes += s.bytes
	if b.bytes >= full {
		b.flush()
		b.begin()
	}
}

// flush hands over what there is, unless an earlier batch was refused.
func (b *batch) flush() {
	n := b.spans.Len()
	if n == 0 || b.err != nil {
		return
	}
	if b.err = b.emit(b.traces); b.err == nil {
		b.sent += n
	}
}

// A spanWriter is a span with a bound of its size.
type spanWriter struct {
	to         ptrace.Span
	attributes pcommon.Map
	bytes      int
}

// text puts an attribute; an empty text is left out.
func (s *spanWriter) text(name, value string) {
	if value != "" {
		s.attributes.PutStr(name, value)
		s.bytes += attributeBytes + len(name) + len(value)
	}
}

func (s *spanWriter) int(name string, value int64) {
	s.attributes.PutInt(name, value)
	s.bytes += attributeBytes + len(name)
}

// given puts a number of things; 0 stands for what was not given.
func (s *spanWriter) given(name string, value int64) {
	if value != 0 {
		s.int(name, value)
	}
}

func (s *spanWriter) bool(name string, value bool) {
	s.attributes.PutBool(name, value)
	s.bytes += attributeBytes + len(name)
}

// fail says that the span is not what it should be, by an event at a time, unix ns.
func (s *spanWriter) fail(event, reason string, at uint64) {
	s.to.Status().SetCode(ptrace.StatusCodeError)
	s.to.Status().SetMessage(reason)
	e := s.to.Events().AppendEmpty()
	e.SetName(event)
	e.SetTimestamp(pcommon.Timestamp(at))
	s.bytes += statusBytes + len(event) + len(reason)
}

// linkRequest links to the trace of a request: without a span, so that the request's id must be there.
func (s *spanWriter) linkRequest(trace pcommon.TraceID, request string) {
	l := s.to.Links().AppendEmpty()
	l.SetTraceID(trace)
	l.Attributes().PutStr(metadata.AttributeKernRequestId, request)
	s.bytes += linkBytes + attributeBytes + len(metadata.AttributeKernRequestId) + len(request)
}

func (s *spanWriter) link(trace pcommon.TraceID, id pcommon.SpanID) {
	l := s.to.Links().AppendEmpty()
	l.SetTraceID(trace)
	l.SetSpanID(id)
	s.bytes += linkBytes
}
