package oracle

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/kernhes/kernhes/internal/krec"
)

// What a mutation must leave alone, the oracle must not see: order of delivery, ids, threads, texts and the date move no
// row but its text.
func TestWhatChangesNothing(t *testing.T) {
	tp2 := load(t, "tp2.rank1")
	before := Do(tp2, NCCL).Devices[0]
	for _, name := range []string{"move-stream", "shift-all", "graph-copies", "rename-labels", "strip-seq", "duplicate-texts", "two-threads",
		"overlap-threads", "wrap-ids", "shuffle"} {
		r, err := krec.Apply(tp2, 3, name)
		if err != nil {
			t.Fatal(err)
		}
		after := Do(r, NCCL).Devices[0]
		if a, b := plain(before), plain(after); !reflect.DeepEqual(a, b) {
			for i := range a.Steps {
				if a.Steps[i] != b.Steps[i] {
					t.Errorf("%s: step %d: %+v, was %+v", name, i, b.Steps[i], a.Steps[i])
					break
				}
			}
			a.Steps, b.Steps = nil, nil
			t.Errorf("%s: %+v, was %+v", name, b, a)
		}
	}
}

// plain is f without texts, dates and copies.
func plain(f *Figures) Figures {
	p := *f
	p.Last, p.First = p.Last-p.First, 0
	p.Groups, p.Copies, p.Copy = nil, nil, 0
	p.Steps = nil
	for i, r := range f.Steps {
		r.Order, r.Text, r.First, r.Last = i, "", 0, 0
		p.Steps = append(p.Steps, r)
	}
	return p
}

// However a recording is changed, its figures add up.
func TestFiguresAddUp(t *testing.T) {
	for _, story := range krec.Stories() {
		for seed := range uint64(100) {
			r, names := krec.Mutate(story.Recording, seed)
			addUp(t, fmt.Sprintf("%s: seed %d %v", story.Name, seed, names), r)
		}
	}
	solo := load(t, "solo.rank0")
	for seed := range uint64(4) { // half a second each
		r, names := krec.Mutate(solo, seed)
		addUp(t, fmt.Sprintf("solo: seed %d %v", seed, names), r)
	}
}

func addUp(t *testing.T, what string, r *krec.Recording) {
	t.Helper()
	w := Do(r, Collective)
	records := 0
	for _, f := range w.Devices {
		records += f.Kernels + f.Invalid
		if f.Compute+f.Comm+f.Idle != f.Last-f.First || f.Idle < 0 || f.Overlap < 0 || f.Comm < 0 || f.Copy < 0 {
			t.Errorf("%s: %d + %d + %d of %d ns, overlap %d, copy %d", what, f.Compute, f.Comm, f.Idle, f.Last-f.First, f.Overlap, f.Copy)
		}
		in, called, complete, steps := 0, 0, 0, 0
		for _, s := range f.Steps {
			in, called = in+s.Kernels, called+s.Called
			if s.Complete {
				complete++
			}
			if s.Compute+s.Comm > s.Wall || s.Foreign < 0 {
				t.Errorf("%s: step %+v", what, s)
			}
		}
		for _, g := range f.Groups {
			steps += g.Steps
		}
		if in != f.InSteps || called != f.Called || complete != f.StepsComplete || steps != len(f.Steps) || len(f.Steps) > f.StepRanges {
			t.Errorf("%s: rows give %d in steps, %d called, %d complete, %d steps; figures %+v", what, in, called, complete, steps, f)
		}
	}
	if records != len(w.Kernels) {
		t.Errorf("%s: %d records on devices, %d in all", what, records, len(w.Kernels))
	}
}

// As many launches lack records as were taken from.
func TestLostRecordsAreSeen(t *testing.T) {
	solo := load(t, "solo.rank0")
	r, err := krec.Apply(solo, 1, "remove-kernels", "remove-launches")
	if err != nil {
		t.Fatal(err)
	}
	had, has := perLaunch(solo), perLaunch(r)
	want := 0
	for id, n := range had {
		if has[id] < n {
			want++
		}
	}
	if got := Do(r, NCCL).UnfulfilledLaunches; got != want || want == 0 {
		t.Errorf("%d launches lack records, want %d", got, want)
	}
}

func perLaunch(r *krec.Recording) map[uint32]int {
	n := map[uint32]int{}
	for _, f := range r.Frames {
		if raw, ok := f.(*krec.Raw); ok {
			for _, record := range raw.Records {
				if record.Kind() == krec.KindKernel {
					n[record.Correlation()]++
				}
			}
		}
	}
	return n
}
