package step

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/model"
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/coverage"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/cupti"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/ranges"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

var le = binary.LittleEndian

const second = 1_000_000_000

// Names of kernels by string id, and what they count as.
const (
	gemm = 1 + iota
	reduce
	wait
	big
)

var classes = map[uint32]span.Class{gemm: span.Compute, reduce: span.Comm, wait: span.Spin}

// A bench is an Assembler and a Joiner before it. A kernel's time is as it is given.
type bench struct {
	*testing.T
	*Assembler
	joiner     *cupti.Joiner
	next       uint32 // correlation id
	frame      uint64
	overridden int // shapes
}

func newBench(t *testing.T, shapes int) *bench {
	b := &bench{T: t}
	class := func(_, id uint32, _ *cupti.Name) span.Class { return classes[id] }
	b.joiner = cupti.New(cupti.DefaultLimits, func(name string) (span.Class, bool, bool) { return span.Compute, name == "", name == "gemm" }, class)
	strings := []byte{}
	for id, name := range map[uint32]string{gemm: "gemm", reduce: "reduce", wait: "wait", big: "big"} {
		strings = le.AppendUint32(le.AppendUint32(strings, id), uint32(len(name)))
		strings = append(append(strings, name...), make([]byte, 8-len(name))...)
	}
	require.NoError(t, b.joiner.Strings(strings))
	b.Assembler = NewAssembler(NewTable(shapes), b.joiner.Kernel, class, func(label uint32) string {
		if label == 0 {
			return ""
		}
		return fmt.Sprint("call", label)
	}, func(id uint32) (string, uint64) { return fmt.Sprint("group", id), uint64(id) },
		func(string, []Position, []Kernel) bool { b.overridden++; return false })
	return b
}

func (b *bench) open(id ranges.ID, at uint64) {
	b.frame++
	b.Open(id, ranges.Step{Text: "step:decode", Program: "decode"}, 1, at, b.frame, true)
}

// launch enters a launch of a step and returns its correlation id.
func (b *bench) launch(id ranges.ID, at uint64, graph bool) uint32 {
	b.next++
	ordinal, ok := b.Launched(id, at)
	require.True(b, ok)
	b.joiner.Launch(cupti.Launch{Time: at, Correlation: b.next, Owner: uint64(id), Ordinal: ordinal, Graph: graph, Label: b.next % 3})
	return b.next
}

// ran takes a kernel of a launch.
func (b *bench) ran(c uint32, name uint32, device uint16, node, start, end uint64) {
	var k wire.Kernel
	le.PutUint64(k[0:], start)
	le.PutUint64(k[8:], end)
	le.PutUint64(k[16:], node)
	le.PutUint32(k[24:], c)
	le.PutUint32(k[28:], name)
	le.PutUint16(k[36:], device)
	r := b.joiner.Run([]wire.Kernel{k})
	s := b.Step(ranges.ID(r.Launch.Owner), device)
	require.NotNil(b, s)
	to := s.Recorded()
	o := b.joiner.Take(r, cupti.Clock{Now: 10_000 * second}, to)
	s.Took(r, &o)
	if o.Ended {
		b.LaunchEnded(r.Launch)
	}
}

// one is a step of one eager kernel.
func (b *bench) one(id ranges.ID, at uint64, name uint32) {
	b.open(id, at)
	c := b.launch(id, at, false)
	b.Ended(id)
	b.ran(c, name, 0, 0, at+10, at+20)
}

const timeout = 10 * second

// closed closes what is to be closed and returns it by id.
func (b *bench) closed(watermark uint64) map[ranges.ID]*Step {
	steps, _ := b.Close(watermark, timeout)
	m := map[ranges.ID]*Step{}
	for _, s := range steps {
		m[s.ID] = s
	}
	return m
}

