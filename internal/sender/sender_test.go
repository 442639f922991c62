package sender

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kernhes/kernhes/internal/wire"
)

// said is what a reader of the wire finds in frames: a line a thing.
func said(t *testing.T, frames [][]byte) (lines []string) {
	t.Helper()
	for _, f := range frames {
		kind, flags, number, body := wire.Kind(le.Uint16(f[4:])), le.Uint16(f[6:]), le.Uint64(f[8:]), f[16:]
		head := fmt.Sprintf("%s %d %d", kind, flags, number)
		var err error
		switch kind {
		case wire.KindStrings:
			err = wire.Strings(body, func(id uint32, text []byte) { lines = append(lines, fmt.Sprintf("%s: %d %s", head, id, text)) })
		case wire.KindEvents:
			err = wire.Events(body, func(e wire.Event) {
				line := fmt.Sprintf("%s: kind %d thread %d", head, e.Kind(), e.Thread())
				switch e.Kind() {
				case wire.EventPush:
					id, text := e.Text()
					line += fmt.Sprintf(" string %d %s", id, text)
				case wire.EventNodeCreated:
					line += fmt.Sprintf(" node %x in launch %v", e.Node(), e.InLaunch())
				}
				lines = append(lines, line)
			})
		case wire.KindBase:
			var b wire.Base
			b, err = wire.ParseBase(body)
			lines = append(lines, fmt.Sprintf("%s: %+v", head, b))
		default:
			lines = append(lines, head)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return lines
}

// The snapshot is the state after the last freed frame: names, domains and nodes of frames up to
// there, with their labels, and the last launch in them.
func TestSnapshot(t *testing.T) {
	var frames [][]byte
	s := New(func(_ uint64, f []byte) { frames = append(frames, f) })
	s.Pin()
	s.Hello(7, "run", "r")
	s.Base()
	s.Domain(1, "NCCL")
	s.PinPopped(1, "ncclCommInitRankConfig", 5, nil)
	s.Cut()
	s.ID("gemm")
	s.PinNode(0x200000001, "label")
	s.Launch(1, 41, false)
	s.Launched(41)
	s.Cut()
	s.ID("later")
	s.Launch(1, 42, false)
	s.Launched(42)
	s.Flush(9)
	if got := said(t, s.Snapshot()); !slices.Equal(got, []string{"BASE 0 0: {Number:0 Correlation:0 Launches:false}"}) {
		t.Errorf("before anything is freed: %q", got)
	}
	s.Free(3) // EVENTS, STRINGS, EVENTS
	want := []string{
		"STRINGS 1 0: 1 gemm", "STRINGS 1 0: 2 label",
		"EVENTS 1 0: kind 11 thread 0",
		"EVENTS 1 0: kind 1 thread 0 string 0 ncclCommInitRankConfig", "EVENTS 1 0: kind 2 thread 0",
		"EVENTS 1 0: kind 1 thread 0 string 2 ", "EVENTS 1 0: kind 7 thread 0 node 200000001 in launch true", "EVENTS 1 0: kind 2 thread 0",
		"BASE 0 0: {Number:3 Correlation:41 Launches:true}",
	}
	if got := said(t, s.Snapshot()); !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	s.Free(2) // no step back
	if got := said(t, s.Snapshot()); got[len(got)-1] != want[len(want)-1] {
		t.Errorf("%q", got)
	}
	if n := s.Next(); n != uint64(len(frames)-1) {
		t.Errorf("the next frame is %d after %d", n, len(frames))
	}
}
