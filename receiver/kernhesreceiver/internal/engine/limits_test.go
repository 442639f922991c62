package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/cupti"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/ranges"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/step"
)

// limitedScript is a script of a process with small limits, and its notices.
func limitedScript(t *testing.T, archive bool, change func(*Settings)) (*script, *[]Notice) {
	var notices []Notice
	set := testSettings(archived, change)
	set.Archive = archive
	set.Notice = func(n Notice) {
		if n.Level > LevelInfo {
			notices = append(notices, n)
		}
	}
	s := newScript(t)
	s.p = begin(set, wire.Hello{Session: 0xabc, Info: map[string]string{"run": "r", "rank": "0"}})
	return s, &notices
}

func TestEachLimitIsCountedAndSaidOnce(t *testing.T) {
	s, logs := limitedScript(t, false, func(c *Settings) { c.MaxStrings, c.MaxRanges, c.MaxShapes, c.MaxSeries = 16, 16, 16, 2 })
	for i := range uint32(20) {
		s.Text(i+1, fmt.Sprint("kernel", i))
	}
	s.Text(99, strings.Repeat("x", 4096))
	for i := range uint32(30) {
		at := uint64(i) * 1000
		s.Push(at, fmt.Sprintf("step:program%d tokens=1", i))
		s.Push(at+1, fmt.Sprint("call", i))
		for k := range 1 + i%20 {
			s.Launch(at+2, 100*i+k)
		}
		s.Pop(at + 3)
		s.Pop(at + 4)
		for k := range 1 + i%20 {
			s.Ran(100*i+k, at+10+uint64(k), at+11+uint64(k))
		}
	}
	for range ranges.MaxDepth + 5 {
		s.Push(40_000, "deep")
	}
	s.Flushed(50_000)
	s.Flushed(60_000)
	r := s.report()
	require.Equal(t, map[string]uint64{
		"max_strings": 5,       // 4 and the long one
		"max_ranges":  14 + 69, // calls of the last 14 steps, and the deep ones as often as they are pushed
		"range_depth": 5,
		"max_series":  28,
	}, without(r.Limited, "max_shapes"))
	require.NotZero(t, r.Limited["max_shapes"])
	require.EqualValues(t, 30, r.Complete)
	said := map[any]int{}
	for _, n := range *logs {
		if strings.Contains(n.Message, "reached a limit") {
			said[n.Pairs[0].Value]++
		}
	}
	require.Equal(t, map[any]int{"max_strings": 1, "max_ranges": 1, "max_shapes": 1, "max_series": 1, "range_depth": 1}, said)
	require.Equal(t, overflow.program, r.Series[0].Program)
}

// copy sends a copy record; times are in unix ns.
func (s *script) Copy(c uint32, start, end uint64) {
	b := make([]byte, 64)
	copy(b, u64(start, end))
	copy(b[32:], u32(c))
	b[42] = wire.CopyMemcpy
	s.Frame(wire.KindCopies, b)
}

func without(m map[string]uint64, key string) map[string]uint64 {
	rest := map[string]uint64{}
	for k, v := range m {
		if k != key {
			rest[k] = v
		}
	}
	return rest
}

// TestMemoryIsBoundedWithoutAFlush sends what would pile up until a FLUSHED that never comes.
func TestMemoryIsBoundedWithoutAFlush(t *testing.T) {
	for name, one := range map[string]func(s *script, i uint32){
		"kernels outside": func(s *script, i uint32) { s.Ran(i, uint64(i)*10, uint64(i)*10+5) },
		"kernels to come": func(s *script, i uint32) { s.Ran(i, 1000*second+uint64(i)*10, 1000*second+uint64(i)*10+5) },
		"open steps":      func(s *script, i uint32) { s.Push(uint64(i), "step:a "+strings.Repeat("x", 2000)) },
		"copies":          func(s *script, i uint32) { s.Copy(i, us(uint64(i)*10), us(uint64(i)*10+5)) },
		"invalid":         func(s *script, i uint32) { s.Kernel(i, 0, 0, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := limitedScript(t, true, func(c *Settings) { c.MaxSessionBytes = 64 << 10 })
			s.Launch(1, 0xfffffff) // holds every frame after it back, once there is something
			for i := range uint32(4000) {
				one(s, i+1)
				takeChunks(s.p)
				s.p.Unattributed() // as the session does when it acknowledges
				require.LessOrEqual(t, s.p.bytes(), s.p.set.maxBytes*5/4)
			}
			require.NotZero(t, s.p.shed)
			s.bye()
			require.Zero(t, s.report().Pending)
		})
	}
}

// TestSettledRecordsAreForgotten once they are counted for an acknowledgement.
func TestSettledRecordsAreForgotten(t *testing.T) {
	s := newScript(t)
	for i := range uint32(1000) {
		s.Ran(i+1, uint64(i)*10, uint64(i)*10+5)
		s.p.Unattributed()
	}
	require.Zero(t, s.p.ledger.bytes())
}

func TestOpenStepsAreGivenUpWhenTheyAreTooMany(t *testing.T) {
	s := newScript(t)
	for i := range uint32(step.MaxOpen + 2) {
		s.Push(uint64(i), "step:a")
		s.Launch(uint64(i), i)
		s.Pop(uint64(i))
	}
	r := s.report()
	require.EqualValues(t, 1, r.Limited["max_session_bytes"])
	require.Equal(t, map[string]uint64{step.MissingRecords: step.MaxOpen, step.TooLarge: 1}, r.Incomplete)
}

