package trace

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/kernhes/kernhes/internal/model"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/sample"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/step"
)

// stepOf is a step of kernels with these calls, 10 ns each with 5 ns between.
func stepOf(program string, calls ...string) *Step {
	resource := pcommon.NewMap()
	resource.PutStr(metadata.ResourceServiceName, "engine")
	s := &Step{Step: &step.Step{Shape: &step.Shape{}, First: 1000}, Source: NewSource("run", 3, 7, "hes", resource), Seq: 9}
	s.Program = program
	for i, c := range calls {
		start := 1000 + uint64(i)*15
		s.Spans = append(s.Spans, span.Make(start, start+10, span.Compute))
		s.Shape.Positions = append(s.Shape.Positions, step.Position{Call: c, Name: "kernel"})
		s.Last = start + 10
	}
	return s
}

// write returns what is written of a step.
func write(t *testing.T, w *Writer, s *Step) (all []ptrace.Traces) {
	t.Helper()
	spans, err := w.Write(s, sample.Ratio, func(batch ptrace.Traces) error {
		all = append(all, batch)
		return nil
	})
	require.NoError(t, err)
	n := 0
	for _, batch := range all {
		n += batch.SpanCount()
	}
	require.Equal(t, n, spans)
	return all
}

func each(all []ptrace.Traces, f func(ptrace.Span)) {
	for _, batch := range all {
		for _, r := range batch.ResourceSpans().All() {
			for _, scope := range r.ScopeSpans().All() {
				for _, s := range scope.Spans().All() {
					f(s)
				}
			}
		}
	}
}

// outline is the spans as a tree: a line each, indented below its parent, with its time from the step's start.
func outline(all []ptrace.Traces) string {
	below := map[pcommon.SpanID][]ptrace.Span{}
	each(all, func(s ptrace.Span) { below[s.ParentSpanID()] = append(below[s.ParentSpanID()], s) })
	var b strings.Builder
	var write func(id pcommon.SpanID, indent string)
	write = func(id pcommon.SpanID, indent string) {
		for _, s := range below[id] {
			fmt.Fprintf(&b, "%s%s %d-%d\n", indent, s.Name(), s.StartTimestamp()-1000, s.EndTimestamp()-1000)
			write(s.SpanID(), indent+"  ")
		}
	}
	write(pcommon.SpanID{}, "")
	return b.String()
}

func TestTree(t *testing.T) {
	s := stepOf("prefill", "prefill.target.moe.layers.8.gate", "prefill.target.moe.layers.8.experts", "prefill.target.moe.layers.8.experts",
		"prefill.target.moe.layers.9.experts", "", "prefill.index", "other.thing", "prefill", "prefill.index.a")
	assert.Equal(t, `step prefill 0-130
  target.moe 0-55
    layers.8 0-40
      gate 0-10
        kernel 0-10
      experts 15-40
        kernel 15-25
        kernel 30-40
    layers.9.experts 45-55
      kernel 45-55
  index 75-85
    kernel 75-85
  other.thing 90-100
    kernel 90-100
  prefill 105-115
    kernel 105-115
  index.a 120-130
    kernel 120-130
  kernel 60-70
`, outline(write(t, NewWriter(Options{}), s)))

	flat := outline(write(t, NewWriter(Options{Layout: Flat}), s))
	assert.Equal(t, 10, strings.Count(flat, "\n"))
	assert.Equal(t, 9, strings.Count(flat, "\n  kernel"))
}

// TestOneStepOnTwoDevicesHasDistinctSpans: its halves share run, seq, session, thread and begin.
func TestOneStepOnTwoDevicesHasDistinctSpans(t *testing.T) {
	traces, spans := map[pcommon.TraceID]bool{}, map[pcommon.SpanID]bool{}
	for device := range uint16(2) {
		s := stepOf("decode", "a", "b")
		s.Device, s.Begun, s.Thread = device, 990, 4
		each(write(t, NewWriter(Options{Layout: Flat}), s), func(s ptrace.Span) {
			traces[s.TraceID()] = true
			assert.False(t, spans[s.SpanID()], "span id %v is there twice", s.SpanID())
			spans[s.SpanID()] = true
		})
	}
	assert.Len(t, traces, 1)
	assert.Len(t, spans, 2*3, "a step and two kernels on each device")
}

