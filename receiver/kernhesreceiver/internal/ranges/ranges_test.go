package ranges

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/krec"
)

const maxLabels = 1000

func tracker() *Tracker { return New(Default, []string{""}, maxLabels) }

func push(r *Tracker, thread uint32, d Domain, text string, depth uint32) (ID, Step, []ID) {
	return r.Push(Push{Thread: thread, Domain: d, Text: text, Depth: depth})
}

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
	outer, s, _ := push(r, 1, 0, "step:outer seq=1", 1)
	require.Equal(t, "outer", s.Program)
	require.Zero(t, r.Call(1), "a step's range is no call")
	inner, _, _ := push(r, 1, 0, "step:inner", 2)
	require.Equal(t, inner, r.Step(1))
	id, _, _ := push(r, 1, 0, "a.call", 3)
	require.Zero(t, id)
	require.Equal(t, "a.call", r.Text(r.Call(1)))
	r.Domain(4, "NCCL")
	push(r, 1, 4, "ncclAllReduce", 1)
	require.Equal(t, "a.call", r.Text(r.Call(1)), "other domains name no call")
	require.Zero(t, r.Step(2), "another thread is in no step")
	require.Empty(t, r.Pop(1, 0, 2))
	require.Equal(t, []ID{inner}, r.Pop(1, 0, 1))
	require.Equal(t, outer, r.Step(1))
	require.EqualValues(t, 2, r.Counts.Steps)
}

func TestStartRangesCountIfTheThreadHasNoStepAndOneIsOpen(t *testing.T) {
	r := tracker()
	one, _ := r.Start(10, 0, "step:one", 0)
	require.Equal(t, one, r.Step(5))
	two, _ := r.Start(11, 0, "step:two", 0)
	require.Zero(t, r.Step(5), "two are open")
	own, _, _ := push(r, 5, 0, "step:own", 1)
	require.Equal(t, own, r.Step(5))
	require.Equal(t, one, r.End(10))
	require.Equal(t, two, r.Step(6))
	require.Zero(t, r.End(99))
	require.EqualValues(t, 1, r.Counts.Underflow)
}

func TestLostPopsAndPushesAreMadeUpFor(t *testing.T) {
	r := tracker()
	leaked, _, _ := push(r, 1, 0, "step:a", 1)
	push(r, 1, 0, "call", 2)
	// Both pops are lost: the next push says that it is the first.
	_, _, ended := push(r, 1, 0, "step:b", 1)
	require.Equal(t, []ID{leaked}, ended)
	// A push is lost: the next says that it is the third.
	push(r, 1, 0, "deep", 3)
	require.Equal(t, "deep", r.Text(r.Call(1)))
	r.Pop(1, 0, 2)
	require.Zero(t, r.Call(1), "what was lost has no text")
	require.EqualValues(t, 3, r.Counts.Resynced)
	// Senders that do not count give no depth.
	r.Pop(1, 0, unknownDepth)
	require.Empty(t, r.Pop(2, 0, unknownDepth))
	require.EqualValues(t, 1, r.Counts.Underflow)
}

func TestOfADeepStackTheInnermostRangesAreKept(t *testing.T) {
	r := tracker()
	for i := range MaxDepth + 10 {
		push(r, 1, 0, fmt.Sprint("range ", i+1), uint32(i+1))
		require.Equal(t, fmt.Sprint("range ", i+1), r.Text(r.Call(1)))
	}
	require.EqualValues(t, 10, r.Counts.TooDeep)
	require.EqualValues(t, MaxDepth+10, r.Open())
	for i := MaxDepth + 10; i > 10; i-- {
		require.Equal(t, fmt.Sprint("range ", i), r.Text(r.Call(1)))
		r.Pop(1, 0, uint32(i-1))
	}
	require.Zero(t, r.Call(1), "ten are open, and none of them is known any more")
	push(r, 1, 0, "above", 11)
	require.Equal(t, "above", r.Text(r.Call(1)))
	for i := 11; i > 0; i-- {
		r.Pop(1, 0, uint32(i-1))
	}
	require.Zero(t, r.Open())
	require.Zero(t, r.Counts.Underflow+r.Counts.Resynced+r.Counts.Leaked)
}

// The text of a step is read at any depth, and its end is known there.
func TestStepsAboveLeakedRanges(t *testing.T) {
	for _, depths := range []bool{true, false} {
		r := tracker()
		at := uint32(0)
		depth := func() uint32 {
			if depths {
				return at
			}
			return unknownDepth
		}
		for range 70 {
			at++
			push(r, 1, 0, "leaked", depth())
		}
		for i := range 100 { // each iteration leaks one more inside its step
			at++
			id, s, ended := push(r, 1, 0, fmt.Sprint("step:decode seq=", i), depth())
			require.NotZero(t, id)
			require.EqualValues(t, i, s.Seq)
			require.Empty(t, ended)
			at++
			push(r, 1, 0, "call", depth())
			require.Equal(t, "call", r.Text(r.Call(1)))
			require.Equal(t, id, r.Step(1))
			at--
			r.Pop(1, 0, depth())
			require.Zero(t, r.Call(1), "no call between the calls of a step")
			at--
			require.Equal(t, []ID{id}, r.Pop(1, 0, depth()))
			require.Zero(t, r.Step(1))
			at++
			push(r, 1, 0, "leaked", depth())
		}
		require.EqualValues(t, 170, r.Open())
		require.LessOrEqual(t, len(r.threads[1].stacks[0].entries), MaxDepth)
		require.Zero(t, r.Counts.Underflow+r.Counts.Resynced+r.Counts.Leaked)
		leaks := r.Leaks(5)
		require.Equal(t, []Leak{{Thread: 1, Text: "leaked", Open: 170, Leaking: true}}, leaks)
		r.Finish()
		require.EqualValues(t, 170, r.Counts.Leaked)
		require.Zero(t, r.Open())
	}
}