func TestAStepIsClosedWithTheLastRecordOfItsLaunches(t *testing.T) {
	b := newBench(t, 10)
	b.open(1, 100)
	first, second := b.launch(1, 110, false), b.launch(1, 120, false)
	b.ran(second, reduce, 0, 0, 250, 320) // its records come in any order
	require.Empty(t, b.closed(1000))
	b.Ended(1)
	require.Empty(t, b.closed(1000), "a launch lacks its record")
	b.ran(first, gemm, 0, 0, 200, 280)
	s := b.closed(1000)[1]
	require.NotNil(t, s)
	require.True(t, s.Complete())
	require.Equal(t, [5]uint64{200, 320, 80, 40, 30}, [5]uint64{s.First, s.Last, s.Compute, s.ExposedComm, s.Overlap})
	require.EqualValues(t, 120, s.Wall())
	require.Zero(t, s.Idle)
	require.Equal(t, []span.Span{span.Make(200, 280, span.Compute), span.Make(250, 320, span.Comm)}, s.Spans, "in order of launch")
	require.Equal(t, []span.Span{span.Make(250, 320, span.Comm), span.Make(200, 280, span.Compute)}, s.Recorded().Spans, "as they came")
	require.Equal(t, []Launch{{Correlation: first}, {Correlation: second}}, s.Launches())
	require.Equal(t, []string{"gemm", "reduce"}, []string{s.Shape.Positions[0].Name, s.Shape.Positions[1].Name})
	require.Equal(t, []string{"call1", "call2"}, []string{s.Shape.Positions[0].Call, s.Shape.Positions[1].Call})
	var known coverage.Account
	known.Step(s.Shape.Cover, s.Spans)
	by := known.Report(0).By
	require.Equal(t, [2]uint64{80, 70}, [2]uint64{by[span.ByRule].NS, by[span.ByDefault].NS}, "what gave each its class")
	require.Empty(t, b.closed(1000))
	require.Nil(t, b.Step(1, 0), "it is closed")
	_, ok := b.Launched(1, 130)
	require.False(t, ok)
	require.Zero(t, b.Opened())
	require.False(t, b.IsOpen(1))
}

// TestAKernelOfClassSpinIsIdleInAStep: it only waits for the host. It counts for where the step begins and ends.
func TestAKernelOfClassSpinIsIdleInAStep(t *testing.T) {
	b := newBench(t, 10)
	b.open(1, 100)
	for i, c := range []uint32{b.launch(1, 100, false), b.launch(1, 100, false), b.launch(1, 100, false)} {
		b.ran(c, []uint32{wait, gemm, reduce}[i], 0, 0, []uint64{200, 250, 320}[i], []uint64{300, 270, 330}[i])
	}
	b.Ended(1)
	s := b.closed(1000)[1]
	require.Equal(t, [4]uint64{20, 10, 100, 130}, [4]uint64{s.Compute, s.ExposedComm, s.Idle, s.Wall()})
}

func TestWhyStepsAreIncomplete(t *testing.T) {
	giveUp := func(b *bench) {
		b.joiner.End(false, func(l *cupti.Launch) { b.LaunchEnded(l) })
	}
	for want, do := range map[string]func(b *bench){
		"": func(b *bench) { b.ran(b.launch(1, 0, false), gemm, 0, 0, 10, 20); b.Ended(1) },
		MissingRecords: func(b *bench) {
			b.ran(b.launch(1, 0, false), gemm, 0, 0, 10, 20)
			b.launch(1, 0, false)
			giveUp(b)
			b.Ended(1)
		},
		EndUnknown:     func(b *bench) { b.ran(b.launch(1, 0, true), gemm, 0, 6<<32, 10, 20); giveUp(b); b.Ended(1) },
		InvalidRecords: func(b *bench) { b.ran(b.launch(1, 0, false), gemm, 0, 0, 20, 10); b.Ended(1) },
		NotTraced: func(b *bench) {
			b.launch(1, 0, false)
			b.Traced(false)
			b.Traced(true)
			giveUp(b)
			b.Ended(1)
		},
		JoinedLate: func(b *bench) { b.Joined(); b.ran(b.launch(1, 0, false), gemm, 0, 0, 10, 20); b.Ended(1) },
		RangeOpen:  func(b *bench) { b.ran(b.launch(1, 0, false), gemm, 0, 0, 10, 20) },
	} {
		b := newBench(t, 10)
		b.open(1, 0)
		do(b)
		s := b.closed(timeout + 1)[1]
		require.NotNil(t, s, want)
		require.Equal(t, want, s.Reason)
		require.Equal(t, want == "", s.Complete())
		require.Equal(t, want == JoinedLate, s.Joined)
	}
}

