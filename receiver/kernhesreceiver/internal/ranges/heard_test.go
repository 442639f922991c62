package ranges

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTextsThatMatchNothing(t *testing.T) {
	r := tracker()
	r.Domain(3, "NCCL")
	require.Zero(t, r.Around(1))
	for i := range uint64(100) { // an engine whose iterations no pattern knows
		push(r, 1, 0, fmt.Sprintf("iteration %d of 1e%d", i, i), 1)
		push(r, 1, 0, "forward", 2)
		r.Launched(r.Around(1), 2, 1000+i)
		push(r, 1, 3, "ncclAllReduce", 1)
		r.Launched(r.Around(1), 1, 10)
		r.Pop(1, 3, 0)
		r.Pop(1, 0, 1)
		r.Launched(r.Around(1), 1, 1)
		r.Pop(1, 0, 0)
		require.Zero(t, r.Around(1))
	}
	const inForward = 100*1000 + 99*100/2 + 100*10
	require.Equal(t, []Unmatched{
		{Text: "iteration # of #e#", Example: "iteration 0 of 1e0", Ranges: 100, Kernels: 400, NS: inForward + 100},
		{Text: "forward", Example: "forward", Ranges: 100, Kernels: 300, NS: inForward},
		{Text: "ncclAllReduce", Example: "ncclAllReduce", Domain: "NCCL", Ranges: 100, Kernels: 100, NS: 1000},
	}, r.Unmatched(10))
	require.Len(t, r.Unmatched(2), 2)
}

func TestRangesWithinAStepAreNotUnmatched(t *testing.T) {
	r := tracker()
	push(r, 1, 0, "main", 1)
	push(r, 1, 0, "step:a", 2)
	push(r, 1, 0, "call", 3)
	r.Pop(1, 0, 2)
	r.Pop(1, 0, 1)
	r.Start(7, 0, "warm up", 0)
	require.Equal(t, r.Unmatched(9)[r.heard.nodes[r.Around(1)].text].Text, "main")
	r.Launched(r.Around(2), 1, 5) // another thread, in nothing but the range of the process
	require.Equal(t, []Unmatched{
		{Text: "warm up", Example: "warm up", Ranges: 1, Kernels: 1, NS: 5}, {Text: "main", Example: "main", Ranges: 1},
	}, r.Unmatched(9))
}

func TestUnmatchedTextsAreBounded(t *testing.T) {
	r := tracker()
	for i := range 2000 { // a leak: each text within all before
		push(r, 1, 0, fmt.Sprintf("text %c%c", 'a'+i%26, 'a'+i/26%26), uint32(i+1))
		r.Launched(r.Around(1), 1, 1)
	}
	require.Len(t, r.heard.texts, maxHeard)
	require.LessOrEqual(t, len(r.heard.nodes), maxNodes)
	require.EqualValues(t, 2000, r.Unmatched(1)[0].NS, "a text that is open twice counts once")
	for i := range 5000 {
		push(r, 2, 0, fmt.Sprintf("text %c%c", 'a'+i%7, 'a'+i%11), uint32(i+1))
	}
	require.LessOrEqual(t, len(r.heard.nodes), maxNodes)
}

func TestOpenRangesAreNamed(t *testing.T) {
	r := tracker()
	r.Domain(2, "NCCL")
	push(r, 5, 2, "ncclCommInitRankConfig", 1)
	push(r, 4, 0, "main", 1)
	push(r, 4, 0, "step:a", 2)
	for i := range leaking {
		push(r, 9, 0, "Linear", uint32(i+1))
	}
	require.Equal(t, []Leak{
		{Thread: 9, Text: "Linear", Open: leaking, Leaking: true},
		{Thread: 4, Text: "main", Open: 2},
		{Thread: 5, Domain: "NCCL", Text: "ncclCommInitRankConfig", Open: 1},
	}, r.Leaks(8))
	r.Pop(9, 0, leaking-1)
	require.False(t, r.Leaks(8)[0].Leaking)
}

// A fallback pattern counts where no better one does: within a step it is a call, and for some seconds after one nothing.
func TestFallback(t *testing.T) {
	vllm, _ := Preset("vllm")
	r := New(vllm, []string{""}, maxLabels)
	at := uint64(1e18)
	one := func(text string) (program, call string) {
		at += 1e6
		_, s, _ := r.Push(Push{Thread: 1, Text: text, Depth: unknownDepth, Time: at})
		return s.Program, r.Text(r.Call(1))
	}
	check := func(text, program, call string) {
		t.Helper()
		p, c := one(text)
		require.Equal(t, []string{program, call}, []string{p, c})
	}
	const forward = "gpu_model_runner: forward"
	check(forward, "forward", "")
	r.Pop(1, 0, unknownDepth)
	check("execute_context_0(0)_generation_4(4)", "decode", "")
	check(forward, "", forward)
	r.Pop(1, 0, unknownDepth)
	r.Pop(1, 0, unknownDepth)
	check(forward, "", forward)
	r.Pop(1, 0, unknownDepth)
	at += fallbackAfter
	check(forward, "forward", "")
	require.EqualValues(t, 3, r.Counts.Steps)
}

func TestPresets(t *testing.T) {
	require.Equal(t, []string{"kernhes", "sglang", "tensorrt-llm", "vllm"}, PresetNames())
	for text, want := range map[string]string{
		"step:a": "kernhes", "step[DECODE bs=4]": "sglang", "scheduler.run_batch": "sglang",
		"[Executor] _forward_step 7: 0 ctx reqs, 32 gen reqs": "tensorrt-llm", "execute_new_1_cached_7": "vllm", "forward": "",
	} {
		require.Equal(t, want, PresetFor(text), text)
	}
}

func TestGroupsThatOccurTwice(t *testing.T) {
	vllm, _ := Preset("vllm")
	s, _, ok := Parse(vllm, "", "execute_context_1(99999999999999999999)_generation_2(2)")
	require.True(t, ok)
	require.Equal(t, "seqs=3,tokens=99999999999999999999", s.Vars, "what is no number is not summed")
	require.Zero(t, s.Tokens)
}

func FuzzPresets(f *testing.F) {
	f.Add("execute_90_context_1(sq88sk100sqsq7744sqsk8800)_generation_2(sq2sk30sqsq2sqsk30)")
	f.Add("[Executor] _forward_step 8: 2 ctx reqs, 0 gen reqs")
	f.Fuzz(func(t *testing.T, text string) {
		r := tracker()
		push(r, 1, 0, text, 1)
		r.Launched(r.Around(1), 1, 1)
		for _, u := range r.Unmatched(1) {
			if len(u.Text) > maxFolded || len(u.Example) > maxFolded {
				t.Errorf("%q: too long", u.Text)
			}
		}
		if name := PresetFor(text); name != "" {
			p, _ := Preset(name)
			if s, _, ok := Parse(p, p[0].Domain, text); !ok || s.Program == "" {
				t.Errorf("%q: preset %s has no program", text, name)
			}
		}
	})
}
