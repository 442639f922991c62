package fleet

import (
	"slices"
	"testing"

	"github.com/kernhes/kernhes/internal/sim/fault"
	"github.com/kernhes/kernhes/internal/sim/program"
)

// small is a graph of three kernels: one computes for so many ns, in one the ranks meet for so
// many, one computes 1,600 ns.
func small(own, meet float64) *program.Program {
	return &program.Program{Name: "decode_batch", Graph: true, Kernels: []program.Kernel{
		{Call: "a", Name: "gemm", Op: "attention", Cost: program.Cost{Fixed: own}},
		{Call: "m", Name: "mega_moe", Cost: program.Cost{Fixed: meet}, Meets: program.Experts, Layer: 5},
		{Call: "b", Name: "gemm", Cost: program.Cost{Fixed: 1600}},
	}}
}

// two is two ranks without jitter, whose experts have equal loads.
func two(t *testing.T, faults ...string) *Fleet {
	t.Helper()
	l, err := program.ParseLayout("dp2")
	if err != nil {
		t.Fatal(err)
	}
	f := New(l, 1, 0)
	f.Jitter, f.Skew = 0, 0
	for _, text := range faults {
		e, err := fault.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		f.Schedule = append(f.Schedule, e)
	}
	return f
}

// run runs one step of both ranks.
func run(f *Fleet, a, b *program.Program) ([]*Step, *Meeting) {
	steps, meetings := f.Run(1, []Job{{Rank: 0, Program: a}, {Rank: 1, Program: b}})
	if len(meetings) != 1 {
		return steps, nil
	}
	return steps, meetings[0]
}

func durations(s *Step) (all []int64) {
	for _, k := range s.Spans {
		all = append(all, k.End-k.Start)
	}
	return all
}

func check(t *testing.T, what string, got, want any) {
	t.Helper()
	g, w := got, want
	if a, ok := got.([]int64); ok {
		if !slices.Equal(a, want.([]int64)) {
			t.Errorf("%s: %v, want %v", what, g, w)
		}
	} else if got != want {
		t.Errorf("%s: %v, want %v", what, g, w)
	}
}

// Rank 1 computes 3,200 ns longer, so rank 0 waits so long: its meeting lasts 9,600 ns, that of
// rank 1 6,400.
func TestAWait(t *testing.T) {
	steps, m := run(two(t), small(3200, 6400), small(6400, 6400))
	check(t, "rank 0", durations(steps[0]), []int64{3200, 9600, 1600})
	check(t, "rank 1", durations(steps[1]), []int64{6400, 6400, 1600})
	check(t, "wait of 0", m.Wait(0), int64(3200))
	check(t, "wait of 1", m.Wait(1), int64(0))
	check(t, "last", m.Last, 1)
	check(t, "all leave together", steps[0].Spans[1].End, steps[1].Spans[1].End)
	// Between the kernels of a graph lie 13 ticks of 32 ns.
	check(t, "gap", steps[0].Spans[1].Start-steps[0].Spans[0].End, int64(416))
	check(t, "enter", m.Enter[1]-m.Enter[0], int64(3200))
}

// Clocks down by 50%: rank 1 takes 4,800 ns for 3,200, and its part of the meeting 9,600 for 6,400.
func TestSlowClocks(t *testing.T) {
	steps, m := run(two(t, "slow_clocks:rank=1,amount=50"), small(3200, 6400), small(3200, 6400))
	check(t, "rank 0", durations(steps[0]), []int64{3200, 1600 + 9600, 1600})
	check(t, "rank 1", durations(steps[1]), []int64{4800, 9600, 2400})
	check(t, "why", m.Why, "slow_clocks")
	check(t, "last", m.Last, 1)
}

// A link of half its speed doubles the transfer for all, and nobody waits for another.
func TestASlowLink(t *testing.T) {
	steps, m := run(two(t, "slow_link:rank=1,amount=2"), small(3200, 6400), small(3200, 6400))
	check(t, "rank 0", durations(steps[0]), []int64{3200, 12800, 1600})
	check(t, "rank 1", durations(steps[1]), []int64{3200, 12800, 1600})
	check(t, "wait", m.Wait(0)+m.Wait(1), int64(0))
	check(t, "slow", m.Slow, true)
}

// The experts of rank 0 have 1.5 times their load in layer 5: the meeting lasts 9,600 ns on both,
// and rank 1 does 6,400 of work.
func TestAHotExpert(t *testing.T) {
	steps, m := run(two(t, "hot_expert:rank=0,layer=5,amount=1.5"), small(3200, 6400), small(3200, 6400))
	check(t, "rank 0", durations(steps[0]), []int64{3200, 9600, 1600})
	check(t, "rank 1", durations(steps[1]), []int64{3200, 9600, 1600})
	check(t, "work", m.Work, []int64{9600, 6400})
	check(t, "heaviest", m.Heaviest, 0)
	_, m = run(two(t, "hot_expert:rank=0,layer=4,amount=1.5"), small(3200, 6400), small(3200, 6400))
	check(t, "another layer", m.Work, []int64{6400, 6400})
}