// TestAStepThatLaunchesForLongerThanATimeoutStaysOpen: the timeout begins anew with each launch.
func TestAStepThatLaunchesForLongerThanATimeoutStaysOpen(t *testing.T) {
	b := newBench(t, 10)
	b.open(1, 0)
	for at := uint64(0); at <= 5*timeout; at += timeout / 2 {
		b.ran(b.launch(1, at, false), gemm, 0, 0, at+10, at+20)
		require.Empty(t, b.closed(at+timeout))
	}
	require.Empty(t, b.closed(6*timeout), "to the nanosecond")
	steps, abandoned := b.Close(6*timeout+1, timeout)
	require.Len(t, steps, 1)
	require.Equal(t, RangeOpen, steps[0].Reason)
	require.Equal(t, []ranges.ID{1}, abandoned)
	b.one(2, 0, gemm)
	_, abandoned = b.Close(0, timeout)
	require.Empty(t, abandoned, "its range has ended")
}

func TestStepsWithoutKernels(t *testing.T) {
	b := newBench(t, 10)
	b.open(1, 0)
	b.Ended(1)
	require.Empty(t, b.closed(0))
	require.EqualValues(t, 1, b.Empty)
	b.open(2, 0)
	b.launch(2, 0, false)
	b.Ended(2)
	b.joiner.End(false, func(l *cupti.Launch) { b.LaunchEnded(l) })
	s := b.closed(0)[2]
	require.Equal(t, MissingRecords, s.Reason, "its only launch failed")
	require.Empty(t, s.Spans)
	b.Traced(false)
	b.open(3, 0)
	b.Within(3, 1)
	b.Popped(3, 70)
	b.open(4, 0) // its range does not end
	steps, _ := b.Close(0, timeout)
	require.Len(t, steps, 1)
	s = steps[0]
	require.True(t, s.Untraced, "nobody saw its launches")
	require.False(t, s.Complete())
	require.Equal(t, NotTraced, s.Reason)
	require.Equal(t, model.Issued{Push: s.Begun, Pop: 70, Thread: s.Thread, Level: 1}, s.Issued)
	steps = b.CloseAll(MissingRecords, RangeOpen)
	require.True(t, steps[0].Untraced)
	require.Equal(t, RangeOpen, steps[0].Reason)
	require.EqualValues(t, 1, b.Empty)
}

// TestAStepOnTwoDevicesIsAStepOnEach.
func TestAStepOnTwoDevicesIsAStepOnEach(t *testing.T) {
	b := newBench(t, 10)
	b.open(1, 0)
	c, d := b.launch(1, 0, false), b.launch(1, 0, false)
	b.ran(c, gemm, 3, 0, 10, 20)
	b.ran(d, gemm, 5, 0, 30, 50)
	require.Equal(t, 1, b.Pending(3))
	require.Equal(t, 1, b.Pending(5))
	require.Zero(t, b.Pending(4))
	require.True(t, b.Any(5))
	require.False(t, b.Any(4))
	b.Ended(1)
	steps, _ := b.Close(100, timeout)
	require.Len(t, steps, 2)
	require.Equal(t, [2]uint16{3, 5}, [2]uint16{steps[0].Device, steps[1].Device})
	require.Equal(t, [2]uint64{10, 20}, [2]uint64{steps[0].Compute, steps[1].Compute})
	b.open(2, 0) // without a kernel it is on the device of the last
	b.launch(2, 0, false)
	require.EqualValues(t, 5, b.CloseAll(EngineGone, RangeOpen)[0].Device)
}

