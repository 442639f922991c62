package ranges

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/krec"
)

const unknownDepth = 0xffffffff

const maxLabels = 1000

func tracker() *Tracker { return New(Default, []string{""}, maxLabels) }

func TestTexts(t *testing.T) {
	check := func(text string, want Step, ok bool) {
		t.Helper()
		want.Text = text
		got, is := Default[0].parse(text)
		require.Equal(t, ok, is, text)
		if ok {
			require.Equal(t, want, got)
		}
	}
	check("step:decode seq=7,tokens=48,kv=98304,seqs=48",
		Step{Program: "decode", Vars: "seqs=48,tokens=48", Seq: 7, HasSeq: true, Seqs: 48, Tokens: 48, KV: 98304}, true)
	check("step:prefill", Step{Program: "prefill"}, true)
	check("step:round rank=3,group=ep0,width=2", Step{Program: "round", Vars: "width=2", Rank: "3", Group: "ep0"}, true)
	check("step:d seq=-1,tokens=many", Step{Program: "d", Vars: "tokens=many", Seq: -1}, true)
	check("step: seq=1", Step{}, false)
	check("decode.layers.0.mlp", Step{}, false)
}

func TestAPatternOfTheUser(t *testing.T) {
	re := regexp.MustCompile(`^\[Executor\] _forward_step (?P<seq>\d+): (?P<program>\d+ ctx reqs), (?P<seqs>\d+) gen reqs$`)
	require.NoError(t, CheckGroups(re, ""))
	p := Pattern{Match: re}
	s, ok := p.parse("[Executor] _forward_step 12: 0 ctx reqs, 8 gen reqs")
	require.True(t, ok)
	require.Equal(t, Step{Text: "[Executor] _forward_step 12: 0 ctx reqs, 8 gen reqs", Program: "0 ctx reqs", Vars: "seqs=8", Seq: 12, HasSeq: true, Seqs: 8}, s)

	require.ErrorContains(t, CheckGroups(regexp.MustCompile(`(?P<seq>\d)`), ""), "no group named program")
	require.ErrorContains(t, CheckGroups(regexp.MustCompile(`(?P<program>x)(?P<step>y)`), ""), `group "step"`)
}

func TestTheInnermostStepWinsAndTheInnermostRangeIsTheCall(t *testing.T) {
	r := tracker()
	outer, s, _ := r.Push(1, 0, "step:outer seq=1", 1)
	require.Equal(t, "outer", s.Program)
	require.Zero(t, r.Call(1), "a step's range is no call")
	inner, _, _ := r.Push(1, 0, "step:inner", 2)
	require.Equal(t, inner, r.Step(1))
	id, _, _ := r.Push(1, 0, "a.call", 3)
	require.Zero(t, id)
	require.Equal(t, "a.call", r.Text(r.Call(1)))
	r.Domain(4, "NCCL")
	r.Push(1, 4, "ncclAllReduce", 1)
	require.Equal(t, "a.call", r.Text(r.Call(1)), "other domains name no call")
	require.Zero(t, r.Step(2), "another thread is in no step")
	require.Empty(t, r.Pop(1, 0, 2))
	require.Equal(t, []ID{inner}, r.Pop(1, 0, 1))
	require.Equal(t, outer, r.Step(1))
	require.EqualValues(t, 2, r.Counts.Steps)
}

func TestStartRangesCountIfTheThreadHasNoStepAndOneIsOpen(t *testing.T) {
	r := tracker()
	one, _ := r.Start(10, 0, "step:one")
	require.Equal(t, one, r.Step(5))
	two, _ := r.Start(11, 0, "step:two")
	require.Zero(t, r.Step(5), "two are open")
	own, _, _ := r.Push(5, 0, "step:own", 1)
	require.Equal(t, own, r.Step(5))
	require.Equal(t, one, r.End(10))
	require.Equal(t, two, r.Step(6))
	require.Zero(t, r.End(99))
	require.EqualValues(t, 1, r.Counts.Underflow)
}

