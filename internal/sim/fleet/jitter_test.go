package fleet

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kernhes/kernhes/internal/krec"
	"github.com/kernhes/kernhes/internal/sim/program"
)

// A position is one kernel of a graph, in steps of one shape.
type position struct {
	shape string
	node  uint64
}

// A replayed is the times of kernels by position, in ns; gaps are from the end of the kernel
// before.
type replayed struct{ times, gaps map[position][]float64 }

func newReplayed() replayed {
	return replayed{map[position][]float64{}, map[position][]float64{}}
}

// A ran is one kernel of a replay.
type ran struct {
	node       uint64
	start, end int64
	nccl       bool
}

// add takes the kernels of one replay. NCCL's last as long as their peers let them, so neither they
// nor the gaps beside them count.
func (r replayed) add(shape string, replay []ran) {
	slices.SortFunc(replay, func(a, b ran) int { return int(a.start - b.start) })
	for i, k := range replay {
		if k.nccl {
			continue
		}
		at := position{shape, k.node}
		r.times[at] = append(r.times[at], float64(k.end-k.start))
		if i > 0 && !replay[i-1].nccl {
			r.gaps[at] = append(r.gaps[at], float64(k.start-replay[i-1].end))
		}
	}
}

var number = regexp.MustCompile(`seq=\d+,`)

// record adds the graph replays of a recording, whose steps are all on one thread.
func (r replayed) record(t *testing.T, path string) {
	t.Helper()
	recording, err := krec.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	nccl, shapes, replays := map[uint64]bool{}, map[uint32]string{}, map[uint32][]ran{}
	var open []string
	for _, f := range recording.Frames {
		switch f := f.(type) {
		case *krec.Name:
			nccl[f.Pointer] = strings.Contains(f.Text, "nccl")
		case *krec.Push:
			if f.Domain == 0 {
				open = append(open, f.Text)
			}
		case *krec.Pop:
			if f.Domain == 0 {
				open = open[:len(open)-1]
			}
		case *krec.Launch:
			if len(open) > 0 && strings.HasPrefix(open[0], "step:") {
				shapes[f.Correlation] = path + number.ReplaceAllString(open[0], "")
			}
		case *krec.Raw:
			for _, k := range f.Records {
				if k.Kind() == krec.KindKernel && k.Node() != 0 {
					c := k.Correlation()
					replays[c] = append(replays[c], ran{k.Node(), int64(k.Start()), int64(k.End()), nccl[k.Name()]})
				}
			}
		}
	}
	for c, replay := range replays {
		if shape := shapes[c]; shape != "" { // else it is of no step
			r.add(shape, replay)
		}
	}
}

// A spread is what is measured of positions: times relative to their median by its class, medians
// of gaps, and gaps less their median.
type spread struct {
	times           [4][]float64
	medians, around []float64
}

func (r replayed) spread() (s spread) {
	for _, all := range r.times {
		slices.Sort(all)
		median, class := quantile(all, .5), 0
		for _, least := range []float64{3000, 8000, 20000} {
			if median >= least {
				class++
			}
		}
		for _, x := range all {
			s.times[class] = append(s.times[class], x/median)
		}
	}
	for _, all := range r.gaps {
		slices.Sort(all)
		median := quantile(all, .5)
		s.medians = append(s.medians, median)
		for _, x := range all {
			s.around = append(s.around, x-median)
		}
	}
	for _, all := range [][]float64{s.times[0], s.times[1], s.times[2], s.times[3], s.medians, s.around} {
		slices.Sort(all)
	}
	return s
}

// quantile is one of sorted values.
func quantile(sorted []float64, p float64) float64 {
	return sorted[int(p*float64(len(sorted)-1)+.5)]
}

// graph is kernels of the lengths that the recordings have, in ns.
func graph() *program.Program {
	p := &program.Program{Name: "decode_batch", Graph: true}
	for range 25 {
		for _, ns := range []float64{1300, 1600, 1900, 2300, 2700, 3900, 4100, 4500, 6300, 7500, 8300, 8900, 11200, 14800, 15400, 28000, 42000, 52000, 99000} {
			p.Kernels = append(p.Kernels, program.Kernel{Cost: program.Cost{Fixed: ns}})
		}
	}
	return p
}

// Times of kernels and gaps vary in the simulation as they do in the recordings that nothing
// disturbed.
//
// Bounds: both sides round to ticks of 32 ns, which is up to 3% of the shortest kernels, whose
// medians are not the simulation's; so quantiles up to 99% may differ by 2%, of kernels below 3 µs
// by 4%. One kernel in 1,000 takes at least half, and at most twice, what it takes more in the
// recordings. Gaps may differ by two ticks up to 99%.
func TestJitterIsTheRecordings(t *testing.T) {
	real, simulated := newReplayed(), newReplayed()
	for _, name := range []string{"solo.rank0", "tp2.rank0"} {
		real.record(t, "../../../testdata/recordings/"+name+".krec.zst")
	}
	l, err := program.ParseLayout("dp1")
	if err != nil {
		t.Fatal(err)
	}
	f, p := New(l, 1, 0), graph()
	for seq := range uint64(180) {
		steps, _ := f.Run(seq, []Job{{Program: p}})
		var replay []ran
		for _, s := range steps[0].Spans {
			if (s.End-s.Start)%tick != 0 || s.Start%tick != 0 {
				t.Fatalf("a kernel from %d to %d: not in ticks", s.Start, s.End)
			}
			replay = append(replay, ran{node: uint64(s.Index), start: s.Start, end: s.End})
		}
		simulated.add("", replay)
	}
	want, got := real.spread(), simulated.spread()
	near := func(what string, p, got, want, bound float64) {
		t.Helper()
		if got < want-bound || got > want+bound {
			t.Errorf("%s at %v: %.3f, the recordings have %.3f, more than %.3f off", what, p, got, want, bound)
		}
	}
	for class, name := range []string{"below 3 µs", "3 to 8 µs", "8 to 20 µs", "from 20 µs"} {
		w, g := want.times[class], got.times[class]
		bound := []float64{.04, .02, .02, .02}[class]
		for _, p := range []float64{.01, .05, .25, .75, .9, .95, .99} {
			near("kernels "+name, p, quantile(g, p), quantile(w, p), bound)
		}
		if g, w := quantile(g, .999)-1, quantile(w, .999)-1; g < w/2 || g > 2*w {
			t.Errorf("kernels %s at .999: %.3f more than the median, the recordings have %.3f", name, g, w)
		}
	}
	for _, p := range []float64{.05, .25, .5, .75, .9, .95, .99} {
		near("median gaps", p, quantile(got.medians, p), quantile(want.medians, p), 2*tick)
		near("gaps around their median", p, quantile(got.around, p), quantile(want.around, p), 2*tick)
	}
}
