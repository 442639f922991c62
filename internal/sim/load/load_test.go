package load

import (
	"testing"
	"time"

	"github.com/kernhes/kernhes/internal/sim/program"
)

// One request of 10 tokens and 2 of output, with a chunk of 8: two prefills, then two decodes with
// a growing context; the other replica runs dummies meanwhile.
func TestOneRequest(t *testing.T) {
	s := New(Settings{Chunk: 8, Sequences: 4, Rate: 0}, nil, 1, 2, func(i int) int { return i })
	s.arrival = 1 << 62
	s.replicas[0].waiting = []*request{{prompt: 10, left: 2}}
	want := []program.Batch{
		{Program: "prefill", Seqs: 1, Tokens: 8, KV: 8}, {Program: "prefill", Seqs: 1, Tokens: 2, KV: 10},
		{Program: "decode_batch", Seqs: 1, Tokens: 1, KV: 11}, {Program: "decode_batch", Seqs: 1, Tokens: 1, KV: 12},
	}
	for i, w := range want {
		got, _ := s.Next(0)
		if len(got) != 2 || got[0] != w || got[1].Program != "dummy" {
			t.Fatalf("batch %d is %+v, want %+v and a dummy", i, got, w)
		}
		s.Done()
	}
	if got, next := s.Next(0); got != nil || next != 1<<62 {
		t.Errorf("then %+v, %v", got, next)
	}
}

// Bursts come when they are due, by turns to all replicas, and prompts and running requests take
// turns.
func TestBursts(t *testing.T) {
	s := New(Settings{Chunk: 1 << 20, Sequences: 64, BurstEvery: time.Second, Burst: 4, Prompt: 100, Output: 50}, nil, 1, 2, func(i int) int { return i })
	got, next := s.Next(0)
	if got != nil || next != time.Second {
		t.Fatalf("%+v, %v", got, next)
	}
	var programs []string
	for range 4 {
		got, _ = s.Next(time.Second)
		programs = append(programs, got[0].Program)
		s.Done()
	}
	if programs[0] != "prefill" || programs[1] != "decode_batch" || programs[2] != "prefill" || programs[3] != "decode_batch" {
		t.Errorf("%v", programs)
	}
	if len(s.replicas[0].running) != 2 {
		t.Errorf("%d run", len(s.replicas[0].running))
	}
}
