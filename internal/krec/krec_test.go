package krec

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var recordings = []string{"solo.rank0", "tp2.rank0", "tp2.rank1"}

func path(name string) string { return "../../testdata/recordings/" + name + ".krec.zst" }

func load(t testing.TB, name string) *Recording {
	t.Helper()
	r, err := Read(path(name))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// What zstd's own program unpacks, what Decode made of it and what Write and Read made of that are the same bytes.
func TestRoundTrip(t *testing.T) {
	for _, name := range recordings {
		r := load(t, name)
		if zstd, err := exec.LookPath("zstd"); err == nil {
			want, err := exec.Command(zstd, "-dcq", path(name)).Output()
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(Encode(r), want) {
				t.Errorf("%s: encodes to other bytes than were read", name)
			}
		}
		copied := filepath.Join(t.TempDir(), "copy.krec.zst")
		if err := Write(copied, r); err != nil {
			t.Fatal(err)
		}
		again, err := Read(copied)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(Encode(again), Encode(r)) {
			t.Errorf("%s: reads other bytes than were written", name)
		}
		if err := Check(r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestClone(t *testing.T) {
	r := Overlap()
	before := Encode(r)
	c := r.Clone()
	if !bytes.Equal(Encode(c), before) {
		t.Fatal("a clone encodes to other bytes")
	}
	for _, f := range c.Frames {
		if raw, ok := f.(*Raw); ok {
			raw.Records[0].SetStart(1)
		}
		if p, ok := f.(*Push); ok {
			p.Text = "changed"
		}
	}
	if !bytes.Equal(Encode(r), before) {
		t.Error("changing the clone changed the original")
	}
}

func TestMeta(t *testing.T) {
	m := load(t, "tp2.rank1").Meta()
	want := Info{Format: 2, CUPTI: 130001, Headers: 130001, KernelRecord: 216, PID: 622, Rank: "1"}
	if m.Info != want {
		t.Errorf("meta says %+v, want %+v", m.Info, want)
	}
	if made := NewMeta(want); made.JSON != m.JSON {
		t.Errorf("NewMeta says %s, want %s", made.JSON, m.JSON)
	}
}

func TestBadFiles(t *testing.T) {
	meta := &Recording{Frames: []Frame{NewMeta(Info{Format: 2, KernelRecord: 216})}}
	head := len(Encode(meta))
	frame := func(kind, length uint32, body ...byte) []byte { return append(append32(nil, kind, length), body...) }
	after := func(b []byte) []byte { return append(Encode(meta), b...) }
	check := func(b []byte, want string) {
		t.Helper()
		_, err := Decode(b)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
	check(nil, "frame 0 at byte 0: nothing there")
	check(frame(5, 0), "frame 0 at byte 0: kind 5, want meta")
	check(frame(1, 2, '{', '}'), "meta: format 0, want 2")
	check(frame(1, 1, 'x'), "frame 0 at byte 0: meta: invalid character")
	check(Encode(&Recording{Frames: []Frame{NewMeta(Info{Format: 2, KernelRecord: 200})}}), "kernel records of 200 bytes")
	check(after([]byte{1, 2}), ": 2 bytes, want a head of 8")
	check(after(Encode(meta)), "kind 1, want meta (1) first and only there")
	check(after(frame(99, 0)), "kind 99 is not known")
	check(after(frame(5, 0xffffffff)), "kind 5: body of 4294967295 bytes, of which 0 are there")
	check(after(frame(6, 25, make([]byte, 25)...)), "pop: body of 25 bytes, want 24")
	check(after(frame(5, 10, make([]byte, 10)...)), "push: body of 10 bytes, want 24")
	check(after(frame(6, 24, append(make([]byte, 20), 1, 0, 0, 0)...)), "pop: 1 at byte 20, want 0")
	check(after(frame(2, 3, 1, 2, 3)), "raw: record 0 at byte 0: 3 bytes")
	check(after(frame(2, 4, 3, 0, 0, 0)), "raw: record 0 at byte 0: kind 3 is not known")
	check(after(append(frame(12, 4, 1, 0, 0, 0), frame(2, 8, 10, 0, 0, 0, 0, 0, 0, 0)...)), "frame 2 at byte ")
	check(after(frame(2, 8, 10, 0, 0, 0, 0, 0, 0, 0)), "kind 10: 8 bytes, want 216")
	check(after(frame(14, 10, make([]byte, 10)...)), "schema: body of 10 bytes, want 24")
	check(after(frame(14, 30, make([]byte, 30)...)), "schema: entry 0: 6 bytes, want 40")
	check(after(frame(14, 64, append(append(make([]byte, 56), 9), make([]byte, 7)...)...)), "schema: entry 0: name of 9 bytes, of which 0 are there")
	check(after(frame(15, 40, append(append(make([]byte, 32), 2), make([]byte, 7)...)...)), "push: way 2, want 0 or 1")
	check(after(frame(16, 40, append(append(make([]byte, 36), 3), make([]byte, 3)...)...)), "pop: payload of 3 bytes, of which 0 are there")
	check(after(frame(16, 41, make([]byte, 41)...)), "pop: 1 bytes after its payload")
	if _, err := Decode(after(frame(5, 10, make([]byte, 10)...))); err == nil || !strings.Contains(err.Error(), "at byte "+strconv.Itoa(head)) {
		t.Errorf("error %v, want one at byte %d", err, head)
	}
	garbage := filepath.Join(t.TempDir(), "garbage.krec.zst")
	if err := os.WriteFile(garbage, []byte("not zstd"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(garbage); err == nil || !strings.Contains(err.Error(), garbage) {
		t.Errorf("error %v, want one that names the file", err)
	}
}
