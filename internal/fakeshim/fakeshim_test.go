package fakeshim

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/kernhes/kernhes/internal/krec"
)

// Numbers of WIRE.md.
const (
	kindHello   = 1
	kindStrings = 3
	kindEvents  = 4
	kindKernels = 5
	kindCopies  = 6
	kindFlushed = 7
	kindBye     = 13
	kindBase    = 12

	evPush   = 1
	evLaunch = 5
)

var le = binary.LittleEndian

// A frame as a reader of the wire sees it.
type frame struct {
	kind   uint16
	number uint64
	body   []byte
}

func split(t *testing.T, frames [][]byte) []frame {
	t.Helper()
	var all []frame
	for i, f := range frames {
		if len(f) < 16 || int(le.Uint32(f)) != len(f)-16 || len(f)-16 > 16<<20 {
			t.Fatalf("frame %d: %d bytes, head %x", i, len(f), f[:min(len(f), 16)])
		}
		all = append(all, frame{le.Uint16(f[4:]), le.Uint64(f[8:]), f[16:]})
	}
	return all
}

// What WIRE.md promises of the order within a session holds for every recording, delivery and seed, and every record
// goes out once.
func TestPromises(t *testing.T) {
	stories := krec.Stories()
	for _, name := range []string{"solo.rank0", "tp2.rank1"} {
		r, err := krec.Read("../../testdata/recordings/" + name + ".krec.zst")
		if err != nil {
			t.Fatal(err)
		}
		stories = append(stories, krec.Story{Name: name, Recording: r})
	}
	for _, s := range stories {
		for _, o := range []Options{{}, {Deliver: Flush}, {Reorder: 1}, {Deliver: Flush, Reorder: 2}} {
			promises(t, fmt.Sprintf("%s %+v", s.Name, o), s.Recording, o)
			if len(s.Recording.Frames) < 1000 {
				for seed := range uint64(30) {
					r, names := krec.Mutate(s.Recording, seed)
					promises(t, fmt.Sprintf("%s %+v seed %d %v", s.Name, o, seed, names), r, o)
				}
			}
		}
	}
}

func promises(t *testing.T, what string, r *krec.Recording, o Options) {
	t.Helper()
	fault := func(format string, args ...any) { t.Helper(); t.Errorf("%s: %s", what, fmt.Sprintf(format, args...)) }
	frames := split(t, Frames(r, o))
	var sent []string
	strings, launched, times := map[uint32]bool{0: true}, map[uint32]bool{}, map[uint32]uint64{}
	var flushed, now uint64
	for i, f := range frames {
		if want := uint64(max(i-1, 0)); f.number != want {
			fault("frame %d has number %d, want %d", i, f.number, want)
		}
		switch f.kind {
		case kindStrings:
			for b := f.body; len(b) > 0; {
				id, n := le.Uint32(b), (8+int(le.Uint32(b[4:]))+7)&^7
				if strings[id] {
					fault("string %d is given twice", id)
				}
				strings[id] = true
				b = b[n:]
			}
		case kindEvents:
			for b := f.body; len(b) > 0; b = b[le.Uint16(b[2:]):] {
				at := le.Uint64(b[8:])
				if at < now || at < times[le.Uint32(b[4:])] {
					fault("an event at %d after %d", at, now)
				}
				now, times[le.Uint32(b[4:])] = at, at
				switch le.Uint16(b) {
				case evLaunch:
					launched[le.Uint32(b[16:])] = true
				case evPush:
					if !strings[le.Uint32(b[20:])] {
						fault("string %d is used before it is given", le.Uint32(b[20:]))
					}
				}
			}
		case kindKernels, kindCopies:
			if len(f.body)%64 != 0 || len(f.body) > 4096*64 {
				fault("records of %d bytes", len(f.body))
			}
			for b := range slices.Chunk(f.body, 64) {
				correlation := le.Uint32(b[24:])
				if f.kind == kindCopies {
					correlation = le.Uint32(b[32:])
				} else if !launched[correlation] {
					fault("a kernel before its launch %d", correlation)
				}
				if f.kind == kindKernels && !strings[le.Uint32(b[28:])] {
					fault("name %d is used before it is given", le.Uint32(b[28:]))
				}
				if end := le.Uint64(b[8:]); o == (Options{Deliver: Flush}) && end != 0 && end+slack < flushed {
					fault("a record that ended at %d comes after the flush of %d", end, flushed)
				}
				sent = append(sent, fmt.Sprint(f.kind == kindKernels, le.Uint64(b), le.Uint64(b[8:]), le.Uint64(b[16:]), correlation))
			}
		case kindFlushed:
			if le.Uint64(f.body[8:]) < flushed {
				fault("flushed went back to %d", le.Uint64(f.body[8:]))
			}
			flushed = le.Uint64(f.body[8:])
		case kindBye:
			if i != len(frames)-1 {
				fault("frames after BYE")
			}
		}
	}
	if frames[0].kind != kindHello || frames[1].kind != kindBase || frames[len(frames)-1].kind != kindBye {
		fault("begins with kinds %d, %d and ends with %d", frames[0].kind, frames[1].kind, frames[len(frames)-1].kind)
	}
	var want []string
	for _, f := range r.Frames {
		if raw, ok := f.(*krec.Raw); ok {
			for _, k := range raw.Records {
				want = append(want, fmt.Sprint(k.Kind() == krec.KindKernel, k.Start(), k.End(), k.Node(), k.Correlation()))
			}
		}
	}
	slices.Sort(sent)
	slices.Sort(want)
	if !slices.Equal(sent, want) {
		fault("sends %d records, not the %d that are there", len(sent), len(want))
	}
}

// Without reordering, position keeps the order of the file; with it, the seed decides.
func TestReorder(t *testing.T) {
	kernels := func(o Options) []byte {
		var all []byte
		for _, f := range split(t, Frames(krec.Streams(), o)) {
			if f.kind == kindKernels {
				all = append(all, f.body...)
			}
		}
		return all
	}
	starts := func(b []byte) (all []uint64) {
		for k := range slices.Chunk(b, 64) {
			all = append(all, le.Uint64(k))
		}
		return all
	}
	var file []uint64
	for _, f := range krec.Streams().Frames {
		if raw, ok := f.(*krec.Raw); ok {
			for _, k := range raw.Records {
				file = append(file, k.Start())
			}
		}
	}
	if got := starts(kernels(Options{})); !slices.Equal(got, file) {
		t.Errorf("starts %v, want the file's order %v", got, file)
	}
	one, again, two := kernels(Options{Reorder: 1}), kernels(Options{Reorder: 1}), kernels(Options{Reorder: 2})
	if !bytes.Equal(one, again) || bytes.Equal(one, two) || bytes.Equal(one, kernels(Options{})) {
		t.Error("a seed is not what decides the order")
	}
}
