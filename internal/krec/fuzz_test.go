package krec

import (
	"bytes"
	"testing"
)

// Whatever Decode takes, it gives back byte for byte; whatever it refuses, it refuses with an error.
func FuzzDecode(f *testing.F) {
	for _, story := range Stories() {
		f.Add(Encode(story.Recording))
	}
	f.Add(Encode(&Recording{Frames: load(f, "tp2.rank0").Frames[:60]}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Decode(b)
		if err != nil {
			return
		}
		if !bytes.Equal(Encode(r), b) {
			t.Error("encodes to other bytes than were decoded")
		}
		if !bytes.Equal(Encode(r.Clone()), b) {
			t.Error("its clone encodes to other bytes")
		}
	})
}