func TestLevels(t *testing.T) {
	check := func(label string, want ...string) {
		t.Helper()
		var got []string
		begin := 0
		for _, end := range levels(label) {
			got = append(got, label[begin:end])
			begin = end + 1
		}
		assert.Equal(t, want, got, label)
	}
	check("")
	check("a", "a")
	check("prefill.target.moe.layers.8.experts", "prefill", "target", "moe", "layers.8", "experts")
	check("layers.12", "layers.12")
	check("a.1.2.b", "a.1.2", "b")
	check("a..b", "a.", "b")
	check(".", ".")
	check(".a", ".a")
	check("a.b.c.d.e.f.g.h.i.j", "a", "b", "c", "d", "e", "f", "g", "h.i.j")
	check(strings.Repeat(".", 10_000), strings.Repeat(".", 10_000))
}

func TestBounded(t *testing.T) {
	check := func(s string, limit int, want string) {
		t.Helper()
		assert.Equal(t, want, bounded(s, limit))
	}
	check("abc", 3, "abc")
	check("abcdefgh", 6, "abc…")
	check("äöüß", 7, "äö…") // not in the middle of a character
	check("a\x00b\n\x7f", 100, "a\uFFFDb\uFFFD\uFFFD")
	check("a\xff\xfeb", 100, "a\uFFFD\uFFFDb")
	for _, r := range []string{"\x01", "\xff", "a", "…", "\U0001F600"} {
		s := bounded(strings.Repeat(r, 1<<20), maxText)
		assert.LessOrEqual(t, len(s), maxText)
		assert.True(t, utf8.ValidString(s))
	}
}

// TestHostileTexts gives a step everything that an engine's texts can do.
func TestHostileTexts(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	noise := make([]byte, 1<<20)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	calls := []string{
		string(noise), strings.Repeat("a", 1<<20), strings.Repeat(".", 10_000), strings.Repeat("a.", 10_000), "\x00\x1b[31m\n", "\xff\xfe",
	}
	for i := range 3000 { // levels that change all the time
		calls = append(calls, fmt.Sprintf("a.b.c.d.e.f.%d.%s", i%2, strings.Repeat("\x07", 2000)))
	}
	s := stepOf(string(noise[:5000]), calls...)
	s.Vars, s.Reason = strings.Repeat("\x00", 1<<20), step.RangeOpen
	for i := range s.Shape.Positions {
		s.Shape.Positions[i].Op = s.Shape.Positions[i].Call
		s.Shape.Positions[i].Name = "_Z" + strings.Repeat("S_", i) + string(noise[:i])
	}
	all := write(t, NewWriter(Options{}), s)
	assert.Greater(t, len(all), 1)
	leaves, levels := 0, 0
	for _, batch := range all {
		assert.Less(t, (&ptrace.ProtoMarshaler{}).TracesSize(batch), 3<<20)
	}
	text := func(s string, limit int) {
		if len(s) > limit || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
			t.Fatalf("%d bytes of %.40q", len(s), s)
		}
	}
	each(all, func(s ptrace.Span) {
		text(s.Name(), maxName)
		for _, v := range s.Attributes().All() {
			text(v.AsString(), maxText)
		}
		if _, ok := s.Attributes().Get(metadata.AttributeKernKernelPosition); ok {
			leaves++
		} else {
			levels++
		}
	})
	assert.Equal(t, len(calls), leaves)
	assert.LessOrEqual(t, levels, 1+maxLevels*len(calls))
}

// TestBatchesAreBounded checks that the bound that batches go by is one.
func TestBatchesAreBounded(t *testing.T) {
	calls := make([]string, 20_000)
	for i := range calls {
		calls[i] = fmt.Sprintf("decode.layers.%d.%s", i/2, strings.Repeat("x", i%1500))
	}
	s := stepOf("decode", calls...)
	var sizes []int
	w := NewWriter(Options{})
	_, err := w.Write(s, sample.Slow, func(batch ptrace.Traces) error {
		sizes = append(sizes, (&ptrace.ProtoMarshaler{}).TracesSize(batch))
		return nil
	})
	require.NoError(t, err)
	for _, size := range sizes[:len(sizes)-1] {
		assert.Less(t, size, full+32<<10)
		assert.Greater(t, size, full/2, "the bound is not far off")
	}

	refused := errors.New("refused")
	n := 0
	spans, err := w.Write(s, sample.Slow, func(batch ptrace.Traces) error {
		if n++; n == 3 {
			return refused
		}
		return nil
	})
	require.ErrorIs(t, err, refused)
	assert.Equal(t, 3, n, "nothing is sent after an error")
	assert.Positive(t, spans)
}

