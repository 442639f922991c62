package trace

import (
	"cmp"
	"encoding/hex"
	"slices"
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/sample"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/step"
)

// Bounds of what a Writer keeps: plans in kernels and levels, some 100 bytes each, and ranks for links.
const (
	maxPlanned = 1 << 18
	maxLast    = 4096
)

// A Writer writes steps as spans. It is not safe for concurrent use.
type Writer struct {
	o       Options
	plans   map[planKey]*plan
	planned int
	last    map[rankKey]lastStep
}

type planKey struct {
	shape   *step.Shape
	program string
}

type rankKey struct {
	session uint64
	device  uint16
}

// A lastStep is the step of a rank that was written last.
type lastStep struct {
	first uint64 // unix ns
	trace pcommon.TraceID
	span  pcommon.SpanID
}

// NewWriter returns a Writer.
func NewWriter(o Options) *Writer {
	if o.Layout == "" {
		o.Layout = Tree
	}
	return &Writer{o: o, plans: map[planKey]*plan{}, last: map[rankKey]lastStep{}}
}

// Write hands the spans of a step to emit, in batches of less than 3 MiB of OTLP, and returns how many emit took. It ends
// with the first error of emit. A step that is written again has the same spans under the same ids.
func (w *Writer) Write(s *Step, why sample.Why, emit func(ptrace.Traces) error) (spans int, err error) {
	v := &view{w: w, s: s, plan: w.plan(s), trace: s.TraceID(), seed: seedOf(s)}
	v.out = newBatch(s.Source.Resource, w.o, emit)
	v.step(why)
	for i := range v.plan.levels {
		v.level(i)
	}
	v.kernels()
	v.out.flush()
	return v.out.sent, v.out.err
}

// plan returns the plan of a step's shape.
func (w *Writer) plan(s *Step) *plan {
	key := planKey{s.Shape, s.Program}
	if p := w.plans[key]; p != nil {
		return p
	}
	p := newPlan(s.Shape, s.Program, w.o.Layout)
	if w.planned+p.size() > maxPlanned {
		clear(w.plans)
		w.planned = 0
	}
	w.plans[key] = p
	w.planned += p.size()
	return p
}

// A view is a step as it is written.
type view struct {
	w     *Writer
	s     *Step
	plan  *plan
	trace pcommon.TraceID
	seed  seed
	out   *batch
}

// step writes the step's span.
func (v *view) step(why sample.Why) {
	s := v.s
	id := s.SpanID()
	to := v.out.span(v.trace, id, pcommon.SpanID{}, bounded("step "+s.Program, maxName), s.First, s.Last)
	to.int(metadata.AttributeKernRank, s.Source.Rank)
	to.int(metadata.AttributeKernStepSeq, int64(s.Seq))
	to.bool(metadata.AttributeKernStepPairs, s.Pairs)
	to.text(metadata.AttributeKernStepProgram, bounded(s.Program, maxText))
	to.text(metadata.AttributeKernStepVars, bounded(s.Vars, maxText))
	to.given(metadata.AttributeKernStepSeqs, s.Seqs)
	to.given(metadata.AttributeKernStepTokens, s.Tokens)
	to.given(metadata.AttributeKernStepKv, s.KV)
	to.text(metadata.AttributeKernStepBatchBucket, s.BatchBucket)
	to.text(metadata.AttributeKernStepKvBucket, s.KVBucket)
	to.int(metadata.AttributeKernStepComputeNs, int64(s.Compute))
	to.int(metadata.AttributeKernStepCommNs, int64(s.ExposedComm))
	to.int(metadata.AttributeKernStepOverlapNs, int64(s.Overlap))
	to.int(metadata.AttributeKernStepIdleNs, int64(s.Idle))
	to.int(metadata.AttributeKernStepForeignComputeNs, int64(s.Foreign))
	to.int(metadata.AttributeKernStepKernels, int64(len(s.Spans)))
	to.bool(metadata.AttributeKernStepComplete, s.Complete())
	to.text(metadata.AttributeKernStepMode, bounded(s.Source.Mode, maxName))
	to.text(metadata.AttributeKernStepSampledBy, string(why))
	if !s.Complete() {
		to.text(metadata.AttributeKernStepIncompleteReason, s.Reason)
		to.fail(metadata.EventKernStepIncomplete, s.Reason, s.Last)
	}
	v.link(to, id)
	v.linkRequests(to)
	v.out.done(to)
}

// link links the step to the one of its rank that was written before it.
func (v *view) link(to *spanWriter, id pcommon.SpanID) {
	key := rankKey{v.s.Source.Session, v.s.Device}
	before, ok := v.w.last[key]
	if ok && before.first >= v.s.First {
		return // a kept step that was asked for later, or the same one again
	}
	if ok {
		to.link(before.trace, before.span)
	} else if len(v.w.last) >= maxLast {
		clear(v.w.last)
	}
	v.w.last[key] = lastStep{v.s.First, v.trace, id}
}

