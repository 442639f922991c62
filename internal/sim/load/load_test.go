package load

import (
	"math"
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

// Requests have at least one token each way, at most 2^20 of a prompt and 8,192 of output, whatever was asked for.
func TestRequestsAreBounded(t *testing.T) {
	for _, c := range []struct {
		prompt, output         int
		wantPrompt, wantOutput int
	}{{1 << 40, 1 << 40, 1 << 20, 8192}, {0, 0, 1, 1}} {
		s := New(Settings{Prompt: c.prompt, Output: c.output}, nil, 1, 1, func(i int) int { return i })
		for range 100 {
			s.request(0)
		}
		for _, r := range s.replicas[0].waiting {
			if r.prompt != c.wantPrompt || r.left != c.wantOutput {
				t.Fatalf("%d and %d tokens, want %d and %d", r.prompt, r.left, c.wantPrompt, c.wantOutput)
			}
		}
	}
}

// The median of prompts and the mean of outputs are what was asked for, to the 3% that 10,000 requests allow.
func TestRequestsAreAsAskedFor(t *testing.T) {
	s := New(Settings{Prompt: 6000, Output: 120}, nil, 1, 1, func(i int) int { return i })
	below, sum := 0, 0
	const n = 10_000
	for range n {
		s.request(0)
	}
	for _, r := range s.replicas[0].waiting {
		if r.prompt < 6000 {
			below++
		}
		sum += r.left
	}
	if math.Abs(float64(below)/n-0.5) > 0.015 {
		t.Errorf("%d of %d prompts are below the median", below, n)
	}
	if mean := float64(sum) / n; math.Abs(mean-120) > 0.03*120 {
		t.Errorf("%.1f tokens of output on average", mean)
	}
}