// A foreign GEMM of 1 ms begins in the middle of rank 1's first kernel and delays its second by 1
// ms: rank 0 waits that long.
func TestAForeignGEMM(t *testing.T) {
	steps, m := run(two(t, "foreign_gemm:rank=1,amount=1"), small(3200, 6400), small(3200, 6400))
	check(t, "foreign", len(steps[1].Foreign), 1)
	check(t, "begins", steps[1].Foreign[0].Start-steps[1].Spans[0].Start, int64(1600))
	check(t, "ends", steps[1].Foreign[0].End-steps[1].Spans[0].End, int64(1_000_000))
	check(t, "wait", m.Wait(0), int64(1_000_000))
	check(t, "why", m.Why, "foreign_gemm")
	check(t, "extra", m.Extra, int64(1_000_000))
}

// A rank that leaves a meeting out lets the other wait for ever; one that hangs does, too.
func TestHangs(t *testing.T) {
	for _, fault := range []string{"skipped_collective:rank=1", "hang:rank=1", "die:rank=1"} {
		f := two(t, fault)
		steps, m := run(f, small(3200, 6400), small(3200, 6400))
		if m != nil || !steps[0].Hung || f.Alive() {
			t.Errorf("%s: %v, hung %v, alive %v", fault, m, steps[0].Hung, f.Alive())
		}
		last := steps[0].Spans[len(steps[0].Spans)-1]
		check(t, fault+": rank 0 is in the meeting", last.Kernel.Call, "m")
		check(t, fault+": which does not end", last.End, int64(0))
	}
}

// One seed gives one course, another another.
func TestSeed(t *testing.T) {
	ends := func(seed uint64) (all []int64) {
		f := New(program.Layouts()[0], seed, 0)
		for seq := range uint64(3) {
			var jobs []Job
			for r := range 4 {
				jobs = append(jobs, Job{Rank: r, Program: small(3200, 6400)})
			}
			steps, _ := f.Run(seq, jobs)
			for _, s := range steps {
				all = append(all, s.End())
			}
		}
		return all
	}
	if !slices.Equal(ends(1), ends(1)) || slices.Equal(ends(1), ends(2)) {
		t.Error("the seed does not decide")
	}
	for _, t32 := range ends(3) {
		if t32%program.Tick != 0 {
			t.Errorf("%d is no tick", t32)
		}
	}
}

// One kernel is slower after a deploy, on all ranks: nobody waits.
func TestASlowKernel(t *testing.T) {
	steps, m := run(two(t, "slow_kernel:match=attention,amount=100"), small(3200, 6400), small(3200, 6400))
	check(t, "rank 0", durations(steps[0]), []int64{6400, 6400, 1600})
	check(t, "rank 1", durations(steps[1]), []int64{6400, 6400, 1600})
	check(t, "wait", m.Wait(0)+m.Wait(1), int64(0))
}

// A host that launches 1 ms late, and one that stalls 2 ms once, each let the other rank wait that
// long.
func TestLateLaunches(t *testing.T) {
	for name, ns := range map[string]int64{"host_gaps": 1_000_000, "stall": 2_000_000} {
		f := two(t, name+":rank=1,amount="+map[string]string{"host_gaps": "1", "stall": "2"}[name])
		_, m := run(f, small(3200, 6400), small(3200, 6400))
		check(t, name+": wait", m.Wait(0), ns)
		check(t, name+": why", m.Why, name)
		check(t, name+": by", m.Last, 1)
		_, m = run(f, small(3200, 6400), small(3200, 6400))
		if want := map[string]int64{"host_gaps": ns}[name]; m.Wait(0) != want {
			t.Errorf("%s: the second time %d ns, want %d", name, m.Wait(0), want)
		}
	}
}

// Experts move once: both ranks copy for 1 ms before their kernels, and other loads hold from then
// on.
func TestARearrangement(t *testing.T) {
	loads := func(faults ...string) (before, after []int64, copies int) {
		f := two(t, faults...)
		f.Skew = 0.2
		_, m := run(f, small(3200, 64000), small(3200, 64000))
		steps, n := run(f, small(3200, 64000), small(3200, 64000))
		return m.Work, n.Work, len(steps[0].Peer) + len(steps[1].Peer)
	}
	before, after, copies := loads()
	if !slices.Equal(before, after) || copies != 0 || before[0] == before[1] {
		t.Errorf("without: %v, then %v, %d copies", before, after, copies)
	}
	moved, after, copies := loads("rearrangement:at=10us,amount=1")
	if !slices.Equal(before, moved) || slices.Equal(moved, after) || copies != 2 {
		t.Errorf("with: %v, then %v, %d copies", moved, after, copies)
	}
}

// Who comes last for no fault does so since it runs another program, or another batch.
func TestWhy(t *testing.T) {
	other := small(6400, 6400)
	other.Name = "prefill"
	_, m := run(two(t), small(3200, 6400), other)
	check(t, "another program", m.Why, "program")
	f := two(t)
	_, meetings := f.Run(1, []Job{{Rank: 0, Program: small(3200, 6400)}, {Rank: 1, Program: small(6400, 6400), Batch: program.Batch{KV: 9}}})
	check(t, "another context", meetings[0].Why, "context")
	_, meetings = f.Run(2, []Job{{Rank: 0, Program: small(3200, 6400)}, {Rank: 1, Program: small(6400, 6400), Batch: program.Batch{Tokens: 2}}})
	check(t, "another batch", meetings[0].Why, "batch")
	_, meetings = f.Run(3, []Job{{Rank: 0, Program: small(3200, 6400)}, {Rank: 1, Program: small(6400, 6400)}})
	check(t, "nothing else", meetings[0].Why, "jitter")
}
