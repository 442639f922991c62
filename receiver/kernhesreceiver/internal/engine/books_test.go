package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/internal/model"
	"github.com/kernhes/kernhes/internal/wire"
)

// stats says what the shim has seen.
func (s *script) Stats(kernels, copies uint64) {
	b := append(u32(wire.StatKernels, 0), u64(kernels)...)
	s.Frame(wire.KindStats, append(append(b, u32(wire.StatCopies, 0)...), u64(copies)...))
}

func TestWhatTheShimSawIsAccountedFor(t *testing.T) {
	s := newScript(t)
	count := func(name string) uint64 { t.Helper(); return s.report().Counts[name] }
	s.oneStep(0, 1)
	s.Stats(1, 0)
	require.EqualValues(t, 1, count(books.ShimKernelsHeard))
	s.Number += 2 // two frames are dropped: 5 kernels, 3 copies
	s.Stats(6, 3)
	require.EqualValues(t, 5, count(books.ShimKernelsMissing))
	require.EqualValues(t, 3, count(books.ShimCopiesMissing))
	s.oneStep(1000, 2)
	s.Lost(4, wire.LostKernels, 4, 0, 1000)
	require.EqualValues(t, 1, count(books.ShimKernelsMissing), "LOST has told of the others")
	s.Lost(4, wire.LostCopies, 3, 0, 1000)
	s.Stats(7, 3)
	require.EqualValues(t, 1, count(books.ShimKernelsMissing))
	require.EqualValues(t, 4, count(books.ShimKernelsLost))
	require.Zero(t, s.report().Dropped[books.Wire], "LOST may still tell of it")
	s.Frame(wire.KindBye, append(u32(1, 0), u64(7, 3)...))
	s.end(false)
	r := s.report()
	require.EqualValues(t, 1, r.Dropped[books.Wire])
	require.EqualValues(t, 7, r.Dropped[books.ShimBuffer])
}

func TestALossThatIsToldBeforeTheShimSaysWhatItSaw(t *testing.T) {
	s := newScript(t)
	s.Number++
	s.Lost(4, wire.LostKernels, 5, 0, 1000)
	s.Stats(5, 0)
	require.Zero(t, s.report().Counts[books.ShimKernelsMissing])
	s.Lost(1, wire.LostKernels, 2, 0, 1000) // CUPTI's: the shim never saw those
	s.Stats(5, 0)
	require.EqualValues(t, 5, s.report().Counts[books.ShimKernelsLost])
}

func TestWhatAnEarlierCollectorHadIsNotLost(t *testing.T) {
	s := newScript(t)
	s.Pinned = true
	s.Base(100, 20)
	s.Launch(1, 21)
	s.Ran(21, 10, 20)
	s.Stats(51, 9) // 40 had an earlier collector, 10 were dropped while there was none
	require.EqualValues(t, 50, s.report().Counts[books.ShimKernelsElsewhere])
	s.Lost(4, wire.LostKernels, 10, 0, 1000)
	require.EqualValues(t, 40, s.report().Counts[books.ShimKernelsElsewhere])
	s.Stats(51, 9)
	require.EqualValues(t, 10, s.report().Counts[books.ShimKernelsLost])
	s.Frame(wire.KindBye, append(u32(1, 0), u64(51, 9)...))
	s.end(false)
	require.Zero(t, s.report().Dropped[books.Wire])
}

// A shim that has seen less, or more without a gap, than came: that is what the residue is for.
func TestAShimThatLiesShows(t *testing.T) {
	residue := func(seen uint64) int64 {
		s := newScript(t)
		s.oneStep(0, 1)
		s.Stats(seen, 0)
		return books.Residues(s.p.counts(s.p.main))[books.OfShimKernels]
	}
	require.Zero(t, residue(1))
	require.EqualValues(t, -1, residue(0))
	require.EqualValues(t, 2, residue(3))
}

func TestLossesOfADevice(t *testing.T) {
	s := newScript(t)
	s.oneStep(0, 1)
	s.Launch(40, 2)
	s.Launch(40, 3)
	s.Kernel(2, 0, 0, us(50))
	s.Kernel(3, 0, us(60), us(50))
	s.Ran(1, 10, 30) // again
	s.copyOf(0, us(70))
	s.copyOf(us(70), us(80))
	require.Equal(t, map[string]uint64{books.ZeroTimestamp: 2, books.BackwardTimestamp: 1, books.Duplicate: 1}, s.report().Dropped)
	require.EqualValues(t, 2, s.report().Became.Invalid, "kernels alone")
}

// copyOf is a copy record.
func (s *script) copyOf(start, end uint64) {
	b := make([]byte, 64)
	copy(b, u64(start, end))
	b[42] = wire.CopyMemcpy
	s.Frame(wire.KindCopies, b)
}

// TestAcknowledgementsCountCopiesAndLateFrames: records settle in any order of the frames on which they rest. An acknowledgement
// counts those of the frames up to its own, each once.
func TestAcknowledgementsCountCopiesAndLateFrames(t *testing.T) {
	s := newScript(t)
	for range 9 {
		s.copyOf(us(1), us(2)) // frames 1 to 9
	}
	s.p.ledger.note(8, Unattributed{Settled: model.Settled{Outside: 1}})
	s.p.ledger.note(3, Unattributed{Settled: model.Settled{Outside: 10}})
	s.p.ledger.note(6, Unattributed{Settled: model.Settled{Outside: 100, Late: 5}})
	s.p.ledger.note(3, Unattributed{Settled: model.Settled{Duplicate: 7}})

	var before Unattributed
	counted := func(frame uint64) Unattributed {
		t.Helper()
		if frame < 9 {
			defer s.p.holds.add(frame+1, nil).Release(true)
		}
		require.Equal(t, frame, s.p.Acknowledgeable())
		now := s.p.Unattributed()
		since := now.Less(before)
		before = now
		return since
	}
	require.Equal(t, Unattributed{Copies: 2}, counted(2))
	require.Equal(t, Unattributed{Settled: model.Settled{Outside: 110, Late: 5, Duplicate: 7}, Copies: 4}, counted(6))
	require.Equal(t, Unattributed{Settled: model.Settled{Outside: 1}, Copies: 3}, counted(9))
}

func TestAKernelOutsideThatDeviceTimeHasPassedIsLate(t *testing.T) {
	s := newScript(t)
	s.oneStep(0, 1)
	s.oneStep(900, 2)
	s.Flushed(5000)
	s.Ran(99, 100, 200) // of no launch that is known
	r := s.report()
	require.EqualValues(t, 1, r.Became.Late)
	require.Equal(t, map[string]uint64{books.Late: 1}, r.Dropped)
}

// A hang shows: no step closes, and the age of the last one grows with the engine's heartbeats.
func TestAHangShows(t *testing.T) {
	s := newScript(t)
	s.oneStep(0, 1)
	s.Flushed(1000)
	s.Push(2000, "step:decode tokens=1")
	s.Launch(2001, 2) // its kernel never ends
	s.Pop(2002)
	age := func() float64 {
		r := s.report()
		return float64(r.NowOf()-r.LastStepNS) / 1e9
	}
	before := age()
	for at := uint64(1); at <= 30; at++ {
		s.Flushed(at * second)
		require.Greater(t, age(), before)
		before = age()
	}
	require.InDelta(t, 30-30e-6, before, 1e-9)
	require.EqualValues(t, 1, s.report().Complete)
}
