package sender

import (
	"strings"
	"testing"

	"github.com/kernhes/kernhes/internal/wire"
)

// TestARunOfEventsIsSentOnceItIsLong holds each way to send an event to the bound: the event that fills 32 KiB goes with the
// frame, and none waits for the next call.
func TestARunOfEventsIsSentOnceItIsLong(t *testing.T) {
	const bound = 32 << 10
	for name, send := range map[string]func(s *Sender, i int){
		"push":      func(s *Sender, i int) { s.Push(1, 0, 1, strings.Repeat("x", 1000+i)) },
		"once":      func(s *Sender, _ int) { s.Once(1, 0, 1, "step:decode seq=1") },
		"pop":       func(s *Sender, _ int) { s.Pop(1, 0, 0) },
		"launch":    func(s *Sender, i int) { s.Launch(1, uint32(i), false) },
		"captured":  func(s *Sender, i int) { s.Captured(1, uint32(i)) },
		"created":   func(s *Sender, i int) { s.NodeCreated(1, uint64(i), false, 0) },
		"cloned":    func(s *Sender, i int) { s.NodeCloned(uint64(i), uint64(i+1)) },
		"domain":    func(s *Sender, i int) { s.Domain(uint32(i+2), "a domain") },
		"any event": func(s *Sender, _ int) { s.Event(99, 1, make([]byte, 40)) },
		"payload":   func(s *Sender, _ int) { s.PushPayload(1, 1, 1, 7, make([]byte, 24)) },
		"schema": func(s *Sender, i int) {
			s.Register(Schema{Domain: 1, ID: uint64(i + 100), Size: 8, Type: 1, Fields: []Field{{Type: 18, Name: strings.Repeat("f", 200)}}})
			s.announce(1, 1, s.schemas[schemaKey{1, uint64(i + 100)}])
		},
	} {
		var frames [][]byte
		s := New(func(_ uint64, f []byte) { frames = append(frames, f) })
		s.Register(Schema{Domain: 1, ID: 7, Size: 24, Type: 1, Fields: []Field{{Type: 18, Name: "a"}}})
		for i := 0; len(frames) == 0 && i < 10_000; i++ {
			send(s, i)
		}
		if len(frames) == 0 {
			t.Errorf("%s: nothing was sent", name)
			continue
		}
		events, last := frames[0][wire.HeaderSize:], 0
		for rest := events; len(rest) > 0; rest = rest[last:] {
			last = int(le.Uint16(rest[2:])) // its size follows its kind
		}
		if len(events) < bound || len(events)-last >= bound || len(s.events) != 0 {
			t.Errorf("%s: %d bytes in a frame, the last event has %d of them, %d bytes wait", name, len(events), last, len(s.events))
		}
	}
}

// TestTheStringsAreBounded sends texts of 4 KiB until the pool of 16 MiB is full: from then on a text has no id.
func TestTheStringsAreBounded(t *testing.T) {
	s := New(func(uint64, []byte) {})
	given := 0
	for i := range 4096 + 10 {
		text := strings.Repeat(string(rune('a'+i%26)), 4096-4) + string([]byte{byte(i), byte(i >> 8), byte(i >> 16), 1})
		if s.ID(text) != 0 {
			given++
		}
	}
	if want := 16 << 20 / 4096; given != want {
		t.Errorf("%d texts of %d bytes have ids, want %d", given, 4096, want)
	}
}
