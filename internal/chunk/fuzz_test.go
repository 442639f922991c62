package chunk_test

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"testing"

	"github.com/kernhes/kernhes/internal/chunk"
)

// FuzzUnpack holds that whatever is read takes bounded memory, reads the same after other chunks, and if it can be read, packs
// to the same again.
func FuzzUnpack(f *testing.F) {
	small := func(steps ...chunk.Step) []byte {
		var body []byte
		p := chunk.NewPacker(chunk.Identity{Run: "run", Host: "host"}, func(s *chunk.Sealed) { body = append(body, s.Body...) })
		p.Count([]chunk.Count{{Name: "received", Value: 300}})
		for i := range steps {
			if err := p.Add(&steps[i]); err != nil {
				f.Fatal(err)
			}
		}
		p.AddCopies([]chunk.Copy{{Start: 1e18, Dur: 5, Bytes: 4096, Kind: 1, InStep: true, Seq: 3}, {Memset: true}})
		p.Cut()
		return body
	}
	shape := &chunk.Shape{Hash: 5, Positions: []chunk.Position{{Call: "a.b", Name: "_Z1kv", Launch: 0}, {Name: "k", Launch: 0, Node: 2}, {Launch: 4}}}
	step := chunk.Step{Seq: 3, Text: "step:decode seq=3", Start: 1e18, End: 1e18 + 10, Shape: shape,
		Launches: []chunk.Launch{{Correlation: 9, Graph: 1}, {Correlation: 12}}, Starts: []uint64{1e18, 1e18 + 3, 1e18 + 5}, Durs: []uint64{2, 2, 2000}}
	outside := step
	outside.Outside, outside.Text, outside.Seq = true, "", 0
	f.Add(small(step))
	f.Add(small(step, outside, chunk.Step{Seq: 4, Reason: "range_open"}))
	f.Add([]byte{})
	for _, version := range []string{"v1", "v2"} {
		golden, err := os.ReadFile("testdata/" + version + ".chunk")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(golden)
	}
	var known chunk.Unpacker
	f.Fuzz(func(t *testing.T, body []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c, err := chunk.Unpack(body)
		runtime.ReadMemStats(&after)
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(64<<10+64*len(body)); got > most {
			t.Fatalf("%d bytes of body took %d bytes of memory, want at most %d", len(body), got, most)
		}
		for range 2 {
			again, failed := known.Unpack(body)
			if fmt.Sprint(failed) != fmt.Sprint(err) || !reflect.DeepEqual(again, c) {
				t.Fatalf("an Unpacker that knows other chunks reads something else: %v, want %v", failed, err)
			}
		}
		if err != nil {
			return
		}
		repack(t, c)
	})
}

// repack packs a chunk that was read and compares what comes out.
func repack(t *testing.T, c *chunk.Chunk) {
	rows, copies := 0, 0
	p := chunk.NewPacker(c.Identity, func(s *chunk.Sealed) {
		again, err := chunk.Unpack(s.Body)
		if err != nil {
			t.Fatalf("what was packed cannot be read: %v", err)
		}
		rows += again.Rows()
		copies += len(again.Copies)
	})
	for i := range c.Steps {
		if err := p.Add(&c.Steps[i]); err != nil {
			t.Fatalf("what was read cannot be packed: %v", err)
		}
	}
	p.AddCopies(c.Copies)
	p.Cut()
	if rows != c.Rows() || copies != len(c.Copies) {
		t.Fatalf("%d kernels and %d copies came out, %d and %d went in", rows, copies, c.Rows(), len(c.Copies))
	}
}
