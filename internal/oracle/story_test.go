package oracle

import (
	"slices"
	"testing"

	"github.com/kernhes/kernhes/internal/krec"
)

const us = 1000

// want is what the stories say of a step, in µs.
type want struct {
	kernels                               int
	compute, comm, overlap, wall, foreign float64
	complete                              bool
}

// check compares a device's rows with those worked out by hand from the story.
func check(t *testing.T, name string, f *Figures, wanted ...want) {
	t.Helper()
	var got []want
	for _, r := range f.Steps {
		got = append(got, want{r.Kernels, float64(r.Compute) / us, float64(r.Comm) / us, float64(r.Overlap) / us, float64(r.Wall) / us,
			float64(r.Foreign) / us, r.Complete})
	}
	if !slices.Equal(got, wanted) {
		t.Errorf("%s: rows %v, want %v", name, got, wanted)
	}
}

func only(t *testing.T, r *krec.Recording) (*Work, *Figures) {
	t.Helper()
	w := Do(r, NCCL)
	if len(w.Devices) != 1 {
		t.Fatalf("%d devices, want 1", len(w.Devices))
	}
	return w, w.Devices[0]
}

func TestStories(t *testing.T) {
	_, f := only(t, krec.AllToAll())
	check(t, "all to all", f, want{3, 40, 24, 6, 72, 0, true})
	if f.Called != 3 || f.CommKernels != 2 || f.Idle != 8*us {
		t.Errorf("all to all: called %d, comm kernels %d, idle %d ns", f.Called, f.CommKernels, f.Idle)
	}
	_, f = only(t, krec.Streams())
	check(t, "streams", f, want{10, 10.5, 0, 0, 59.3, 0, true})
	_, f = only(t, krec.Disorder())
	check(t, "disorder", f, want{1, 5, 0, 0, 5, 0, true}, want{1, 5, 0, 0, 5, 0, true}, want{1, 5, 0, 0, 5, 0, true})
	if f.Steps[0].Text != "step:decode seq=7,tokens=1,kv=64" || f.Groups["step:decode tokens=1,kv=66"].Steps != 1 {
		t.Errorf("disorder: first %q, groups %v", f.Steps[0].Text, f.Groups)
	}
	_, f = only(t, krec.Overlap())
	check(t, "overlap", f, want{1, 100, 0, 0, 100, 0, true}, want{1, 100, 0, 0, 100, 3, true})
	if f.Compute != 143*us || f.InSteps != 2 || f.Kernels != 3 {
		t.Errorf("overlap: compute %d ns, %d of %d in steps", f.Compute, f.InSteps, f.Kernels)
	}
	w, f := only(t, krec.GraphCopies())
	check(t, "graph copies", f, want{2, 4, 0, 0, 7, 0, true}, want{2, 4, 0, 0, 7, 0, true})
	if f.Copy != 4*us || f.Copies["copy kind 8"] != 2 || f.Called != 4 || w.Launches != 4 || w.CapturedLaunches != 2 {
		t.Errorf("graph copies: %d ns of %v, called %d, counts %+v", f.Copy, f.Copies, f.Called, w.Counts)
	}
	_, f = only(t, krec.TwoThreads())
	check(t, "two threads", f, want{1, 50, 0, 0, 50, 0, true}, want{2, 22, 0, 0, 31, 0, true})
	_, f = only(t, krec.Wrap())
	check(t, "wrap", f, want{2, 4, 0, 0, 6, 0, true}, want{2, 4, 0, 0, 6, 0, true}, want{1, 0, 2, 0, 2, 0, true})
	w, f = only(t, krec.Lost())
	check(t, "lost", f, want{1, 2, 0, 0, 2, 0, false}, want{1, 2, 0, 0, 2, 0, false}, want{2, 4, 0, 0, 4.5, 0, true})
	if w.UnfulfilledLaunches != 2 || f.StepsComplete != 1 {
		t.Errorf("lost: %d launches lack records, %d steps are complete", w.UnfulfilledLaunches, f.StepsComplete)
	}
	w, f = only(t, krec.BadTimes())
	check(t, "bad times", f, want{1, 2, 0, 0, 2, 0, false})
	if f.Invalid != 3 || f.Kernels != 1 || w.UnfulfilledLaunches != 0 {
		t.Errorf("bad times: %d invalid, %d not, %d launches lack records", f.Invalid, f.Kernels, w.UnfulfilledLaunches)
	}
}

func TestDevicesApart(t *testing.T) {
	w := Do(krec.TwoDevices(), NCCL)
	if len(w.Devices) != 2 {
		t.Fatalf("%d devices, want 2", len(w.Devices))
	}
	check(t, "device 0", w.Devices[0], want{2, 10, 4, 0, 20, 0, true}, want{2, 10, 4, 0, 20, 0, true})
	check(t, "device 1", w.Devices[1], want{2, 11, 4, 0, 20, 0, true}, want{2, 11, 4, 0, 20, 0, true})
}

// Each launch of a graph has the labels of its time, whenever its records come.
func TestRecapture(t *testing.T) {
	w, _ := only(t, krec.Recapture())
	want := []string{"decode.first", "decode.first", "decode.second", "decode.second"}
	for i, k := range w.Kernels {
		if k.Call != want[i] || k.Step != i/2 {
			t.Errorf("kernel %d: call %q in step %d, want %q in step %d", i, k.Call, k.Step, want[i], i/2)
		}
	}
}

