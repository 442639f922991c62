package shim

import (
	"encoding/binary"
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

// Each communicator that NCCL serves is initialised once on each rank: the world's, the tensor group's, the stages' if there are
// some, and none of one member. Experts meet without NCCL.
func TestCommunicators(t *testing.T) {
	for _, l := range []struct {
		layout program.Layout
		want   []uint32 // ranks of each communicator of rank 3
	}{
		{program.Layout{Name: "dp4", Data: 4, Tensor: 1, Stages: 1}, []uint32{4}},
		{program.Layout{Name: "tp2dp4", Data: 4, Tensor: 2, Stages: 1}, []uint32{8, 2}},
		{program.Layout{Name: "pp2tp4", Data: 1, Tensor: 4, Stages: 2}, []uint32{8, 4, 2}},
	} {
		set := Settings{Run: "r", Layout: l.layout, Start: 1.7e18, Flush: time.Second}
		var got []uint32
		h := New(&set, 3, 9, func(_ uint64, frame []byte) {
			if wire.Kind(frame[4]) != wire.KindEvents {
				return
			}
			for b := frame[wire.HeaderSize:]; len(b) > 0; b = b[binary.LittleEndian.Uint16(b[2:]):] {
				if wire.EventKind(binary.LittleEndian.Uint16(b)) == wire.EventPayload {
					got = append(got, binary.LittleEndian.Uint32(b[56+8:])) // after the head, the communicator's id
				}
			}
		})
		h.Wire.Cut()
		if !slices.Equal(got, l.want) {
			t.Errorf("%s: communicators of %d ranks, want %d", l.layout.Name, got, l.want)
		}
	}
}
