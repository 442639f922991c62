package traces

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/kernhes/kernhes/internal/fakeshim"
	"github.com/kernhes/kernhes/internal/krec"
	"github.com/kernhes/kernhes/internal/oracle"
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata/metadatatest"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/sample"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/session"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/shimscript"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/trace"
)

func TestSpansEqualTheRecordings(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and in one goroutine: the race detector has nothing to see")
	}
	ids := map[string][]string{} // of traces by recording
	for _, name := range tracedRecordings(testing.Short()) {
		recording, err := krec.Read(filepath.Join(recordingsFolder, name+".krec.zst"))
		require.NoError(t, err)
		work := oracle.Do(recording, oracle.NCCL)
		want, rows := oracleLines(work), work.Devices[0].Steps
		for _, layout := range []trace.Layout{trace.Tree, trace.Flat} {
			if layout == trace.Flat && name != "tp2.rank0" {
				continue // one is enough
			}
			t.Run(name+"/"+string(layout), func(t *testing.T) {
				b := newTracingBench(t, everything, layout, nil)
				b.playTraced(t, fakeshim.Frames(recording, fakeshim.Options{}))
				spans := spansOf(t, b.sink.AllTraces())
				roots, leaves := whole(t, spans)
				require.Len(t, roots, len(rows))
				assert.EqualValues(t, len(spans), b.number(t, "kernhes_sampled_spans"))
				assert.EqualValues(t, len(rows), b.number(t, "kernhes_sampled_steps"))

				byText := map[string]oracle.Row{}
				for _, row := range rows {
					byText[row.Text] = row
				}
				for _, root := range roots {
					text := textOf(root)
					row, ok := byText[text]
					require.True(t, ok, "no step %q was recorded", text)
					delete(byText, text)
					assert.Equal(t, "step "+strings.TrimPrefix(strings.Fields(text)[0], "step:"), root.Name())
					got := []int64{
						root.StartTimestamp().AsTime().UnixNano(), root.EndTimestamp().AsTime().UnixNano(),
						root.int(metadata.AttributeKernStepKernels), root.int(metadata.AttributeKernStepComputeNs),
						root.int(metadata.AttributeKernStepCommNs), root.int(metadata.AttributeKernStepOverlapNs),
						root.int(metadata.AttributeKernStepForeignComputeNs),
					}
					require.Equal(t, []int64{row.First, row.Last, int64(row.Kernels), row.Compute, row.Comm, row.Overlap, row.Foreign}, got, text)
					require.Equal(t, want[text], kernelLines(leaves[key(root.TraceID(), root.SpanID())]), text)
				}
				assert.Empty(t, byText)
				kernels := 0
				for _, l := range leaves {
					kernels += len(l)
				}
				if layout == trace.Flat {
					assert.Len(t, spans, len(roots)+kernels)
				} else {
					assert.Greater(t, len(spans), len(roots)+kernels)
				}
				ids[name] = nil
				for _, root := range roots {
					ids[name] = append(ids[name], root.TraceID().String())
				}
				slices.Sort(ids[name])

				if layout == trace.Flat || name == "solo.rank0" {
					return // two second runs are enough
				}
				again := newTracingBench(t, everything, layout, nil)
				again.playTraced(t, fakeshim.Frames(recording, fakeshim.Options{Deliver: fakeshim.Flush, Reorder: 7}))
				second := spansOf(t, again.sink.AllTraces())
				require.Len(t, second, len(spans), "a second run makes the same spans")
				for id, s := range spans {
					if o, ok := second[id]; !ok || o.StartTimestamp() != s.StartTimestamp() || o.Name() != s.Name() {
						t.Fatalf("%s is not there again, or another", s.Name())
					}
				}
			})
		}
	}
	assert.Equal(t, ids["tp2.rank0"], ids["tp2.rank1"], "both ranks of a step are one trace")
	assert.Len(t, slices.Compact(ids["tp2.rank0"]), len(ids["tp2.rank0"]), "each step is a trace of its own")
}

// textOf is the range's text as the recordings have it.
func textOf(root tracedSpan) string {
	text := fmt.Sprintf("step:%s seq=%d,%s", root.text(metadata.AttributeKernStepProgram), root.int(metadata.AttributeKernStepSeq),
		root.text(metadata.AttributeKernStepVars))
	if kv := root.int(metadata.AttributeKernStepKv); kv > 0 {
		text += fmt.Sprintf(",kv=%d", kv)
	}
	return text
}