func TestASessionThatEndsClosesAll(t *testing.T) {
	b := newBench(t, 10)
	b.one(1, 0, gemm)
	b.open(2, 0)
	b.launch(2, 0, false)
	b.open(3, 0)
	b.ran(b.launch(3, 0, false), gemm, 0, 0, 10, 20)
	reasons := map[ranges.ID]string{}
	for _, s := range b.CloseAll("waiting", "open") {
		reasons[s.ID] = s.Reason
	}
	require.Equal(t, map[ranges.ID]string{1: "", 2: "waiting", 3: "open"}, reasons)
	require.Empty(t, b.CloseAll("waiting", "open"))
	require.Zero(t, b.Opened())
}

// TestAStepWithTooManyKernelsIsClosed, with all that it has.
func TestAStepWithTooManyKernelsIsClosed(t *testing.T) {
	b := newBench(t, 10)
	b.open(1, 0)
	s := b.Step(1, 0)
	for i := range uint64(MaxKernels - 1) {
		s.Recorded().Add(span.Make(10+i, 11+i, span.Compute), 0)
	}
	s.parts = []part{{n: MaxKernels - 1}}
	require.Empty(t, b.closed(0))
	b.Launched(1, 0)
	s.Recorded().Add(span.Make(10, 11, span.Compute), 1<<32)
	s.parts = append(s.parts, part{ordinal: 1, n: 1})
	steps, abandoned := b.Close(0, timeout)
	require.Equal(t, TooLarge, steps[0].Reason)
	require.Len(t, steps[0].Spans, MaxKernels)
	require.Equal(t, []ranges.ID{1}, abandoned)
}

// TestEarlierSteps: the latest end so far of open steps that began before.
func TestEarlierSteps(t *testing.T) {
	b := newBench(t, 10)
	b.open(1, 0)
	b.open(2, 0)
	b.open(3, 0)
	b.open(4, 0)
	for id, end := range map[ranges.ID]uint64{1: 900, 2: 500, 3: 950} {
		b.ran(b.launch(id, 0, false), gemm, 0, 0, 100*uint64(id), end)
	}
	check := func(device uint16, first, want uint64, ok bool) {
		t.Helper()
		end, found := b.Underway(device).Before(first)
		require.Equal(t, ok, found)
		require.Equal(t, want, end)
	}
	check(0, 100, 0, false)
	check(0, 101, 900, true)
	check(0, 300, 900, true)
	check(0, 301, 950, true)
	check(1, 301, 0, false)
}

// TestOneLookAtOpenStepsServesAllClosedOnes: each open step is passed once, whatever the number of closed ones.
func TestOneLookAtOpenStepsServesAllClosedOnes(t *testing.T) {
	const n = 500
	b := newBench(t, 10)
	for id := ranges.ID(n); id > 0; id-- { // the first to open starts last, and the first to start ends last
		b.open(id, 0)
		b.ran(b.launch(id, 0, false), gemm, 0, 0, 10*uint64(id), 20_000-uint64(id))
	}
	u := b.Underway(0)
	passed := 0
	for first := uint64(0); first <= 10*n+10; first++ {
		before := u.next
		end, ok := u.Before(first)
		require.Equal(t, first > 10, ok, first)
		if ok {
			require.EqualValues(t, 19_999, end)
		}
		require.EqualValues(t, min((max(first, 1)-1)/10, n), u.next, first)
		passed += u.next - before
	}
	require.Equal(t, n, passed)
}

// TestAStepThatNeverEndsKeepsNoneOfThoseAfterIt: what Held, Underway and Close go through stays short.
func TestAStepThatNeverEndsKeepsNoneOfThoseAfterIt(t *testing.T) {
	b := newBench(t, 10)
	b.open(1, 0)
	longest := 0
	for id := ranges.ID(2); id < 10_000; id++ {
		b.one(id, uint64(id), gemm)
		require.Len(t, b.closed(uint64(id)), 1)
		longest = max(longest, len(b.order))
	}
	require.LessOrEqual(t, longest, 4)
	held, ok := b.Held()
	require.True(t, ok)
	require.EqualValues(t, 1, held)
	b.Ended(1)
	b.closed(0)
	_, ok = b.Held()
	require.False(t, ok)
}

