package shim

import (
	"slices"
	"testing"
	"time"

	"github.com/kernhes/kernhes/internal/sender"
	"github.com/kernhes/kernhes/internal/sim/program"
	"github.com/kernhes/kernhes/internal/wire"
)

// made is the kinds of frames and the pairs of HELLO of a shim that idles for a second; change is
// called when it has started.
func made(t *testing.T, set Settings, change func(*Shim)) (kinds []wire.Kind, pairs map[string]string) {
	t.Helper()
	set.Run, set.Layout, set.Start, set.Flush = "r", program.Layouts()[0], 1.7e18, time.Second
	h := New(&set, 3, 9, func(_ uint64, frame []byte) {
		kind := wire.Kind(frame[4])
		kinds = append(kinds, kind)
		if kind == wire.KindHello {
			hello, err := wire.ParseHello(frame[wire.HeaderSize:])
			if err != nil {
				t.Fatal(err)
			}
			pairs = hello.Info
		}
	})
	change(h)
	kinds = nil
	h.Idle(set.Start + 1_500_000_000)
	return kinds, pairs
}

func TestHello(t *testing.T) {
	_, named := made(t, Settings{}, func(*Shim) {})
	if named["run"] != "r" || named["rank"] != "3" {
		t.Errorf("HELLO has run %q and rank %q, want r and 3", named["run"], named["rank"])
	}
	_, other := made(t, Settings{Anonymous: true}, func(*Shim) {})
	for _, key := range []string{"run", "rank"} {
		if v, ok := other[key]; ok {
			t.Errorf("HELLO has %s %q", key, v)
		}
	}
	if other["host"] != named["host"] || other["engine"] != "kernhes-sim" {
		t.Errorf("HELLO lacks the rest: %v", other)
	}
}

// What was lost is told before the flush passes its time, also with ranges only.
func TestLossesAreToldBeforeTheFlush(t *testing.T) {
	for _, untraced := range []bool{false, true} {
		kinds, _ := made(t, Settings{Untraced: untraced}, func(h *Shim) {
			h.Wire.Cut()
			h.Losses = func() []sender.Loss { return make([]sender.Loss, 2) }
		})
		if !slices.Equal(kinds, []wire.Kind{wire.KindLost, wire.KindLost, wire.KindFlushed}) {
			t.Errorf("ranges only %v: frames are %v", untraced, kinds)
		}
	}
}
