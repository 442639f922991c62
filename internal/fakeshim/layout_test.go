package fakeshim

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kernhes/kernhes/internal/krec"
)

// dump is what C, by wire.h, reads in frames: a line a thing.
func dump(t *testing.T, frames [][]byte) []string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	program := filepath.Join(t.TempDir(), "dump")
	if out, err := exec.Command(cc, "-std=c11", "-Wall", "-Werror", "-I../../shim/transport", "-o", program, "testdata/dump.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c := exec.Command(program)
	c.Stdin = bytes.NewReader(bytes.Join(frames, nil))
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return strings.Split(strings.TrimRight(string(out), "\n"), "\n")
}

// C reads the frames of a small recording as they were meant, to the last field.
func TestLayouts(t *testing.T) {
	b := krec.NewBuilder()
	start := b.Now()
	b.PushIn("NCCL", "group")
	g := b.Capture()
	b.Push("label")
	g.Kernel("gemm", 7)
	g.Copy(8)
	b.Pop()
	exec := g.Instantiate()
	b.Push("step:decode seq=1")
	b.Push("label")
	exec.Launch(5000, 2000, 500)
	b.Pop()
	b.Pop()
	b.PopIn("NCCL")
	r := b.Recording()
	kernel := r.Frames[len(r.Frames)-1].(*krec.Raw).Records[0]
	kernel[6], kernel[76], kernel[80] = 40, 16, 32 // registers, shared memory
	kernel.SetShape([3]uint32{70000, 2, 3}, [3]uint32{4, 5, 6})
	r.Frames = append(r.Frames, &krec.Dropped{Count: 9})

	us := func(n int) uint64 { return start + uint64(n)*1000 }
	want := []string{
		"frame 1 number 0", "hello version 1 session 1", "pair run=recorded", "pair rank=0", "pair host=recorder", "pair engine=fakeshim",
		"pair pid=1", fmt.Sprintf("pair process_start=%d", us(1)), "pair mode=software", "pair mode_reason=recorded", "pair cupti_version=130001",
		"pair shim_version=0", "pair gpu.0.uuid=GPU-0-0", "pair gpu.0.name=recorded GPU",
		"frame 12 number 0", "base 0",
		"frame 11 number 1", fmt.Sprintf("clock %d %d %d 1000000000000", start, start+50, start+100),
		"frame 3 number 2", "string 1 label", "string 2 gemm",
		"frame 4 number 3",
		fmt.Sprintf("event 11 length 32 thread 0 time %d domain 1 NCCL", start),
		fmt.Sprintf("event 1 length 40 thread 1 time %d domain 1 text 0 depth 1 group", us(1)),
		fmt.Sprintf("event 1 length 40 thread 1 time %d domain 0 text 0 depth 1 label", us(2)),
		fmt.Sprintf("event 5 length 24 thread 1 time %d correlation 1 flags 0", us(3)),
		fmt.Sprintf("event 7 length 32 thread 1 time %d node 100000000 flags 1 type 0", us(3)),
		fmt.Sprintf("event 6 length 24 thread 1 time %d correlation 1 flags 0", us(3)),
		fmt.Sprintf("event 7 length 32 thread 1 time %d node 100000001 flags 0 type 0", us(3)),
		fmt.Sprintf("event 2 length 24 thread 1 time %d domain 0 depth 0", us(4)),
		fmt.Sprintf("event 7 length 32 thread 1 time %d node 200000000 flags 0 type 0", us(4)),
		fmt.Sprintf("event 8 length 32 thread 0 time %d original 100000000 clone 200000000", us(4)),
		fmt.Sprintf("event 7 length 32 thread 1 time %d node 200000001 flags 0 type 0", us(4)),
		fmt.Sprintf("event 8 length 32 thread 0 time %d original 100000001 clone 200000001", us(4)),
		fmt.Sprintf("event 1 length 56 thread 1 time %d domain 0 text 0 depth 1 step:decode seq=1", us(5)),
		fmt.Sprintf("event 1 length 32 thread 1 time %d domain 0 text 1 depth 2 ", us(6)),
		fmt.Sprintf("event 5 length 24 thread 1 time %d correlation 2 flags 1", us(7)),
		fmt.Sprintf("event 2 length 24 thread 1 time %d domain 0 depth 1", us(8)),
		fmt.Sprintf("event 2 length 24 thread 1 time %d domain 0 depth 0", us(9)),
		fmt.Sprintf("event 2 length 24 thread 1 time %d domain 1 depth 0", us(10)),
		"frame 5 number 4",
		fmt.Sprintf("kernel %d %d node 200000000 correlation 2 name 2 stream 7 device 0 registers 40 grid 70000 2 3 block 4 5 6 context 1 shared 16 32",
			us(12), us(14)),
		"frame 6 number 5",
		fmt.Sprintf("copy %d %d node 200000001 bytes 1048576 correlation 2 stream 8 device 0 kind 1 8 memory 0 0 flags 0 context 1", us(12)+2500, us(14)+2500),
		"frame 7 number 6", fmt.Sprintf("flushed %d now %d monotonic %d flags 1", us(10), us(10), uint64(1e12)+10_000),
		"frame 8 number 7", fmt.Sprintf("lost 1 of 0 count 9 from %d to %d", us(10), us(10)),
		"frame 7 number 8", fmt.Sprintf("flushed %d now %d monotonic %d flags 1", us(14)+2500, us(14)+2500, uint64(1e12)+16_500),
		"frame 13 number 9", "bye 1 kernels 1 copies 1",
	}
	got := dump(t, Frames(r, Options{}))
	for i := range max(len(got), len(want)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Errorf("line %d: %s, want %s", i, g, w)
		}
	}
}