// TestStepsStayInOrderWhenClosedOnesGo: they close in the order of their push.
func TestStepsStayInOrderWhenClosedOnesGo(t *testing.T) {
	b := newBench(t, 10)
	for id := ranges.ID(1); id <= 9; id++ {
		b.one(id, uint64(id), gemm)
		if id%3 != 0 {
			continue
		}
		b.open(id+100, uint64(id))
		b.launch(id+100, uint64(id), false)
	}
	require.Len(t, b.closed(0), 9)
	var order []ranges.ID
	for _, s := range b.CloseAll(MissingRecords, RangeOpen) {
		order = append(order, s.ID)
	}
	require.Equal(t, []ranges.ID{103, 106, 109}, order)
}

// TestRoomIsMadeForAStepLikeTheLast, while few are open, and never too much.
func TestRoomIsMadeForAStepLikeTheLast(t *testing.T) {
	b := newBench(t, 10)
	room := func(id ranges.ID) int {
		b.open(id, 0)
		s := b.Step(id, 0)
		require.Same(t, s, b.Step(id, 0))
		require.Zero(t, cap(s.Recorded().Spans), "no room before the first kernel")
		s.Recorded().Add(span.Make(10, 20, span.Compute), 0)
		return cap(s.Recorded().Spans)
	}
	require.Less(t, room(1), 10)
	b.sizes["decode"] = 500
	require.InDelta(t, 500, room(2), 50, "to the next size of the allocator")
	b.sizes["decode"] = 1 << 18
	require.InDelta(t, maxRoom, room(3), 1024)
	for id := ranges.ID(4); id <= openSteps; id++ {
		require.Greater(t, room(id), 1000)
	}
	require.Less(t, room(openSteps+1), 10)
	for i := range maxSizes {
		b.sizes[fmt.Sprint(i)] = 1
	}
	b.Open(1000, ranges.Step{Program: "one more"}, 1, 0, 1, true)
	c := b.launch(1000, 0, false)
	b.Ended(1000)
	b.ran(c, gemm, 0, 0, 10, 20)
	b.closed(0)
	require.NotContains(t, b.sizes, "one more", "programs are bounded")
}

func TestWhatStepsTake(t *testing.T) {
	b := newBench(t, 10)
	require.Zero(t, b.Bytes())
	b.open(1, 0)
	require.Equal(t, openBytes+2*len("step:decode"), b.Bytes())
	b.ran(b.launch(1, 0, false), gemm, 0, 0, 10, 20)
	const want = openBytes + 2*len("step:decode") + 24 + 80
	require.Equal(t, want, b.Bytes())
	b.Ended(1)
	s := b.closed(0)[1]
	require.Equal(t, want, s.Bytes())
	require.Zero(t, b.Bytes())
}

func TestKernelsOutsideAnyStep(t *testing.T) {
	b := newBench(t, 10)
	s := Outside(4)
	require.Zero(t, s.Parts())
	for i, ref := range []uint64{2 << 32, 1 << 32} {
		s.Recorded().Add(span.Make(uint64(10+i), uint64(20+i), span.Compute), ref)
		s.parts = append(s.parts, part{ordinal: uint32(ref >> 32), n: 1, static: wire.Static{gemm}, correlation: uint32(i)})
	}
	require.EqualValues(t, 2, s.Parts())
	b.Finish(s)
	require.EqualValues(t, 4, s.Device)
	require.Equal(t, []span.Span{span.Make(11, 21, span.Compute), span.Make(10, 20, span.Compute)}, s.Spans)
	require.Equal(t, []Launch{{Correlation: 1}, {Correlation: 0}}, s.Launches())
	require.Equal(t, "gemm", s.Shape.Positions[0].Name)
	require.Equal(t, 1, b.overridden)
}
