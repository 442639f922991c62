package kernhesreceiver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/internal/wire"
)

// stats says what the shim has seen.
func (s *script) stats(kernels, copies uint64) {
	b := append(u32(wire.StatKernels, 0), u64(kernels)...)
	s.frame(wire.KindStats, append(append(b, u32(wire.StatCopies, 0)...), u64(copies)...))
}

func TestWhatTheShimSawIsAccountedFor(t *testing.T) {
	s := newScript(t)
	count := func(name string) uint64 { t.Helper(); return s.report().counts[name] }
	s.oneStep(0, 1)
	s.stats(1, 0)
	require.EqualValues(t, 1, count(books.ShimKernelsHeard))
	s.number += 2 // two frames are dropped: 5 kernels, 3 copies
	s.stats(6, 3)
	require.EqualValues(t, 5, count(books.ShimKernelsMissing))
	require.EqualValues(t, 3, count(books.ShimCopiesMissing))
	s.oneStep(1000, 2)
	s.lost(4, wire.LostKernels, 4, 0, 1000)
	require.EqualValues(t, 1, count(books.ShimKernelsMissing), "LOST has told of the others")
	s.lost(4, wire.LostCopies, 3, 0, 1000)
	s.stats(7, 3)
	require.EqualValues(t, 1, count(books.ShimKernelsMissing))
	require.EqualValues(t, 4, count(books.ShimKernelsLost))
	require.Zero(t, s.report().dropped[books.Wire], "LOST may still tell of it")
	s.frame(wire.KindBye, append(u32(1, 0), u64(7, 3)...))
	s.end(false)
	r := s.report()
	require.EqualValues(t, 1, r.dropped[books.Wire])
	require.EqualValues(t, 7, r.dropped[books.ShimBuffer])
}

func TestALossThatIsToldBeforeTheShimSaysWhatItSaw(t *testing.T) {
	s := newScript(t)
	s.number++
	s.lost(4, wire.LostKernels, 5, 0, 1000)
	s.stats(5, 0)
	require.Zero(t, s.report().counts[books.ShimKernelsMissing])
	s.lost(1, wire.LostKernels, 2, 0, 1000) // CUPTI's: the shim never saw those
	s.stats(5, 0)
	require.EqualValues(t, 5, s.report().counts[books.ShimKernelsLost])
}

func TestWhatAnEarlierCollectorHadIsNotLost(t *testing.T) {
	s := newScript(t)
	s.pinned = true
	s.base(100, 20)
	s.launch(1, 21)
	s.ran(21, 10, 20)
	s.stats(51, 9) // 40 had an earlier collector, 10 were dropped while there was none
	require.EqualValues(t, 50, s.report().counts[books.ShimKernelsElsewhere])
	s.lost(4, wire.LostKernels, 10, 0, 1000)
	require.EqualValues(t, 40, s.report().counts[books.ShimKernelsElsewhere])
	s.stats(51, 9)
	require.EqualValues(t, 10, s.report().counts[books.ShimKernelsLost])
	s.frame(wire.KindBye, append(u32(1, 0), u64(51, 9)...))
	s.end(false)
	require.Zero(t, s.report().dropped[books.Wire])
}

// A shim that has seen less, or more without a gap, than came: that is what the residue is for.
func TestAShimThatLiesShows(t *testing.T) {
	residue := func(seen uint64) int64 {
		s := newScript(t)
		s.oneStep(0, 1)
		s.stats(seen, 0)
		return books.Residues(s.p.counts(s.p.main))[books.OfShimKernels]
	}
	require.Zero(t, residue(1))
	require.EqualValues(t, -1, residue(0))
	require.EqualValues(t, 2, residue(3))
}

func TestLossesOfADevice(t *testing.T) {
	s := newScript(t)
	s.oneStep(0, 1)
	s.launch(40, 2)
	s.launch(40, 3)
	s.kernel(2, 0, 0, us(50))
	s.kernel(3, 0, us(60), us(50))
	s.ran(1, 10, 30) // again
	s.copyOf(0, us(70))
	s.copyOf(us(70), us(80))
	require.Equal(t, map[string]uint64{books.ZeroTimestamp: 2, books.BackwardTimestamp: 1, books.Duplicate: 1}, s.report().dropped)
	require.EqualValues(t, 2, s.report().became.Invalid, "kernels alone")
}

// copyOf is a copy record.
func (s *script) copyOf(start, end uint64) {
	b := make([]byte, 64)
	copy(b, u64(start, end))
	b[42] = wire.CopyMemcpy
	s.frame(wire.KindCopies, b)
}

// TestAcknowledgementLinesCountCopiesAndLateFrames: records settle in any order of the frames on which they rest; a line
// counts those of the frames up to its own, each once.
func TestAcknowledgementLinesCountCopiesAndLateFrames(t *testing.T) {
	s := newScript(t)
	for range 9 {
		s.copyOf(us(1), us(2)) // frames 1 to 9
	}
	s.p.note(8, loose{Outside: 1})
	s.p.note(3, loose{Outside: 10})
	s.p.note(6, loose{Outside: 100, Late: 5})
	s.p.note(3, loose{Duplicate: 7})

	session := newSession(0xabc, s.p, remembered{})
	line := func(frame uint64) loose {
		t.Helper()
		s.p.packing.sent = 0
		if frame < 9 {
			s.p.packing.sent = frameHold(frame + 1)
		}
		require.Equal(t, frame, s.p.acknowledgeable())
		l := session.ackLine(frame)
		require.Equal(t, frame, l.Frame)
		require.Equal(t, "0000000000000abc", l.Session)
		session.counted = s.p.loose()
		return l.loose
	}
	require.Equal(t, loose{Copies: 2}, line(2))
	require.Equal(t, loose{Copies: 4, Outside: 110, Late: 5, Duplicate: 7}, line(6))
	require.Equal(t, loose{Copies: 3, Outside: 1}, line(9))
}

func TestAKernelOutsideThatDeviceTimeHasPassedIsLate(t *testing.T) {
	s := newScript(t)
	s.oneStep(0, 1)
	s.oneStep(900, 2)
	s.flushed(5000)
	s.ran(99, 100, 200) // of no launch that is known
	r := s.report()
	require.EqualValues(t, 1, r.became.Late)
	require.Equal(t, map[string]uint64{books.Late: 1}, r.dropped)
}

// A hang shows: no step closes, and the age of the last one grows with the engine's heartbeats.
func TestAHangShows(t *testing.T) {
	s := newScript(t)
	s.oneStep(0, 1)
	s.flushed(1000)
	s.push(2000, "step:decode tokens=1")
	s.launch(2001, 2) // its kernel never ends
	s.pop(2002)
	age := func() float64 {
		m := pmetric.NewMetrics()
		r := s.report()
		appendRank(m, &r, false, "", "", time.Time{})
		return points(m)["kern_last_step_age_seconds"][""][0].(float64)
	}
	before := age()
	for at := uint64(1); at <= 30; at++ {
		s.flushed(at * second)
		require.Greater(t, age(), before)
		before = age()
	}
	require.InDelta(t, 30-30e-6, before, 1e-9)
	require.EqualValues(t, 1, s.report().complete)
}