// maxRequestLinks bounds the requests that a step links to.
const maxRequestLinks = 128

// linkRequests links the step to the traces of its requests, as far as they are known. Which span of them it belongs to nobody says.
func (v *view) linkRequests(to *spanWriter) {
	linked := 0
	for i := range v.s.Requests {
		r := &v.s.Requests[i]
		var trace pcommon.TraceID
		if n, err := hex.Decode(trace[:], []byte(r.Trace)); err != nil || n != len(trace) {
			continue
		}
		if linked++; linked > maxRequestLinks {
			return
		}
		to.linkRequest(trace, bounded(r.ID, maxText))
	}
}

// parent is the id of a level, or of the step.
func (v *view) parent(level int) pcommon.SpanID {
	if level == none {
		return v.seed.id(ofStep, 0)
	}
	return v.seed.id(ofLevel, level)
}

// level writes the span of a level: exactly from the first start to the last end of the kernels below.
func (v *view) level(i int) {
	l := &v.plan.levels[i]
	start, end := uint64(span.Limit), uint64(0)
	for _, k := range v.s.Spans[l.from:l.to] {
		start, end = min(start, k.Start), max(end, k.End())
	}
	to := v.out.span(v.trace, v.seed.id(ofLevel, i), v.parent(l.parent), l.name, start, end)
	to.text(metadata.AttributeKernLevelLabel, l.label)
	to.int(metadata.AttributeKernLevelKernels, int64(l.to-l.from))
	v.out.done(to)
}

// kernels writes the spans of the kernels.
func (v *view) kernels() {
	gaps := gapsBefore(v.s.Spans)
	launches, launch := v.s.Launches(), 0
	for i, k := range v.s.Spans {
		if v.out.err != nil {
			return
		}
		pos := &v.s.Shape.Positions[i]
		look := &v.plan.looks[v.plan.look[i]]
		to := v.out.span(v.trace, v.seed.id(ofKernel, i), v.parent(v.plan.parents[i]), look.title, k.Start, k.End())
		if c := v.plan.of[i]; c != none {
			to.text(metadata.AttributeKernKernelCall, v.plan.calls[c].text)
			if pos.Op != "" {
				to.text(metadata.AttributeKernKernelOp, bounded(pos.Op, maxText))
			}
		}
		to.text(metadata.AttributeKernKernelClass, k.Class().String())
		to.bool(metadata.AttributeKernKernelFused, pos.Fused)
		to.text(metadata.AttributeKernKernelName, look.name)
		to.text(metadata.AttributeKernKernelSymbol, look.symbol)
		to.int(metadata.AttributeKernKernelPosition, int64(i))
		if i > 0 && pos.Launch != v.s.Shape.Positions[i-1].Launch {
			launch++ // each of them has a kernel
		}
		if launch < len(launches) {
			v.launch(to, launches[launch], pos.Node)
		}
		to.int(metadata.AttributeKernKernelStream, int64(pos.Stream))
		grid, block := sizes(pos)
		to.text(metadata.AttributeKernKernelGrid, grid)
		to.text(metadata.AttributeKernKernelBlock, block)
		if gaps[i] >= 0 {
			to.int(metadata.AttributeKernKernelGapNs, gaps[i])
		}
		v.out.done(to)
	}
}

// launch says how a kernel was launched.
func (v *view) launch(to *spanWriter, l step.Launch, node uint32) {
	to.int(metadata.AttributeKernKernelCorrelation, int64(l.Correlation))
	if l.Graph != 0 {
		to.int(metadata.AttributeKernKernelGraphNode, int64(uint64(l.Graph)<<32|uint64(node)))
	}
}

// sizes are a kernel's grid and block as text: x,y,z.
func sizes(p *step.Position) (grid, block string) {
	var b [40]byte
	text := func(of [3]uint32) string {
		t := strconv.AppendUint(b[:0], uint64(of[0]), 10)
		t = strconv.AppendUint(append(t, ','), uint64(of[1]), 10)
		return string(strconv.AppendUint(append(t, ','), uint64(of[2]), 10))
	}
	return text(p.Grid), text(p.Block)
}

// gapsBefore says of each kernel how long none ran right before it, in ns; -1 for the first one.
func gapsBefore(spans []span.Span) []int64 {
	order := make([]int, len(spans))
	for i := range order {
		order[i] = i
	}
	if !span.Sorted(spans) {
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(spans[a].Start, spans[b].Start) })
	}
	gaps := make([]int64, len(spans))
	var end uint64
	for n, i := range order {
		s := spans[i]
		switch {
		case n == 0:
			gaps[i] = -1
		case s.Start > end:
			gaps[i] = int64(s.Start - end)
		}
		end = max(end, s.End())
	}
	return gaps
}