func TestLostPopsAndPushesAreMadeUpFor(t *testing.T) {
	r := tracker()
	leaked, _, _ := r.Push(1, 0, "step:a", 1)
	r.Push(1, 0, "call", 2)
	// Both pops are lost: the next push says that it is the first.
	_, _, ended := r.Push(1, 0, "step:b", 1)
	require.Equal(t, []ID{leaked}, ended)
	// A push is lost: the next says that it is the third.
	r.Push(1, 0, "deep", 3)
	require.Equal(t, "deep", r.Text(r.Call(1)))
	r.Pop(1, 0, 2)
	require.Zero(t, r.Call(1), "what was lost has no text")
	require.EqualValues(t, 3, r.Counts.Resynced)
	// Senders that do not count give no depth.
	r.Pop(1, 0, unknownDepth)
	require.Empty(t, r.Pop(2, 0, unknownDepth))
	require.EqualValues(t, 1, r.Counts.Underflow)
}

func TestWhatIsTooDeepIsCountedAndPoppedRight(t *testing.T) {
	r := tracker()
	for i := range MaxDepth + 10 {
		r.Push(1, 0, "x", uint32(i+1))
	}
	require.EqualValues(t, 10, r.Counts.TooDeep)
	for i := range MaxDepth + 9 {
		require.NotZero(t, r.Call(1))
		r.Pop(1, 0, uint32(MaxDepth+9-i))
	}
	require.NotZero(t, r.Call(1))
	r.Pop(1, 0, 0)
	require.Zero(t, r.Call(1))
	require.Zero(t, r.Counts.Underflow+r.Counts.Resynced)
}

func TestHostileTextsAreBounded(t *testing.T) {
	r := tracker()
	for i := range maxLabels + 100 {
		r.Push(1, 0, fmt.Sprint("label ", i), unknownDepth)
		r.Pop(1, 0, unknownDepth)
	}
	require.EqualValues(t, 100, r.Counts.Refused)
	require.Len(t, r.texts, 1+maxLabels)
	for i := range uint32(MaxStacks + 10) {
		r.Push(i+10, 0, "x", 1)
	}
	require.LessOrEqual(t, len(r.stacks), MaxStacks)

	r = tracker()
	for i := range 100 {
		r.Push(1, 0, strings.Repeat(string(rune('a'+i%26)), 1<<20)+fmt.Sprint(i), unknownDepth)
	}
	require.LessOrEqual(t, r.bytes, 256*maxLabels)
	require.EqualValues(t, 100-36, r.Counts.Refused, "a text of 1 MiB is no label; 36 are too deep")
}

func TestLabelsOfPinnedNodes(t *testing.T) {
	r := tracker()
	r.PushLabel(0, 0, "decode.mlp")
	require.Equal(t, "decode.mlp", r.Text(r.Call(0)))
	r.Pop(0, 0, 0)
	r.PushLabel(0, 0, "step:decode")
	require.Zero(t, r.Call(0))
	require.Zero(t, r.Counts.Steps)
}

// A depth that is not true costs no time: it was once a loop of that many turns.
func TestAHostileDepthIsTakenInOneGo(t *testing.T) {
	r := tracker()
	for range 1000 {
		r.Push(1, 0, "x", 0xfffffffe)
		r.Pop(1, 0, 0)
	}
	require.EqualValues(t, 1000*(MaxDepth+0xfffffffd), r.Counts.Resynced)
}

func TestOpenStepsAreBounded(t *testing.T) {
	r := tracker()
	for i := range uint32(MaxOpen + 10) {
		r.Push(i%100, i/100, "step:a", unknownDepth)
	}
	require.EqualValues(t, MaxOpen, r.Counts.Steps)
	require.EqualValues(t, 10, r.Counts.Refused)
	id := r.Step(0)
	r.Close(id)
	id, _, _ = r.Push(0, 0, "step:a", unknownDepth)
	require.NotZero(t, id, "one closed, so there is room for one")
	id, _ = r.Start(7, 0, "step:a")
	require.Zero(t, id)
}

func FuzzText(f *testing.F) {
	f.Add("step:decode seq=1,seqs=48,tokens=48,kv=98304")
	f.Add("step:a ,=,==,x=,=y, k=v")
	recording, err := krec.Read("../../../../testdata/recordings/tp2.rank1.krec.zst")
	require.NoError(f, err)
	seen := map[string]bool{}
	for _, frame := range recording.Frames {
		if p, ok := frame.(*krec.Push); ok && len(seen) < 32 && !seen[p.Text] {
			seen[p.Text] = true
			f.Add(p.Text)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, ok := Default[0].parse(text)
		if ok && (s.Program == "" || !strings.HasPrefix(text, "step:"+s.Program)) {
			t.Errorf("%q: program %q", text, s.Program)
		}
	})
}
