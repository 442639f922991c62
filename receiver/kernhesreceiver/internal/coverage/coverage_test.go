package coverage

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

func TestAccount(t *testing.T) {
	positions := []Position{
		{"nccl", span.ByRule, true}, {"mystery", span.ByDefault, true}, {"moe", span.ByManifest, true},
		{"mystery", span.ByDefault, false}, {"nccl", span.ByRule, false},
	}
	plan := planOf(positions)
	var spans []span.Span
	for i, ns := range []uint64{1, 20, 300, 4000, 50000} {
		at := uint64(1e9 * (i + 1))
		spans = append(spans, span.Make(at, at+ns, span.Compute))
	}
	var a Account
	a.Step(plan, spans)
	a.Step(planOf(positions[:2]), spans[:2]) // a step that lacks kernels
	a.Outside("stray", span.ByDefault, 7)
	a.Outside("nccl", span.ByRule, 8)
	a.Report(0)
	got := a.Report(2)
	want := Report{
		Totals: Totals{
			By:       [3]Time{{4020 + 20 + 7, 4}, {50001 + 1 + 8, 4}, {300, 1}},
			InStep:   Time{54321 + 21, 7},
			Labelled: Time{321 + 21, 5},
		},
		Defaulted:  []Named{{"mystery", Time{4040, 3}, 0}, {"stray", Time{7, 1}, 0}},
		Unlabelled: []Named{{"nccl", Time{50000, 1}, 0}, {"mystery", Time{4000, 1}, 0}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if all := got.All(); all != (Time{54321 + 21 + 15, 9}) {
		t.Errorf("all is %+v", all)
	}
}

// TestEqualPositionsOfManySteps: three positions of a step count alike, and one does not; of 5 steps.
func TestEqualPositionsOfManySteps(t *testing.T) {
	known, unknown := Position{"k", span.ByRule, true}, Position{"mystery", span.ByDefault, false}
	plan := planOf([]Position{unknown, unknown, known, unknown})
	var a Account
	for n := range uint64(5) {
		at := 1e9 * (n + 1)
		a.Step(plan, []span.Span{span.Make(at, at+1, span.Compute), span.Make(at, at+10, span.Compute), span.Make(at, at+100, span.Compute), span.Make(at, at+1000, span.Compute)})
	}
	got := a.Report(1)
	want := Report{
		Totals:    Totals{By: [3]Time{span.ByDefault: {5055, 15}, span.ByRule: {500, 5}}, InStep: Time{5555, 20}, Labelled: Time{500, 5}},
		Defaulted: []Named{{"mystery", Time{5055, 15}, 0}}, Unlabelled: []Named{{"mystery", Time{5055, 15}, 0}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func planOf(positions []Position) *Plan {
	return NewPlan(len(positions), func(i int) Position { return positions[i] })
}

// However many shapes there are, no kernel is lost, and those that no step has had of late are let go of.
func TestTalliesAreBounded(t *testing.T) {
	var a Account
	s := []span.Span{span.Make(10, 13, span.Compute)}
	for range 10 * maxTallies {
		a.Step(planOf([]Position{{"k", span.ByRule, true}}), s)
		if len(a.tallies) > maxTallies {
			t.Fatalf("%d tallies", len(a.tallies))
		}
	}
	a.Report(0)
	if got := a.Report(0).InStep; got != (Time{30 * maxTallies, 10 * maxTallies}) || len(a.tallies) != 0 {
		t.Errorf("%+v, and %d tallies are left", got, len(a.tallies))
	}
}

// However many names there are, memory is bounded and the heavy ones are found.
func TestTopIsBounded(t *testing.T) {
	var top top
	r := rand.New(rand.NewPCG(1, 2))
	heavy := map[string]uint64{}
	for i := range 200_000 {
		name, ns := fmt.Sprint("light", r.IntN(50_000)), uint64(1)
		if i%10 == 0 {
			name, ns = fmt.Sprint("heavy", i/10%5), uint64(50)
			heavy[name] += ns
		}
		top.add(name, Time{ns, 1})
	}
	if len(top.list) != maxNames || len(top.names) != maxNames {
		t.Fatalf("%d names, %d indexed", len(top.list), len(top.names))
	}
	for _, n := range top.most(5) {
		if n.NS-n.Over > heavy[n.Name] || n.NS < heavy[n.Name] {
			t.Errorf("%s: %d ns of which %d may be others', want %d", n.Name, n.NS, n.Over, heavy[n.Name])
		}
	}
}

// With more names than are remembered, which of them are does not depend on chance: those of the plans that came last take the
// place of the first ones.
func TestSameStepsGiveTheSameNames(t *testing.T) {
	const more = 3
	var a Account
	for i := range maxTallies {
		var positions []Position
		for k := range 2 {
			positions = append(positions, Position{fmt.Sprintf("kernel %03d.%d", i, k), span.ByDefault, true})
		}
		a.Step(planOf(positions), []span.Span{span.Make(10, 11, span.Compute), span.Make(20, 21, span.Compute)})
	}
	// Names have their places in turn, and each takes that of the least: the first of equal ones. So after 256 names of 1 ns each,
	// the next 256 take their places from the first on, and have 2 ns.
	got := a.Report(more).Defaulted
	want := []Named{{"kernel 128.0", Time{2, 2}, 1}, {"kernel 128.1", Time{2, 2}, 1}, {"kernel 129.0", Time{2, 2}, 1}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// BenchmarkStep sums a step whose kernels are known, and one that changes at each kernel.
func BenchmarkStep(b *testing.B) {
	for what, mixed := range map[string]bool{"known": false, "mixed": true} {
		b.Run(what, func(b *testing.B) {
			positions := make([]Position, 600)
			spans := make([]span.Span, 600)
			for i := range positions {
				positions[i] = Position{fmt.Sprint("kernel", i%30), span.ByRule, true}
				if mixed {
					positions[i].By, positions[i].Labelled = span.By(i%2), i%3 > 0
				}
				spans[i] = span.Make(uint64(i*1000+1), uint64(i*1000+900), span.Compute)
			}
			plan := planOf(positions)
			var a Account
			for b.Loop() {
				a.Step(plan, spans)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(spans)), "ns/kernel")
		})
	}
}