// TestEachPartOfASpanIsBounded holds what is counted of each part to its size as OTLP, with what it adds to others' lengths.
func TestEachPartOfASpanIsBounded(t *testing.T) {
	name, value := strings.Repeat("n", 200), strings.Repeat("v", 3000)
	for what, add := range map[string]func(s *spanWriter){
		"nothing": func(*spanWriter) {},
		"text":    func(s *spanWriter) { s.text(name, value) },
		"int":     func(s *spanWriter) { s.int(name, math.MinInt64) },
		"given":   func(s *spanWriter) { s.given(name, math.MinInt64) },
		"bool":    func(s *spanWriter) { s.bool(name, true) },
		"fail":    func(s *spanWriter) { s.fail(name, value, math.MaxUint64) },
		"link":    func(s *spanWriter) { s.link(pcommon.TraceID{1}, pcommon.SpanID{2}) },
	} {
		b := newBatch(pcommon.NewMap(), Options{}, nil)
		empty := (&ptrace.ProtoMarshaler{}).TracesSize(b.traces)
		s := b.span(pcommon.TraceID{1}, pcommon.SpanID{2}, pcommon.SpanID{3}, name, 1<<63, math.MaxUint64)
		add(s)
		size := (&ptrace.ProtoMarshaler{}).TracesSize(b.traces) - empty
		assert.GreaterOrEqual(t, s.bytes, size, what)
		assert.Less(t, s.bytes, size+100, "%s: the bound is not far off", what)
		b.done(s)
		assert.Equal(t, s.bytes, b.bytes, what)
	}
}

// TestEveryAttributeOfAStep, by its public name: no two values are equal that could be taken for each other.
func TestEveryAttributeOfAStep(t *testing.T) {
	s := stepOf("decode", "a", "b")
	s.Vars, s.Seqs, s.Tokens, s.KV, s.Pairs = "seqs=8,tokens=21", 8, 21, 4096, true
	s.BatchBucket, s.KVBucket = "16", "16384"
	s.Compute, s.ExposedComm, s.Overlap, s.Idle, s.Foreign = 101, 202, 303, 404, 505
	root := write(t, NewWriter(Options{}), s)[0].ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
	assert.Equal(t, map[string]any{
		"kern.rank": int64(3), "kern.step.seq": int64(9), "kern.step.pairs": true, "kern.step.program": "decode",
		"kern.step.vars": "seqs=8,tokens=21", "kern.step.seqs": int64(8), "kern.step.tokens": int64(21), "kern.step.kv": int64(4096),
		"kern.step.batch_bucket": "16", "kern.step.kv_bucket": "16384", "kern.step.compute_ns": int64(101), "kern.step.comm_ns": int64(202),
		"kern.step.overlap_ns": int64(303), "kern.step.idle_ns": int64(404), "kern.step.foreign_compute_ns": int64(505),
		"kern.step.kernels": int64(2), "kern.step.complete": true, "kern.step.mode": "hes", "kern.step.sampled_by": "ratio",
	}, root.Attributes().AsRaw())
}

func TestIncompleteStep(t *testing.T) {
	s := stepOf("decode", "a")
	s.Reason = step.MissingRecords
	all := write(t, NewWriter(Options{}), s)
	root := all[0].ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
	assert.Equal(t, ptrace.StatusCodeError, root.Status().Code())
	assert.Equal(t, step.MissingRecords, root.Status().Message())
	require.Equal(t, 1, root.Events().Len())
	assert.Equal(t, metadata.EventKernStepIncomplete, root.Events().At(0).Name())
	assert.EqualValues(t, s.Last, root.Events().At(0).Timestamp())
	reason, _ := root.Attributes().Get(metadata.AttributeKernStepIncompleteReason)
	assert.Equal(t, step.MissingRecords, reason.Str())
	assert.Zero(t, s.Candidate().Wall, "and it is not judged by its time")
}

