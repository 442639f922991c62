package krec

import (
	"bytes"
	"fmt"
	"testing"
)

// Every mutation, alone and in combination, leaves a recording that could have been recorded; most change something.
func TestMutationsKeepTheFileValid(t *testing.T) {
	stories := Stories()
	stories = append(stories, Story{"tp2", load(t, "tp2.rank0")})
	for _, story := range stories {
		before := Encode(story.Recording)
		check := func(what string, r *Recording) (changed bool) {
			t.Helper()
			if err := Check(r); err != nil {
				t.Errorf("%s: %s: %v", story.Name, what, err)
			}
			encoded := Encode(r)
			if _, err := Decode(encoded); err != nil {
				t.Errorf("%s: %s: %v", story.Name, what, err)
			}
			return !bytes.Equal(encoded, before)
		}
		for _, name := range Mutations() {
			r, err := Apply(story.Recording, 1, name)
			if err != nil {
				t.Fatal(err)
			}
			if !check(name, r) && story.Name == "tp2" {
				t.Errorf("%s: %s changes nothing", story.Name, name)
			}
		}
		seeds := uint64(200)
		if story.Name == "tp2" {
			seeds = 2 // half a second each
		}
		for seed := range seeds {
			r, names := Mutate(story.Recording, seed)
			check(fmt.Sprintf("seed %d %v", seed, names), r)
		}
		if !bytes.Equal(Encode(story.Recording), before) {
			t.Errorf("%s: a mutation changed the original", story.Name)
		}
	}
}

func TestMutateIsSeeded(t *testing.T) {
	for seed := range uint64(50) {
		a, names := Mutate(GraphCopies(), seed)
		b, _ := Mutate(GraphCopies(), seed)
		if !bytes.Equal(Encode(a), Encode(b)) {
			t.Errorf("seed %d %v: two runs differ", seed, names)
		}
	}
	if _, err := Apply(GraphCopies(), 1, "shift-everything"); err == nil {
		t.Error("an unknown mutation was taken")
	}
}

// What the mutations are for: each is seen to do it to the real recording.
func TestMutationsDoWhatTheySay(t *testing.T) {
	tp2 := load(t, "tp2.rank0")
	count := func(r *Recording, want func(Frame) bool) (n int) {
		for _, f := range r.Frames {
			if want(f) {
				n++
			}
		}
		return n
	}
	mutated := func(name string) *Recording {
		r, err := Apply(tp2, 7, name)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	check := func(name string, holds bool) {
		t.Helper()
		if !holds {
			t.Errorf("%s did not do it", name)
		}
	}
	threads := func(r *Recording) map[uint32]bool {
		seen := map[uint32]bool{}
		for _, f := range r.Frames {
			if l, ok := f.(*Launch); ok {
				seen[l.Thread] = true
			}
		}
		return seen
	}
	check("two-threads", len(threads(mutated("two-threads"))) == 2)
	overlapped, open, most := mutated("overlap-threads"), 0, 0
	for _, f := range overlapped.Frames {
		if p, ok := f.(*Push); ok && isStep(p.Text) {
			open++
		} else if p, ok := f.(*Pop); ok && p.Domain == 0 && p.Depth == 0 && open > 0 {
			open--
		}
		most = max(most, open)
	}
	check("overlap-threads", most == 2)
	var low, high bool
	eachRecord(mutated("wrap-ids"), func(r Record, l *Launch) {
		low, high = low || r.Correlation() < 1000, high || r.Correlation() > 1<<32-1000
	})
	check("wrap-ids", low && high)
	var copies int
	eachRecord(mutated("graph-copies"), func(r Record, l *Launch) {
		if r.Kind() != KindKernel && r.Node() != 0 && l != nil && l.Graph() {
			copies++
		}
	})
	check("graph-copies", copies > 180)
	check("nested-steps", count(mutated("nested-steps"), func(f Frame) bool {
		p, ok := f.(*Push)
		return ok && p.Depth == 2 && isStep(p.Text)
	}) > 5)
	check("named-domain", count(mutated("named-domain"), func(f Frame) bool { d, ok := f.(*Domain); return ok && d.Name == "engine" }) == 1)
	var unordered int
	var last uint64
	eachRecord(mutated("shuffle"), func(r Record, _ *Launch) {
		if r.Start() < last {
			unordered++
		}
		last = r.Start()
	})
	check("shuffle", unordered > 10_000)
}