func TestLeakedStepsEndByTheirTimeoutAndHideNothing(t *testing.T) {
	r := tracker()
	var leaked []ID
	for i := range 100 {
		id, _, _ := push(r, 1, 0, "step:leaked", uint32(i+1))
		leaked = append(leaked, id)
	}
	require.Equal(t, leaked[99], r.Step(1))
	for i := range 99 {
		r.Close(leaked[99-i])
		require.Equal(t, leaked[98-i], r.Step(1), "an abandoned range does not hide its outer step")
	}
	r.Close(leaked[0])
	require.Zero(t, r.Step(1))
	process, _ := r.Start(9, 0, "step:process", 0)
	require.Equal(t, process, r.Step(1), "nor a step of the process")
	r.Close(process)
	next, _ := r.Start(10, 0, "step:process", 0)
	require.Equal(t, next, r.Step(1), "whose end was not seen hides not the next one")
	id, _, _ := push(r, 1, 0, "step:next", 101)
	require.Equal(t, id, r.Step(1))
	require.Equal(t, []ID{id}, r.Pop(1, 0, 100))
	require.LessOrEqual(t, len(r.threads[1].stacks[0].entries), MaxDepth)
	require.Empty(t, r.of[leaked[0]])
}

func TestLeakedThreadsMakeRoom(t *testing.T) {
	r := tracker()
	step, _, _ := push(r, 1, 0, "step:long", 1)
	for i := range uint32(3 * MaxStacks) { // threads that end with a range open
		push(r, i+10, 0, "x", 1)
	}
	require.LessOrEqual(t, len(r.threads), MaxStacks)
	require.LessOrEqual(t, r.stacks, MaxStacks)
	require.Equal(t, step, r.Step(1), "the oldest has an open step")
	id, _, _ := push(r, 7, 0, "step:new", 1)
	require.Equal(t, id, r.Step(7))
	require.EqualValues(t, 3*MaxStacks+2, r.Open()+r.Counts.Leaked)

	r = tracker()
	push(r, 1, 0, "outer", 1)
	for i := range uint32(3 * MaxStacks) { // threads that end well
		push(r, i+10, 0, "x", 1)
		r.Pop(i+10, 0, 0)
	}
	require.Zero(t, r.Counts.Leaked)
	require.Equal(t, "outer", r.Text(r.Call(1)), "empty stacks go first")
}

func TestLeakedStartRangesMakeRoom(t *testing.T) {
	r := tracker()
	for i := range uint64(3 * MaxStarts) {
		r.Start(i, 0, "leaked", 0)
	}
	require.LessOrEqual(t, len(r.starts), MaxStarts)
	id, _ := r.Start(1<<40, 0, "step:a", 0)
	require.Equal(t, id, r.Step(1))
	for i := range uint64(3 * MaxStarts) {
		r.Start(1<<41+i, 0, "leaked", 0)
	}
	require.Equal(t, id, r.Step(1))
	require.Equal(t, id, r.End(1<<40))
	require.EqualValues(t, 6*MaxStarts, r.Open()+r.Counts.Leaked)
}

// TestTheOlderHalfOfStartRangesGoes: open steps stay, whatever their age.
func TestTheOlderHalfOfStartRangesGoes(t *testing.T) {
	r := tracker()
	step, _ := r.Start(0, 0, "step:a", 0)
	for i := uint64(1); i < MaxStarts; i++ {
		r.Start(i, 0, "leaked", 0)
	}
	require.Zero(t, r.Counts.Leaked)
	r.Start(MaxStarts, 0, "one more", 0)
	require.EqualValues(t, MaxStarts/2, r.Counts.Leaked)
	for i := uint64(1); i <= MaxStarts; i++ {
		_, kept := r.starts[i]
		require.Equal(t, i > MaxStarts/2, kept, "start range %d", i)
	}
	require.Equal(t, step, r.End(0))
}

// TestALabelIsOneRangeDeep: the pop of a range that only labels leaves the ranges around it.
func TestALabelIsOneRangeDeep(t *testing.T) {
	r := tracker()
	step, _, _ := push(r, 1, 0, "step:a", unknownDepth)
	r.PushLabel(1, 0, "label")
	push(r, 1, 0, "call", 3)
	require.Zero(t, r.Counts.Resynced, "two ranges are around the third")
	require.Empty(t, r.Pop(1, 0, 2))
	require.Empty(t, r.Pop(1, 0, 1))
	require.Equal(t, []ID{step}, r.Pop(1, 0, 0))
	require.Equal(t, Counts{Steps: 1}, r.Counts)
}