// TestAStepLinksToTheTracesOfItsRequests, those that have one, and not to more than it may.
func TestAStepLinksToTheTracesOfItsRequests(t *testing.T) {
	s := stepOf("decode", "a")
	s.Requests = []model.StepRequest{{ID: "untraced"}, {ID: "cmpl-1", Trace: "0af7651916cd43dd8448eb211c80319c"}, {ID: "odd", Trace: "0af7"}}
	links := write(t, NewWriter(Options{}), s)[0].ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Links()
	require.Equal(t, 1, links.Len())
	assert.Equal(t, "0af7651916cd43dd8448eb211c80319c", links.At(0).TraceID().String())
	assert.Equal(t, map[string]any{"kern.request.id": "cmpl-1"}, links.At(0).Attributes().AsRaw())
	for range 1000 {
		s.Requests = append(s.Requests, s.Requests[1])
	}
	links = write(t, NewWriter(Options{}), s)[0].ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Links()
	assert.Equal(t, maxRequestLinks, links.Len())
}

func TestStepsLinkToTheOneBefore(t *testing.T) {
	w := NewWriter(Options{})
	root := func(seq, first uint64, device uint16) ptrace.Span {
		s := stepOf("decode", "a")
		s.Seq, s.First, s.Begun, s.Device = seq, first, first, device
		return write(t, w, s)[0].ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
	}
	first := root(1, 1000, 0)
	assert.Zero(t, first.Links().Len())
	second := root(5, 1005, 0)
	require.Equal(t, 1, second.Links().Len())
	assert.Equal(t, first.TraceID(), second.Links().At(0).TraceID())
	assert.Equal(t, first.SpanID(), second.Links().At(0).SpanID())
	assert.Zero(t, root(5, 1005, 1).Links().Len(), "another device")
	assert.Zero(t, root(3, 1003, 0).Links().Len(), "a step that was kept and asked for later")
	assert.Equal(t, second.SpanID(), root(6, 1006, 0).Links().At(0).SpanID())
}

// TestIDsAreFrozen holds what collectors of several versions must agree on.
func TestIDsAreFrozen(t *testing.T) {
	s := stepOf("decode", "a")
	assert.Equal(t, "cede25024d45854927a76dd3a9f605f5", s.TraceID().String())
	assert.Equal(t, s.TraceID(), RunOf("run").ID(9))
	assert.NotEqual(t, RunOf("run").ID(9), RunOf("run").ID(8))
	assert.NotEqual(t, RunOf("run").ID(9), RunOf("other").ID(9))
	seen := map[pcommon.SpanID]bool{}
	for kind := range 3 {
		for n := range 100_000 {
			seen[seedOf(s).id(kind, n)] = true
		}
	}
	assert.Len(t, seen, 300_000)
	other := *s
	other.Step = new(step.Step)
	*other.Step = *s.Step
	other.Begun++
	assert.NotEqual(t, seedOf(s), seedOf(&other), "steps that wrongly share a seq are still two")
}

func TestGaps(t *testing.T) {
	check := func(want []int64, times ...uint64) {
		t.Helper()
		var spans []span.Span
		for i := 0; i < len(times); i += 2 {
			spans = append(spans, span.Make(times[i], times[i+1], span.Compute))
		}
		assert.Equal(t, want, gapsBefore(spans))
	}
	check([]int64{-1, 5, 0, 0, 7}, 10, 20, 25, 50, 30, 40, 50, 60, 67, 70)
	check([]int64{3, -1, 0}, 23, 30, 10, 20, 15, 18) // not in order of start
	check([]int64{})
}

func TestSizes(t *testing.T) {
	grid, block := sizes(&step.Position{Grid: [3]uint32{2147483647, 2, 65_535}, Block: [3]uint32{1024, 8, 64}})
	assert.Equal(t, "2147483647,2,65535", grid)
	assert.Equal(t, "1024,8,64", block)
}

// TestPlansAreBounded writes ever new shapes.
func TestPlansAreBounded(t *testing.T) {
	w := NewWriter(Options{})
	for range 400 {
		write(t, w, stepOf("decode", make([]string, 1000)...))
		require.LessOrEqual(t, w.planned, maxPlanned)
	}
	assert.LessOrEqual(t, len(w.plans), maxPlanned/1000)
}