// What is in no step, or in one that cannot be whole.
func TestEdges(t *testing.T) {
	b := krec.NewBuilder()
	b.Push("step:empty seq=1")
	b.Pop()
	b.Push("step:outer seq=2")
	b.Run("a", 7, 5*us, us)
	b.Push("step:inner seq=3")
	b.Push("call")
	b.PushIn("NCCL", "step:not one")
	b.Run("b", 7, 5*us, us)
	b.PopIn("NCCL")
	b.Pop()
	b.Pop()
	b.Pop()
	b.Pop() // of nothing
	twice := b.Launch()
	b.Kernel(twice, "c", 7, 0, b.Now(), b.Now()+us)
	b.Kernel(twice, "c", 7, 0, b.Now()+us, b.Now()+2*us)
	b.Kernel(12345, "d", 7, 0, b.Now()+3*us, b.Now()+4*us) // no launch of that id
	early := b.Launch()
	b.Kernel(early, "e", 7, 0, b.Now()-100*us-1, b.Now()+9*us) // 1 ns too early for its launch
	b.Push("step:open seq=4")
	b.Run("f", 7, 20*us, us)
	w, f := only(t, b.Recording())
	// Kernel e runs until 24 µs: foreign to inner from 10 to 14 µs and to open from 14 µs on.
	check(t, "edges", f, want{1, 1, 0, 0, 1, 0, true}, want{1, 1, 0, 0, 1, 4, true}, want{1, 1, 0, 0, 1, 10, false})
	if w.StepRanges != 4 || f.StepsComplete != 2 || w.UnfulfilledLaunches != 1 || f.Duplicates != 1 || f.InSteps != 3 || f.Called != 1 {
		t.Errorf("edges: %+v, %d complete, %d duplicates, %d in steps, %d called", w.Counts, f.StepsComplete, f.Duplicates, f.InSteps, f.Called)
	}
	calls := []string{"", "call", "", "", "", "", ""}
	for i, k := range w.Kernels {
		if k.Call != calls[i] {
			t.Errorf("edges: kernel %s: call %q, want %q", k.Name, k.Call, calls[i])
		}
	}
}

func TestWithoutSeq(t *testing.T) {
	check := func(text, want string) {
		t.Helper()
		if got := withoutSeq(text); got != want {
			t.Errorf("withoutSeq(%q) = %q, want %q", text, got, want)
		}
	}
	check("step:prefill seq=1,seqs=1,tokens=512", "step:prefill seqs=1,tokens=512")
	check("step:prefill seqs=1,seq=12,tokens=512", "step:prefill seqs=1,tokens=512")
	check("step:decode tokens=1,seq=9", "step:decode tokens=1")
	check("step:decode seq=9", "step:decode")
	check("step:decode", "step:decode")
	check("step:decode seqs=4", "step:decode seqs=4")
}

func TestUnion(t *testing.T) {
	check := func(want int64, all ...interval) {
		t.Helper()
		if got := union(all); got != want {
			t.Errorf("union(%v) = %d, want %d", all, got, want)
		}
	}
	check(0)
	check(5, interval{1, 6})
	check(6, interval{4, 7}, interval{1, 5})
	check(9, interval{1, 10}, interval{2, 3}, interval{5, 10})
	check(4, interval{1, 3}, interval{3, 3}, interval{10, 12})
	check(2, clip([]interval{{1, 3}, {4, 6}, {9, 12}}, 2, 5)...)
}

// The rows stand in order of first start, and a step's window begins at the latest end of any before it.
func TestOrderAndWindow(t *testing.T) {
	b := krec.NewBuilder()
	run := func(text string, from, to uint64) {
		b.Push(text)
		b.Run("a", 7, from*us-b.Now()%1e6-us, (to-from)*us) // from and to are µs since the Builder's beginning
		b.Pop()
	}
	run("step:third seq=1", 200, 230)
	run("step:first seq=2", 20, 100)
	run("step:second seq=3", 30, 50)
	b.Run("foreign", 13, 90*us-b.Now()%1e6-us, 30*us)
	b.Copy(0, 7, 0, b.Now(), b.Now()+20*us, 64)         // ends after the first kernel began
	b.Copy(0, 7, 0, b.Now()+200*us, b.Now()+300*us, 64) // ends after the last one
	_, f := only(t, b.Recording())
	check(t, "order", f, want{1, 80, 0, 0, 80, 0, true}, want{1, 20, 0, 0, 20, 0, true}, want{1, 30, 0, 0, 30, 20, true})
	if f.Steps[0].Text != "step:first seq=2" || f.Steps[2].Text != "step:third seq=1" {
		t.Errorf("order: %q … %q", f.Steps[0].Text, f.Steps[2].Text)
	}
	if f.Copy != 0 {
		t.Errorf("order: copies add %d ns between kernels, want none", f.Copy)
	}
}

// A record is of the latest launch of its id that can have made it.
func TestMatch(t *testing.T) {
	b := krec.NewBuilder()
	b.Push("step:decode seq=1")
	id := b.Launch()
	b.Kernel(id, "to the limit", 7, 0, b.Now()-100*us, b.Now())
	b.Correlate(77)
	b.Run("captured since", 7, 5*us, us)
	b.Pop()
	b.Correlate(77)
	g := b.Capture()
	g.Kernel("x", 7)
	w, f := only(t, b.Recording())
	check(t, "match", f, want{2, 101, 0, 0, 107, 0, true})
	if w.UnfulfilledLaunches != 0 || w.CapturedLaunches != 1 {
		t.Errorf("match: %+v", w.Counts)
	}
}