// The call is the range that was pushed last, whatever the numbers and names of the domains of calls.
func TestTheInnermostOfAllCallDomains(t *testing.T) {
	for _, first := range []Domain{3, 4, 5} { // whichever has the lowest number, or a map's favour
		r := New(Default, []string{"", "b", "c"}, maxLabels)
		a, b, other := first, 3+(first-2)%3, 3+(first-1)%3
		r.Domain(a, "b")
		r.Domain(b, "c")
		r.Domain(other, "no calls")
		push(r, 1, a, "forward", 1)
		push(r, 1, 0, "step:decode", 1)
		require.Equal(t, "forward", r.Text(r.Call(1)), "a step hides what is around it in its own domain")
		push(r, 1, 0, "layer", 2)
		require.Equal(t, "layer", r.Text(r.Call(1)))
		push(r, 1, b, "kernel", 1)
		require.Equal(t, "kernel", r.Text(r.Call(1)))
		push(r, 1, other, "deeper", 1)
		require.Equal(t, "kernel", r.Text(r.Call(1)))
		push(r, 1, a, "again", 2)
		require.Equal(t, "again", r.Text(r.Call(1)))
		r.Pop(1, a, 1)
		r.Pop(1, b, 0)
		require.Equal(t, "layer", r.Text(r.Call(1)))
		r.Pop(1, 0, 1)
		require.Equal(t, "forward", r.Text(r.Call(1)))
		push(r, 1, a, "known", 4) // two pushes before it were lost
		r.Pop(1, a, 3)
		require.Zero(t, r.Call(1), "the innermost one is not known")
		push(r, 1, b, "kernel", 1)
		require.Equal(t, "kernel", r.Text(r.Call(1)))
	}
}

func TestPopsOfNothing(t *testing.T) {
	r := tracker()
	r.Pop(1, 0, 0)
	push(r, 1, 0, "a", 1)
	r.Pop(1, 0, 0)
	r.Pop(1, 0, 0) // the shim's depth stays 0
	r.Pop(1, 0, unknownDepth)
	require.Equal(t, Counts{Underflow: 3}, r.Counts)
	r.Pop(1, 0, 2) // two are left, so the pushes of three were lost
	require.Equal(t, Counts{Underflow: 3, Resynced: 3}, r.Counts)
	require.EqualValues(t, 2, r.Open())
}

// A snapshot may leave out what was let go: that is no loss.
func TestRangesThatAreToldAgain(t *testing.T) {
	r := tracker()
	id, _, _ := r.Push(Push{Thread: 1, Text: "step:a", Depth: 70, Again: true})
	require.Equal(t, id, r.Step(1))
	r.Push(Push{Thread: 1, Text: "call", Depth: 71, Again: true})
	require.Equal(t, "call", r.Text(r.Call(1)))
	r.Pop(1, 0, 70)
	require.Equal(t, []ID{id}, r.Pop(1, 0, 69))
	require.Zero(t, r.Counts.Resynced)
	require.EqualValues(t, 69, r.Open())
}

func TestHostileTextsAreBounded(t *testing.T) {
	r := tracker()
	for i := range maxLabels + 100 {
		push(r, 1, 0, fmt.Sprint("label ", i), unknownDepth)
		r.Pop(1, 0, unknownDepth)
	}
	require.EqualValues(t, 100, r.Counts.Refused)
	require.Len(t, r.texts, 1+maxLabels)
	for i := range uint32(MaxStacks + 10) {
		push(r, i+10, 0, "x", 1)
	}
	require.LessOrEqual(t, r.stacks, MaxStacks)

	r = tracker()
	for i := range 100 {
		push(r, 1, 0, strings.Repeat(string(rune('a'+i%26)), 1<<20)+fmt.Sprint(i), unknownDepth)
	}
	require.LessOrEqual(t, r.bytes, 256*maxLabels)
	require.EqualValues(t, 100, r.Counts.Refused, "a text of 1 MiB is no label")
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
		push(r, 1, 0, "x", 0xfffffffe)
		r.Pop(1, 0, 0)
	}
	require.EqualValues(t, 1000*(2*0xfffffffd), r.Counts.Resynced, "made up at each push, and dropped at each pop")
}

func TestOpenStepsAreBounded(t *testing.T) {
	r := tracker()
	for i := range uint32(MaxOpen + 10) {
		push(r, i%100, 0, "step:a", unknownDepth)
	}
	require.EqualValues(t, MaxOpen, r.Counts.Steps)
	require.EqualValues(t, 10, r.Counts.Refused)
	id := r.Step(0)
	r.Close(id)
	id, _, _ = push(r, 0, 0, "step:a", unknownDepth)
	require.NotZero(t, id, "one closed, so there is room for one")
	id, _ = r.Start(7, 0, "step:a", 0)
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