// seqOf is the seq in the texts of the recordings.
var seqOf = regexp.MustCompile(` seq=\d+,`)

// TestRanksThatCountMeet removes the seqs from the texts: the ranks' own counts bring their steps together. Those of a rank
// that was joined late never meet another's.
func TestRanksThatCountMeet(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and in one goroutine: the race detector has nothing to see")
	}
	traces := func(name string, late bool) (ids []string) {
		recording, err := krec.Read(filepath.Join(recordingsFolder, name+".krec.zst"))
		require.NoError(t, err)
		for _, f := range recording.Frames {
			if push, ok := f.(*krec.Push); ok && strings.HasPrefix(push.Text, "step:") {
				push.Text = seqOf.ReplaceAllString(push.Text, " ")
			}
		}
		frames := fakeshim.Frames(recording, fakeshim.Options{})
		if late {
			const missed = 2
			binary.LittleEndian.PutUint64(frames[1][16:], missed) // BASE: what came before is acknowledged
			frames = slices.Delete(frames, 2, 2+missed)
		}
		b := newTracingBench(t, everything, trace.Flat, nil)
		b.playTraced(t, frames)
		for _, s := range spansOf(t, b.sink.AllTraces()) {
			if s.ParentSpanID().IsEmpty() {
				pairs, _ := s.Attributes().Get(metadata.AttributeKernStepPairs)
				require.Equal(t, !late, pairs.Bool())
				ids = append(ids, s.TraceID().String())
			}
		}
		slices.Sort(ids)
		return ids
	}
	first := traces("tp2.rank0", false)
	assert.Len(t, slices.Compact(slices.Clone(first)), 189)
	assert.Equal(t, first, traces("tp2.rank1", false))
	late := traces("tp2.rank1", true)
	assert.NotEmpty(t, late)
	for _, id := range late {
		if slices.Contains(first, id) {
			t.Fatalf("trace %s is another rank's", id)
		}
	}
}

// TestResendMakesNoDoubles plays a recording twice, as to a collector that was started anew.
func TestResendMakesNoDoubles(t *testing.T) {
	recording, err := krec.Read(filepath.Join(recordingsFolder, "tp2.rank0.krec.zst"))
	require.NoError(t, err)
	frames := fakeshim.Frames(recording, fakeshim.Options{})
	b := newTracingBench(t, everything, trace.Tree, nil)
	b.playTraced(t, frames)
	once := spansOf(t, b.sink.AllTraces())
	b.sink.Reset()
	b.playTraced(t, frames)
	again := spansOf(t, b.sink.AllTraces())
	require.Len(t, again, len(once))
	for id := range again {
		if _, ok := once[id]; !ok {
			t.Fatalf("span %v is new", id)
		}
	}
}

// TestExemplarsNameTheTraces looks at the histogram of a recording of which each step has a trace.
func TestExemplarsNameTheTraces(t *testing.T) {
	frames, _, _ := shimscript.GraphSteps(10)
	b := newTracingBench(t, everything, trace.Flat, nil)
	p := b.playTraced(t, frames)
	spans := spansOf(t, b.sink.AllTraces())
	found := 0
	for _, r := range p.Reports() {
		for _, series := range r.Series {
			e := series.Exemplar
			if e.EndNS == 0 {
				continue
			}
			found++
			root, ok := spans[key(e.Span.Trace, e.Span.Span)]
			require.True(t, ok, "there is no such span")
			assert.True(t, root.ParentSpanID().IsEmpty())
			assert.Equal(t, pcommon.Timestamp(e.EndNS), root.EndTimestamp())
			assert.Equal(t, e.WallNS, uint64(root.EndTimestamp()-root.StartTimestamp()))
		}
	}
	assert.Equal(t, 1, found)

	frames, _, _ = shimscript.GraphSteps(10)
	p = newTracingBench(t, unsampled(), trace.Flat, nil).playTraced(t, frames)
	for _, series := range p.Reports()[0].Series {
		assert.Zero(t, series.Exemplar)
	}
}

