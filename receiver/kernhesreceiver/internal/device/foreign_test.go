package device

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/cupti"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

// add gives an account one kernel.
func add(a *Account, owner, start, end uint64, c span.Class) {
	columns := &cupti.Columns{}
	columns.Add(span.Make(start, end, c), 0)
	a.Add(owner, columns.Since(0))
}

// TestForeignComputeAfterAStepThatEndsBeforeAnEarlierOne: the second step lies within the first, so what counts for the third
// begins where the first ended.
func TestForeignComputeAfterAStepThatEndsBeforeAnEarlierOne(t *testing.T) {
	var a Account
	add(&a, 1, 100, 200, span.Compute)
	add(&a, 2, 110, 120, span.Compute)
	add(&a, 0, 150, 170, span.Compute) // lies under the first
	add(&a, 0, 190, 230, span.Compute) // 30 after it
	add(&a, 0, 240, 250, span.Comm)    // is no compute
	add(&a, 0, 240, 250, span.Spin)
	add(&a, 3, 300, 310, span.Compute)
	add(&a, 0, 305, 320, span.Compute) // 5 before the third ends
	a.Advance(1000, 0)
	for i, c := range []struct{ owner, last, want uint64 }{{1, 200, 0}, {2, 120, 0}, {3, 310, 35}} {
		if got := a.Foreign(c.owner, c.last, 0); got != c.want {
			t.Errorf("step %d: %d foreign, want %d", i+1, got, c.want)
		}
	}
}

// TestForeignComputeWhileAnEarlierStepIsOpen: it counts from the latest end that the earlier step has so far.
func TestForeignComputeWhileAnEarlierStepIsOpen(t *testing.T) {
	var a Account
	add(&a, 1, 100, 110, span.Compute)
	add(&a, 2, 120, 160, span.Compute) // does not close
	add(&a, 0, 130, 180, span.Compute)
	add(&a, 3, 190, 200, span.Compute)
	a.Advance(1000, 0)
	if got := a.Foreign(1, 110, 0); got != 0 {
		t.Errorf("the first: %d", got)
	}
	if got := a.Foreign(3, 200, 160); got != 20 {
		t.Errorf("after one that is open up to 160: %d foreign, want 160 to 180", got)
	}
}

// TestForeignComputeAgreesWithCountingEachNanosecond lets random steps become final as the watermark passes them.
func TestForeignComputeAgreesWithCountingEachNanosecond(t *testing.T) {
	type kernel struct {
		owner uint64
		span.Span
	}
	for seed := range uint64(4000) {
		rng := rand.New(rand.NewPCG(seed, 7))
		var kernels []kernel
		steps := 1 + rng.Uint64N(5)
		for range 1 + rng.IntN(20) {
			owner, start := rng.Uint64N(steps+1), 1+rng.Uint64N(100)
			start = (start + owner*20) % 150
			kernels = append(kernels, kernel{owner, span.Make(start+1, start+1+rng.Uint64N(20), []span.Class{span.Compute, span.Compute, span.Comm, span.Spin}[rng.IntN(4)])})
		}
		slices.SortFunc(kernels, func(a, b kernel) int { return int(a.Start) - int(b.Start) })
		log := fmt.Sprintf("seed %d: %v", seed, kernels)
		type step struct{ id, first, last uint64 }
		var todo []step
		for id := uint64(1); id <= steps; id++ {
			s := step{id: id}
			for _, k := range kernels {
				if k.owner == id {
					if s.first == 0 {
						s.first = k.Start
					}
					s.last = max(s.last, k.End())
				}
			}
			if s.first != 0 {
				todo = append(todo, s)
			}
		}
		slices.SortStableFunc(todo, func(a, b step) int { return int(a.first) - int(b.first) })
		var a Account
		var since uint64
		began := false
		came := kernels
		for at := uint64(0); at < 400; at += 1 + rng.Uint64N(40) {
			for len(came) > 0 && came[0].Start < at+20 {
				add(&a, came[0].owner, came[0].Start, came[0].End(), came[0].Class())
				came = came[1:]
			}
			a.Advance(at, 1000)
			for len(todo) > 0 && todo[0].last <= at {
				s := todo[0]
				todo = todo[1:]
				want := uint64(0)
				for ns := since; began && ns < s.last; ns++ {
					if slices.ContainsFunc(kernels, func(k kernel) bool {
						return k.owner != s.id && k.Class() == span.Compute && k.Start <= ns && ns < k.End()
					}) {
						want++
					}
				}
				if got := a.Foreign(s.id, s.last, 0); got != want {
					t.Fatalf("%s\nstep %d to %d: %d foreign since %d, want %d", log, s.id, s.last, got, since, want)
				}
				began, since = true, max(since, s.last)
			}
			a.Settle(at, len(todo) > 0 && todo[0].first < at)
		}
	}
}

// TestAKernelThatStartsAtTheWatermarkMayBeAStepsToCome: what starts before it belongs to no step to come, and what starts with it
// may.
func TestAKernelThatStartsAtTheWatermarkMayBeAStepsToCome(t *testing.T) {
	var a Account
	add(&a, 1, 100, 200, span.Compute)
	a.Advance(300, 0)
	if ns := a.Foreign(1, 200, 0); ns != 0 {
		t.Errorf("the first step: %d", ns)
	}
	add(&a, 0, 400, 450, span.Compute)
	add(&a, 2, 500, 600, span.Compute)
	a.Advance(500, 0)
	a.Settle(500, false)
	a.Advance(700, 0)
	if ns := a.Foreign(2, 600, 0); ns != 50 {
		t.Errorf("%d ns foreign, want the 50 before the step", ns)
	}
}
