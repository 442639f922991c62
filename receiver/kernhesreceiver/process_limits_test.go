package kernhesreceiver

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/ranges"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/step"
)

// limitedScript is a script of a process with small limits, and what it logs.
func limitedScript(t *testing.T, archive bool, change func(*Config)) (*script, *observer.ObservedLogs) {
	core, logs := observer.New(zap.WarnLevel)
	cfg := createDefaultConfig().(*Config)
	change(cfg)
	s := newScript(t)
	s.p = newEngines(zap.New(core), cfg, archive, nil, &said{})(wire.Hello{Session: 0xabc, Info: map[string]string{"run": "r", "rank": "0"}}).(*process)
	return s, logs
}

// text sends a text by number.
func (s *script) text(id uint32, text string) {
	b := append(u32(id, uint32(len(text))), text...)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	s.frame(wire.KindStrings, b)
}

func TestEachLimitIsCountedAndSaidOnce(t *testing.T) {
	s, logs := limitedScript(t, false, func(c *Config) { c.MaxStrings, c.MaxRanges, c.MaxShapes, c.MaxSeries = 16, 16, 16, 2 })
	for i := range uint32(20) {
		s.text(i+1, fmt.Sprint("kernel", i))
	}
	s.text(99, strings.Repeat("x", 4096))
	for i := range uint32(30) {
		at := uint64(i) * 1000
		s.push(at, fmt.Sprintf("step:program%d tokens=1", i))
		s.push(at+1, fmt.Sprint("call", i))
		for k := range 1 + i%20 {
			s.launch(at+2, 100*i+k)
		}
		s.pop(at + 3)
		s.pop(at + 4)
		for k := range 1 + i%20 {
			s.ran(100*i+k, at+10+uint64(k), at+11+uint64(k))
		}
	}
	for range ranges.MaxDepth + 5 {
		s.push(40_000, "deep")
	}
	s.flushed(50_000)
	s.flushed(60_000)
	r := s.report()
	require.Equal(t, map[string]uint64{
		"max_strings": 5,       // 4 and the long one
		"max_ranges":  14 + 64, // calls of the last 14 steps, and the deep ones as often as they are pushed
		"range_depth": 5,
		"max_series":  28,
	}, without(r.limited, "max_shapes"))
	require.NotZero(t, r.limited["max_shapes"])
	require.EqualValues(t, 30, r.complete)
	said := map[any]int{}
	for _, e := range logs.FilterMessageSnippet("reached a limit").All() {
		said[e.ContextMap()["limit"]]++
	}
	require.Equal(t, map[any]int{"max_strings": 1, "max_ranges": 1, "max_shapes": 1, "max_series": 1, "range_depth": 1}, said)
	require.Equal(t, overflow.program, r.series[0].program)
}

// copy sends a copy record; times are in unix ns.
func (s *script) copy(c uint32, start, end uint64) {
	b := make([]byte, 64)
	copy(b, u64(start, end))
	copy(b[32:], u32(c))
	b[42] = wire.CopyMemcpy
	s.frame(wire.KindCopies, b)
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
		"kernels outside": func(s *script, i uint32) { s.ran(i, uint64(i)*10, uint64(i)*10+5) },
		"kernels to come": func(s *script, i uint32) { s.ran(i, 1000*second+uint64(i)*10, 1000*second+uint64(i)*10+5) },
		"open steps":      func(s *script, i uint32) { s.push(uint64(i), "step:a "+strings.Repeat("x", 2000)) },
		"copies":          func(s *script, i uint32) { s.copy(i, us(uint64(i)*10), us(uint64(i)*10+5)) },
		"invalid":         func(s *script, i uint32) { s.kernel(i, 0, 0, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := limitedScript(t, true, func(c *Config) { c.MaxSessionBytes = 64 << 10 })
			s.launch(1, 0xfffffff) // holds every frame after it back, once there is something
			for i := range uint32(4000) {
				one(s, i+1)
				s.p.loose() // as the session does when it acknowledges
				require.LessOrEqual(t, s.p.bytes(), s.p.set.maxBytes*5/4)
			}
			require.NotZero(t, s.p.relieved)
			s.bye()
			require.Zero(t, s.report().pending)
		})
	}
}

// TestSettledRecordsAreForgotten holds that counting them for the dump does not keep them when there is none.
func TestSettledRecordsAreForgotten(t *testing.T) {
	s := newScript(t)
	session := newSession(1, s.p, remembered{})
	for i := range uint32(1000) {
		s.ran(i+1, uint64(i)*10, uint64(i)*10+5)
		_, _, err := session.acknowledge(nil)
		require.NoError(t, err)
	}
	require.Empty(t, s.p.ledger)
}

func TestOpenStepsAreGivenUpWhenTheyAreTooMany(t *testing.T) {
	s := newScript(t)
	for i := range uint32(step.MaxOpen + 2) {
		s.push(uint64(i), "step:a")
		s.launch(uint64(i), i)
		s.pop(uint64(i))
	}
	r := s.report()
	require.EqualValues(t, 1, r.limited["max_session_bytes"])
	require.Equal(t, map[string]uint64{step.MissingRecords: step.MaxOpen, step.TooLarge: 1}, r.incomplete)
}

func TestOneDeviceTooManyIsABadFrame(t *testing.T) {
	s := newScript(t)
	record := func(device uint16) wire.Frame {
		b := make([]byte, 64)
		copy(b, u64(us(1), us(2)))
		le.PutUint16(b[36:], device)
		s.number++
		return wire.Frame{Kind: wire.KindKernels, Number: s.number, Body: b}
	}
	for d := range uint16(maxDevices) {
		require.NoError(t, s.p.frame(record(d*7)))
	}
	err := s.p.frame(record(1))
	require.ErrorIs(t, err, wire.ErrBadFrame)
	require.ErrorContains(t, err, "KERNELS of device 1: at most 64 devices")
	s.number--
	require.NoError(t, s.p.frame(record(7)), "one that is known")
	require.Len(t, s.p.devices, maxDevices)
}

// TestACorrelationIDThatIsUsedAgainAndAgainCostsNothing: each record once looked through all launches with its id.
func TestACorrelationIDThatIsUsedAgainAndAgainCostsNothing(t *testing.T) {
	s := newScript(t)
	for i := range uint64(1 << 15) {
		s.launch(100+i, 5)
	}
	b := make([]byte, 64)
	copy(b, u64(us(1), us(2)))
	copy(b[24:], u32(5))
	many := make([]byte, 0, 64<<15)
	for range 1 << 15 {
		many = append(many, b...)
	}
	s.frame(wire.KindKernels, many) // a billion looks were it so
	s.bye()
	r := s.report()
	require.EqualValues(t, 1<<15, r.kernels)
	require.EqualValues(t, 1<<15, r.launches.Unfulfilled)
}

func TestAFrameThatIsNeitherNumberedNorPinnedIsBad(t *testing.T) {
	p := newScript(t).p
	for _, f := range []wire.Frame{{Kind: wire.KindEvents}, {Kind: wire.KindStrings, Flags: wire.FlagPinned, Number: 1}} {
		require.ErrorIs(t, p.frame(f), wire.ErrBadFrame)
	}
	require.NoError(t, p.frame(wire.Frame{Kind: wire.KindBye + 1}), "a kind that only a newer shim knows")
	require.NoError(t, p.frame(wire.Frame{Kind: wire.KindStrings, Flags: wire.FlagPinned}))
	require.NoError(t, p.frame(wire.Frame{Kind: wire.KindEvents, Number: 1}))
}