func TestRefusedTracesAreCounted(t *testing.T) {
	frames, _, _ := shimscript.GraphSteps(10)
	b := newTracingBench(t, everything, trace.Tree, consumertest.NewErr(errors.New("refused")))
	b.playTraced(t, frames)
	assert.EqualValues(t, 10, b.number(t, "kernhes_unsampled_steps"))
	assert.Zero(t, b.number(t, "kernhes_sampled_spans"))
}

func TestBudgetAndQueueAreCounted(t *testing.T) {
	frames, _, _ := shimscript.GraphSteps(200)
	cfg := everything
	cfg.Spans = 1000
	b := newTracingBench(t, cfg, trace.Flat, nil)
	p := b.playTraced(t, frames)
	picked := b.number(t, "kernhes_sampled_steps")
	assert.Positive(t, picked)
	assert.EqualValues(t, p.Reports()[0].Complete, uint64(picked+b.number(t, "kernhes_unsampled_steps")), "each step was chosen: written or counted")

	b = newTracingBench(t, everything, trace.Flat, nil)
	for range maxPicks + 7 {
		b.put(pick{})
	}
	assert.EqualValues(t, 7, b.number(t, "kernhes_unsampled_steps"))
}

func TestTracerWritesAndEnds(t *testing.T) {
	frames, kernels, _ := shimscript.GraphSteps(20)
	b := newTracingBench(t, everything, trace.Flat, nil)
	b.Start(time.Hour)
	r := wire.NewReader(bytes.NewReader(bytes.Join(frames, nil)))
	var p session.Account
	for f, err := r.Next(); err == nil; f, err = r.Next() {
		if f.Kind == wire.KindHello {
			h, err := wire.ParseHello(f.Body)
			require.NoError(t, err)
			p = tracedEngine(b.Sink, h)
			continue
		}
		require.NoError(t, p.Frame(f))
	}
	p.End(false)
	require.NoError(t, b.Shutdown(t.Context()))
	require.NoError(t, b.Shutdown(t.Context()), "twice")
	assert.Equal(t, 20+kernels, b.sink.SpanCount())
	require.NoError(t, newTracingBench(t, everything, trace.Flat, nil).Shutdown(t.Context()), "without start")
}

// TestDemandGetsTheNextStep asks while steps come.
func TestDemandGetsTheNextStep(t *testing.T) {
	frames, _, _ := shimscript.GraphSteps(5)
	cfg := everything
	cfg.OneIn = 0
	b := newTracingBench(t, cfg, trace.Flat, nil)
	request, _, err := b.sampler.Ask(sample.Ask{Steps: 2}, time.Now(), nil)
	require.NoError(t, err)
	b.playTraced(t, frames)
	<-request.Done
	roots, _ := whole(t, spansOf(t, b.sink.AllTraces()))
	require.Len(t, roots, 2)
	got := b.sampler.End(request, time.Now())
	ids := []string{pcommon.TraceID(got.Taken[0].Trace).String(), pcommon.TraceID(got.Taken[1].Trace).String()}
	for _, root := range roots {
		assert.Contains(t, ids, root.TraceID().String())
		assert.Equal(t, string(sample.Demand), root.text(metadata.AttributeKernStepSampledBy))
	}

	// Those that are kept are there for who knows their seq.
	seq := uint64(3)
	answer, err := b.Demand(t.Context(), sample.Ask{Steps: 1, Seq: &seq})
	require.NoError(t, err)
	require.Len(t, answer.Taken, 1)
	assert.EqualValues(t, 3, answer.Taken[0].Seq)
}

// standard is the default configuration of sampling.
var standard = sample.Config{OneIn: 1000, Slow: 2, Keep: 2 * time.Second, KeepBytes: 64 << 20, Spans: 10_000}

// unsampled is the default configuration with a ratio that chooses none of a test's few steps.
func unsampled() sample.Config {
	cfg := standard
	cfg.OneIn = 1 << 50
	return cfg
}

// TestNothingSampledCostsNoAllocation offers one step again and again, as the next of its rank.
func TestNothingSampledCostsNoAllocation(t *testing.T) {
	frames, _, _ := shimscript.GraphSteps(3)
	b := newTracingBench(t, unsampled(), trace.Tree, nil)
	b.playTraced(t, frames)
	var last trace.Step
	for k := range b.kept(t) {
		last = k
	}
	offer := func() {
		last.Seq++
		b.offer(last)
	}
	for range 10_000 { // until the room for kept steps has its size
		offer()
	}
	assert.Zero(t, testing.AllocsPerRun(10_000, offer))
}

