//go:build chain

package chain_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/kernhes/kernhes/internal/oracle"
)

// A spanKey names a span.
type spanKey struct {
	trace pcommon.TraceID
	span  pcommon.SpanID
}

// A tracedSpan is what is looked at of a span.
type tracedSpan struct {
	trace      pcommon.TraceID
	parent     pcommon.SpanID
	name       string
	start, end int64  // unix ns
	kernel     string // all that the recording says of it; "": no kernel
	step       tracedStep
}

// A tracedStep is what a step's span says beyond that; zero for other spans.
type tracedStep struct {
	run                                           string
	rank                                          int64
	seq, kernels, compute, comm, overlap, foreign int64
	text                                          string // of the range, without seq
	sampledBy                                     string
	pairs                                         bool
	complete                                      bool
}

// spans are all that a back end has, by id.
type spans struct {
	of      map[spanKey]tracedSpan
	doubles int // that came again, the same
}

// take adds what a back end answered. It fails for a span that is there already and another.
func (s *spans) take(t testing.TB, traces ptrace.Traces) {
	t.Helper()
	if s.of == nil {
		s.of = map[spanKey]tracedSpan{}
	}
	for _, r := range traces.ResourceSpans().All() {
		run, _ := r.Resource().Attributes().Get("kern.run")
		for _, scope := range r.ScopeSpans().All() {
			for _, span := range scope.Spans().All() {
				key := spanKey{span.TraceID(), span.SpanID()}
				require.False(t, key.trace.IsEmpty() || key.span.IsEmpty(), "%s has no id", span.Name())
				got := tracedSpanOf(span, run.Str())
				before, ok := s.of[key]
				if ok {
					// A collector that was started anew has not heard all kernels before the step.
					before.step.foreign = got.step.foreign
					require.Equal(t, before, got, "two spans of one id")
					s.doubles++
				}
				s.of[key] = got
			}
		}
	}
}

func tracedSpanOf(s ptrace.Span, run string) tracedSpan {
	of := tracedSpan{trace: s.TraceID(), parent: s.ParentSpanID(), name: s.Name(),
		start: int64(s.StartTimestamp()), end: int64(s.EndTimestamp())}
	text := func(name string) string { v, _ := s.Attributes().Get(name); return v.Str() }
	number := func(name string) int64 { v, _ := s.Attributes().Get(name); return v.Int() }
	is := func(name string) bool { v, _ := s.Attributes().Get(name); return v.Bool() }
	if _, ok := s.Attributes().Get("kern.kernel.position"); ok {
		of.kernel = kernelLine(of.start, of.end, text("kern.kernel.symbol"), text("kern.kernel.class"), text("kern.kernel.call"),
			number("kern.kernel.stream"))
	}
	if !of.parent.IsEmpty() {
		return of
	}
	of.step = tracedStep{run: run, rank: number("kern.rank"), seq: number("kern.step.seq"), kernels: number("kern.step.kernels"),
		compute: number("kern.step.compute_ns"), comm: number("kern.step.comm_ns"), overlap: number("kern.step.overlap_ns"),
		foreign: number("kern.step.foreign_compute_ns"), sampledBy: text("kern.step.sampled_by"), pairs: is("kern.step.pairs"),
		complete: is("kern.step.complete")}
	of.step.text = fmt.Sprintf("step:%s %s", text("kern.step.program"), text("kern.step.vars"))
	if kv := number("kern.step.kv"); kv != 0 {
		of.step.text += fmt.Sprintf(",kv=%d", kv)
	}
	return of
}

// kernelLine is a kernel as spans and the oracle both have it.
func kernelLine(start, end int64, symbol, class, call string, stream int64) string {
	return fmt.Sprint(start, end, symbol, class, call, stream)
}

// A pictured is a step's span and its kernels' lines, sorted.
type pictured struct {
	tracedSpan
	kernels []string
}