// TestRecordsOfOneDeviceTooManyAreLost: they cost no other record anything, and their launches are not waited for.
func TestRecordsOfOneDeviceTooManyAreLost(t *testing.T) {
	s, logs := limitedScript(t, true, func(*Settings) {})
	kernel := func(c uint32, device uint16) []byte {
		b := make([]byte, 64)
		copy(b, u64(us(10), us(20)))
		copy(b[24:], u32(c))
		le.PutUint16(b[36:], device)
		return b
	}
	moved := func(device uint16) []byte {
		b := make([]byte, 64)
		copy(b, u64(us(10), us(20)))
		le.PutUint16(b[40:], device)
		b[42] = wire.CopyMemcpy
		return b
	}
	for d := range uint16(MaxDevices) {
		s.Frame(wire.KindKernels, kernel(0, d*7))
	}
	s.Push(1, "step:decode")
	s.Launch(2, 1)
	s.Launch(2, 2)
	s.Launch(2, 3)
	s.Pop(3)
	s.Frame(wire.KindKernels, slices.Concat(kernel(1, 7), kernel(2, 1), kernel(3, 7), kernel(0, 2)))
	s.Frame(wire.KindCopies, slices.Concat(moved(7), moved(1), moved(1), moved(14)))
	s.Flushed(1000)
	require.Len(t, s.p.devices, MaxDevices)
	require.Empty(t, s.p.steps.Opened())
	r := s.report()
	require.Equal(t, map[string]uint64{"devices": 4}, r.Limited)
	require.EqualValues(t, 4, r.Dropped[books.SessionLimit])
	require.Zero(t, r.Launches.Unfulfilled)
	require.Equal(t, us(1000)-cupti.Slack, s.p.watermark)
	known := s.p.Reports()[1]
	require.EqualValues(t, 2, known.Became.InSteps)
	require.EqualValues(t, 1, known.Complete)
	require.Equal(t, map[string]uint64{"unknown": 1}, known.Copies)
	require.Equal(t, 1, countOf(*logs, "reached a limit"))
	s.bye()
	r = s.report()
	require.EqualValues(t, MaxDevices+4, r.Counts[books.ShimKernels], "all came, as the shim says")
	require.EqualValues(t, 4, r.Counts[books.ShimCopies])
	require.Zero(t, r.Missing)
}

// TestADeviceTooManyThatIsSentAgainIsNotLostAgain: an earlier collector has counted what was launched before the snapshot.
func TestADeviceTooManyThatIsSentAgainIsNotLostAgain(t *testing.T) {
	s := newScript(t)
	s.Pinned = true
	s.Base(10, 5)
	for d := range uint16(MaxDevices + 1) {
		b := make([]byte, 64)
		copy(b, u64(us(10), us(20)))
		copy(b[24:], u32(5))
		le.PutUint16(b[36:], d)
		s.Frame(wire.KindKernels, b)
	}
	r := s.report()
	require.EqualValues(t, 1, r.Limited["devices"])
	require.Zero(t, r.Dropped[books.SessionLimit])
}

// TestACorrelationIDThatIsUsedAgainAndAgainCostsNothing: each record once looked through all launches with its id.
func TestACorrelationIDThatIsUsedAgainAndAgainCostsNothing(t *testing.T) {
	s := newScript(t)
	for i := range uint64(1 << 15) {
		s.Launch(100+i, 5)
	}
	b := make([]byte, 64)
	copy(b, u64(us(1), us(2)))
	copy(b[24:], u32(5))
	many := make([]byte, 0, 64<<15)
	for range 1 << 15 {
		many = append(many, b...)
	}
	s.Frame(wire.KindKernels, many) // a billion looks were it so
	s.bye()
	r := s.report()
	require.EqualValues(t, 1<<15, r.Kernels)
	require.EqualValues(t, 1, r.Became.Invalid, "the first starts before each launch with its id")
	require.EqualValues(t, 1<<15-1, r.Became.Duplicate)
	require.EqualValues(t, 1<<15-1, r.Launches.Unfulfilled)
}

func TestAFrameThatIsNeitherNumberedNorPinnedIsBad(t *testing.T) {
	p := newScript(t).p
	for _, f := range []wire.Frame{{Kind: wire.KindEvents}, {Kind: wire.KindStrings, Flags: wire.FlagPinned, Number: 1}} {
		require.ErrorIs(t, p.Frame(f), wire.ErrBadFrame)
	}
	require.NoError(t, p.Frame(wire.Frame{Kind: wire.KindBye + 1}), "a kind that only a newer shim knows")
	require.NoError(t, p.Frame(wire.Frame{Kind: wire.KindStrings, Flags: wire.FlagPinned}))
	require.NoError(t, p.Frame(wire.Frame{Kind: wire.KindEvents, Number: 1}))
}

// countOf is how many notices have a text in their message.
func countOf(notices []Notice, text string) (n int) {
	for _, one := range notices {
		if strings.Contains(one.Message, text) {
			n++
		}
	}
	return n
}