// kept yields the steps that the sampler keeps, by asking for all.
func (b *tracingBench) kept(t *testing.T) func(func(trace.Step) bool) {
	return func(yield func(trace.Step) bool) {
		first := uint64(0)
		request, picks, err := b.sampler.Ask(sample.Ask{Steps: sample.MaxSteps, Seq: &first}, time.Now(), nil)
		require.NoError(t, err)
		b.sampler.End(request, time.Now())
		for _, p := range picks {
			if !yield(p.Item) {
				return
			}
		}
	}
}

// BenchmarkGraphStepsTraced takes kernels from frames to device time without traces, with traces of which none is chosen, and
// with the default of one in 1,000. ns/kernel is CPU time of the whole process.
func BenchmarkGraphStepsTraced(b *testing.B) {
	frames, kernels, _ := shimscript.GraphSteps(2000)
	joined := bytes.Join(frames, nil)
	for _, one := range []struct {
		name string
		cfg  *sample.Config
	}{{"without", nil}, {"unsampled", new(unsampled())}, {"default", new(standard)}} {
		b.Run(one.name, func(b *testing.B) {
			b.ReportAllocs()
			var taken time.Duration
			for b.Loop() {
				var bench *tracingBench
				if one.cfg != nil {
					bench = newTracingBench(b, *one.cfg, trace.Tree, consumertest.NewNop())
				}
				at := cpuTime(b)
				r := wire.NewReader(bytes.NewReader(joined))
				var p *engine.Process
				for f, err := r.Next(); err == nil; f, err = r.Next() {
					if f.Kind == wire.KindHello {
						h, err := wire.ParseHello(f.Body)
						require.NoError(b, err)
						var tracer *Sink
						if bench != nil {
							tracer = bench.Sink
						}
						p = tracedEngine(tracer, h)
						continue
					}
					require.NoError(b, p.Frame(f))
				}
				p.End(false)
				if bench != nil {
					bench.drain()
				}
				taken += cpuTime(b) - at
			}
			b.ReportMetric(float64(taken.Nanoseconds())/float64(b.N*kernels), "cpu-ns/kernel")
		})
	}
}

// TestSpanAttributesAreDeclared holds the spans to metadata.yaml, and metadata.yaml to the spans.
func TestSpanAttributesAreDeclared(t *testing.T) {
	recording, err := krec.Read(filepath.Join(recordingsFolder, "tp2.rank0.krec.zst"))
	require.NoError(t, err)
	b := newTracingBench(t, everything, trace.Tree, nil)
	b.playTraced(t, fakeshim.Frames(recording, fakeshim.Options{}))
	d := metadatatest.Read(t, "../../metadata.yaml")
	missing := map[string]bool{}
	for name := range d.Attributes {
		missing[name] = strings.HasPrefix(name, "kern.")
	}
	types := map[pcommon.ValueType]string{pcommon.ValueTypeStr: "string", pcommon.ValueTypeInt: "int", pcommon.ValueTypeBool: "bool"}
	for _, s := range spansOf(t, b.sink.AllTraces()) {
		for name, v := range s.Attributes().All() {
			if a := d.Attributes[name]; a.Type != types[v.Type()] || a.Enum != nil && !slices.Contains(a.Enum, v.Str()) {
				t.Fatalf("%s = %s is not as declared", name, v.AsString())
			}
			missing[name] = false
		}
		for name := range s.resource.All() {
			if _, ok := d.Resource[name]; !ok {
				t.Fatalf("resource attribute %s is not declared", name)
			}
		}
	}
	// A recording has no manifest and no incomplete step.
	missing[metadata.AttributeKernKernelOp], missing[metadata.AttributeKernStepIncompleteReason] = false, false
	missing[metadata.AttributeKernRequestId] = false // nor a hook
	for name, is := range missing {
		assert.False(t, is, "%s is declared but on no span", name)
	}
}

const recordingsFolder = "../../../../testdata/recordings"

// tracedRecordings are the recordingsFolder, or one of them for the race detector.
func tracedRecordings(short bool) []string {
	if short {
		return []string{"tp2.rank1"}
	}
	return []string{"solo.rank0", "tp2.rank0", "tp2.rank1"}
}

// cpuTime is the CPU time of this process so far, garbage collection included.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