// steps gives the steps of a run by rank and first start. It fails unless each span has its parent, each parent reaches exactly
// from its first child to its last, and each leaf is a kernel.
func (s *spans) steps(t testing.TB, run string) map[int64]map[int64]pictured {
	t.Helper()
	type extent struct{ start, end int64 }
	below := map[spanKey]extent{}
	kernels := map[spanKey][]string{} // by root
	for key, span := range s.of {
		if span.parent.IsEmpty() {
			continue
		}
		up := spanKey{key.trace, span.parent}
		_, ok := s.of[up]
		require.True(t, ok, "%s is an orphan", span.name)
		e, ok := below[up]
		if !ok {
			e = extent{span.start, span.end}
		}
		below[up] = extent{min(e.start, span.start), max(e.end, span.end)}
		if span.kernel == "" {
			continue
		}
		for !s.of[up].parent.IsEmpty() {
			up.span = s.of[up].parent
		}
		kernels[up] = append(kernels[up], span.kernel)
	}
	steps := map[int64]map[int64]pictured{}
	for key, span := range s.of {
		e, parent := below[key]
		require.NotEqual(t, parent, span.kernel != "", "%s: a leaf is a kernel, and nothing else is", span.name)
		if parent {
			require.Equal(t, e, extent{span.start, span.end}, "%s reaches from its first child to its last", span.name)
		}
		if !span.parent.IsEmpty() || span.step.run != run {
			continue
		}
		of := steps[span.step.rank]
		if of == nil {
			of = map[int64]pictured{}
			steps[span.step.rank] = of
		}
		if before, ok := of[span.start]; ok {
			// Sent again to a collector that cannot number it, a step is there a second time: alone.
			require.NotEqual(t, before.step.pairs, span.step.pairs, "two steps of rank %d begin at %d", span.step.rank, span.start)
			if before.step.pairs {
				continue
			}
		}
		slices.Sort(kernels[key])
		of[span.start] = pictured{span, kernels[key]}
	}
	return steps
}

// arePictured fails unless steps of a rank are the recording's, kernel by kernel; all of them if whole. Foreign compute is looked
// at only then: it depends on what a collector has heard.
func arePictured(t testing.TB, work *oracle.Work, rank int64, steps map[int64]pictured, whole bool) {
	t.Helper()
	rows := work.Devices[0].Steps
	kernels := make([][]string, work.StepRanges)
	for _, k := range work.Kernels {
		if k.Step < 0 || k.Invalid {
			continue
		}
		class := "compute"
		if k.Comm {
			class = "comm"
		}
		kernels[k.Step] = append(kernels[k.Step], kernelLine(k.Start, k.End, k.Name, class, k.Call, int64(k.Stream)))
	}
	found := 0
	for _, row := range rows {
		got, ok := steps[row.First]
		if !ok {
			require.False(t, whole, "rank %d: no trace of %s", rank, row.Text)
			continue
		}
		found++
		text, seq := withoutSeq(row.Text)
		if seq < 0 {
			seq = got.step.seq
		}
		want := tracedStep{run: got.step.run, rank: rank, seq: seq, kernels: int64(row.Kernels), compute: row.Compute, comm: row.Comm,
			overlap: row.Overlap, foreign: row.Foreign, text: text, sampledBy: got.step.sampledBy, pairs: got.step.pairs,
			complete: row.Complete}
		if !whole {
			want.foreign = got.step.foreign
		}
		require.Equal(t, want, got.step)
		require.Equal(t, row.Last, got.end, "rank %d: end of %s", rank, row.Text)
		program, _, _ := strings.Cut(strings.TrimPrefix(text, "step:"), " ")
		assert.Equal(t, "step "+program, got.name)
		slices.Sort(kernels[row.Order])
		require.Equal(t, kernels[row.Order], got.kernels, "rank %d: kernels of %s", rank, row.Text)
	}
	assert.Len(t, steps, found, "rank %d: steps that were recorded", rank)
}

// withoutSeq is a step's text and the seq that it had; -1: none.
func withoutSeq(text string) (string, int64) {
	program, pairs, _ := strings.Cut(text, " ")
	seq := int64(-1)
	var kept []string
	for pair := range strings.SplitSeq(pairs, ",") {
		if v, ok := strings.CutPrefix(pair, "seq="); ok {
			seq, _ = strconv.ParseInt(v, 10, 64)
		} else {
			kept = append(kept, pair)
		}
	}
	return program + " " + strings.Join(kept, ","), seq
}

// tracesOf are the traces of a recording's steps, in order of the steps' pushes; those that are not there are empty.
func tracesOf(work *oracle.Work, steps map[int64]pictured) []pcommon.TraceID {
	ids := make([]pcommon.TraceID, work.StepRanges)
	for _, row := range work.Devices[0].Steps {
		ids[row.Order] = steps[row.First].trace
	}
	return ids
}