// C reads schemas and payloads as they were meant: a schema before its first payload, once, and before it what it names.
func TestPayloads(t *testing.T) {
	b := krec.NewBuilder()
	b.Schema("NCCL", krec.Schema{ID: 0x1000018, Size: 4, Type: krec.SchemaEnum, Entries: []krec.SchemaEntry{{Type: 1, Name: "Product"}}})
	b.Schema("NCCL", krec.Schema{ID: 0x1000005, Size: 6, Pack: 2, Type: 1, Entries: []krec.SchemaEntry{
		{Type: 4, Name: "a"}, {Type: 0x1000018, Flags: 1, Offset: 2, Detail: 3, Name: "operation"}}})
	start := b.Now()
	b.PushWith("NCCL", "ncclAllReduce", krec.Payload{Schema: 0x1000005, Data: []byte{1, 2, 3, 4, 5, 6, 7}})
	b.PopWith("NCCL", krec.Payload{Schema: 0x1000005, Way: krec.WayFunction, Data: []byte{8}})
	b.PushWith("NCCL", "ncclAllReduce", krec.Payload{Schema: 0x1000077, Data: []byte{9}})
	b.PopIn("NCCL")
	us := func(n int) uint64 { return start + uint64(n)*1000 }
	want := []string{
		fmt.Sprintf("event 12 length 96 thread 1 time %d schema 1000018 domain 1 size 4 pack 0 count 1 type 128 [1 0 0 0 Product]", us(1)),
		fmt.Sprintf("event 12 length 152 thread 1 time %d schema 1000005 domain 1 size 6 pack 2 count 2 type 1 [4 0 0 0 a] [1000018 1 2 3 operation]", us(1)),
		fmt.Sprintf("event 13 length 64 thread 1 time %d site 1 domain 1 depth 1 schema 1000005 size 7 01 02 03 04 05 06", us(1)),
		fmt.Sprintf("event 13 length 64 thread 1 time %d site 2 domain 1 depth 1 schema 1000005 size 1 08", us(2)),
	}
	var got []string
	for _, line := range dump(t, Frames(b.Recording(), Options{})) {
		if strings.HasPrefix(line, "event 12 ") || strings.HasPrefix(line, "event 13 ") {
			got = append(got, line)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// C reads events that are written by hand as they were meant: here a range of the process.
func TestEventsByHand(t *testing.T) {
	s := newShim()
	s.Now = 5000
	s.event(3, 7, padded(append32(append64(nil, 99), 0, 0, 6, 0), "decode")) // START
	s.event(4, 8, append64(nil, 99))                                         // END
	s.Cut()
	want := []string{"event 3 length 48 thread 7 time 5000 range 99 domain 0 text 0 decode", "event 4 length 24 thread 8 time 5000 range 99"}
	var got []string
	for _, line := range dump(t, s.frames) {
		if strings.HasPrefix(line, "event ") {
			got = append(got, line)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
