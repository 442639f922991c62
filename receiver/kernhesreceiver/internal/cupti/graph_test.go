package cupti

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

func TestLabelsFollowClones(t *testing.T) {
	b := newBench(t, DefaultLimits)
	b.NodeCreated(5<<32|3, true, 0, 11, 21)
	b.NodeCreated(5<<32|1, false, 0, 12, 0)
	b.NodeCloned(5<<32|3, exec|8)
	b.NodeCloned(5<<32|1, exec|2)
	b.NodeCloned(4<<32, exec|9) // of a node that nobody saw
	g := b.graphs[6]
	require.Len(t, g.Nodes, 3)
	for low, want := range map[uint32]Node{
		8: {Label: 11, Comm: 21, low: 8, kind: launched}, 2: {Label: 12, low: 2}, 9: {low: 9},
	} {
		p, ok := g.position(low)
		require.True(t, ok)
		require.Equal(t, want, g.Nodes[p])
		require.Equal(t, low, g.Node(uint32(p)).Low())
	}
	require.Equal(t, 1, g.Kernels())
	require.Nil(t, g.Node(3))
	_, ok := g.position(3)
	require.False(t, ok)
	version := g.Version
	b.NodeCloned(5<<32|3, exec|8) // the same again
	require.Equal(t, version, g.Version)
	b.NodeCreated(5<<32|3, true, 0, 13, 21)
	b.NodeCloned(5<<32|3, exec|8)
	require.NotEqual(t, version, g.Version)
	require.EqualValues(t, 13, g.Node(0).Label)
	version = g.Version
	b.NodeForgotten(exec | 8)
	require.NotEqual(t, version, g.Version)
	require.Zero(t, g.Kernels())
	b.NodeForgotten(77 << 32)
	b.NodeForgotten(exec | 77)
}

// TestANodeThatIsForgottenGivesNothing: it is no reason to wait.
func TestANodeThatIsForgottenGivesNothing(t *testing.T) {
	b := newBench(t, DefaultLimits)
	b.captured(true, true, false)
	b.NodeForgotten(exec | 1)
	b.NodeForgotten(exec | 2)
	b.graphLaunch(1, 0)
	require.True(t, b.took(node(1, 0, 10)).Ended)
}

// TestForgettingManyGraphsGivesBackTheNodeBudget.
func TestForgettingManyGraphsGivesBackTheNodeBudget(t *testing.T) {
	limits := DefaultLimits
	limits.Nodes = 10 * (maxForgotten + 1)
	b := newBench(t, limits)
	build := func(id uint32) {
		for low := range uint64(10) {
			b.NodeCreated(uint64(id)<<32|low, true, 0, 0, 0)
		}
	}
	for id := uint32(1); id <= 1000; id++ {
		build(id)
		b.GraphForgotten(id)
		b.GraphForgotten(id) // once is enough
		require.LessOrEqual(t, len(b.graphs), maxForgotten+1)
	}
	require.Zero(t, b.Refused.Nodes)
	require.Equal(t, 10*maxForgotten, b.nodes)
	build(1000) // an id that is used again begins a graph anew
	require.Equal(t, 10*maxForgotten, b.nodes)
	require.Len(t, b.graphs[1000].Nodes, 10)
	build(2000)
	require.Zero(t, b.Refused.Nodes)
	build(2001)
	require.EqualValues(t, 10, b.Refused.Nodes)
	for id := uint32(3000); id < 3100; id++ { // the old 1000 goes in its turn, and not the new one
		b.GraphForgotten(id)
		build(id)
		b.GraphForgotten(id)
	}
	require.NotNil(t, b.graphs[1000])
	require.False(t, b.graphs[1000].forgotten)
}

// TestAForgottenGraphStillHasItsNodesForReplaysThatAreRunning.
func TestAForgottenGraphStillHasItsNodesForReplaysThatAreRunning(t *testing.T) {
	b := newBench(t, DefaultLimits)
	b.captured(true, true)
	b.graphLaunch(1, 0)
	b.GraphForgotten(6)
	b.NodeForgotten(exec)
	require.True(t, b.took(node(1, 0, 10), node(1, 1, 20)).Ended)
}

func TestGraphsAndNodesAreBounded(t *testing.T) {
	limits := DefaultLimits
	limits.Graphs, limits.Nodes = 2, 3
	b := newBench(t, limits)
	for _, id := range []uint64{1 << 32, 1<<32 | 1, 2 << 32, 2<<32 | 1, 3 << 32} {
		b.NodeCreated(id, true, 0, 0, 0)
	}
	require.EqualValues(t, 2, b.Refused.Nodes)
	b.NodeCreated(2<<32, true, 0, 5, 0) // known
	require.EqualValues(t, 2, b.Refused.Nodes)
	b.graphLaunch(1, 0)
	b.became(b.took(kernel(1, 3<<32, 10, 20)), 0, 0, 1, 0) // of a graph that there is no room for
	b.graphLaunch(2, 0)
	b.became(b.took(kernel(2, 2<<32|7, 10, 20), kernel(2, 2<<32|8, 20, 30)), 2, 0, 0, 0)
	require.EqualValues(t, 4, b.Refused.Nodes)
	require.Equal(t, []uint64{1, 2}, b.to.Refs, "after the one that has a place")
}

// TestANodeIsClassedOnceForItsKernel, and anew when it gives another, or when classes change.
func TestANodeIsClassedOnceForItsKernel(t *testing.T) {
	asked := 0
	b := newBench(t, DefaultLimits)
	class := b.class
	b.class = func(call, id uint32, n *Name) span.Class { asked++; return class(call, id, n) }
	b.captured(true)
	replay := func(c, name uint32, want span.Class, asks int) {
		t.Helper()
		asked = 0
		b.graphLaunch(c, uint64(c))
		k := node(c, 0, 100)
		le.PutUint32(k[28:], name)
		require.Equal(t, 1, b.took(k).Taken)
		require.Equal(t, want, b.to.Spans[len(b.to.Spans)-1].Class())
		require.Equal(t, asks, asked)
	}
	replay(1, 1, span.Compute, 1)
	replay(2, 1, span.Compute, 0)
	version := b.graphs[6].Version
	replay(3, 2, span.Comm, 1)
	require.NotEqual(t, version, b.graphs[6].Version)
	require.Equal(t, 1, b.to.Comm)
	b.Reclass()
	replay(4, 2, span.Comm, 1)
	replay(5, 2, span.Comm, 0)
}

func TestNames(t *testing.T) {
	limits := DefaultLimits
	limits.Names = 3
	b := newBench(t, limits)
	say := func(id uint32, text string) {
		body := le.AppendUint32(le.AppendUint32(nil, id), uint32(len(text)))
		for body = append(body, text...); len(body)%8 != 0; {
			body = append(body, 0)
		}
		require.NoError(t, b.Strings(body))
	}
	say(1, "gemm")
	say(1, "again")
	require.Equal(t, "gemm", b.Text(1))
	require.Empty(t, b.Text(2))
	require.Error(t, b.Strings([]byte{1}))
	say(2, strings.Repeat("x", 3*averageName-4))
	require.Zero(t, b.Refused.Names, "to the last byte")
	say(3, "y")
	require.EqualValues(t, 1, b.Refused.Names, "too much text")
	b = newBench(t, limits)
	for id := range uint32(4) {
		say(id+1, "z")
	}
	require.EqualValues(t, 1, b.Refused.Names, "too many")
	rules := 0
	b.classify = func(name string) (span.Class, bool, bool) { rules++; return span.Comm, name == "z", true }
	b.Classify(b.classify)
	for range 3 { // the rules are asked once
		n := b.Kernel(1)
		require.Equal(t, [4]any{"z", span.Comm, true, true}, [4]any{n.Text, n.Class, n.Fused, n.Ruled})
		require.Equal(t, 1, rules)
	}
	require.Empty(t, b.Kernel(77).Text)
	require.Same(t, b.Kernel(77), b.Kernel(78))
}

func TestCommOfALaunchThatBecomesKnownLater(t *testing.T) {
	b := newBench(t, DefaultLimits)
	b.captured(true)
	version := b.graphs[6].Version
	b.NodeCommunicates(exec, 9)
	require.EqualValues(t, 9, b.graphs[6].Node(0).Comm)
	require.NotEqual(t, version, b.graphs[6].Version)
	require.Equal(t, 1, b.graphs[6].Kernels(), "it is still what it was")
	b.NodeCommunicates(77<<32, 9)
	b.NodeCommunicates(exec|77, 9)
}

func TestTimesOfRecords(t *testing.T) {
	const now = epoch + 10*second
	for name, c := range map[string]struct {
		start, end uint64
		why        Invalid
		ok         bool
	}{
		"right":                       {epoch + 5, epoch + 9, 0, true},
		"of no length":                {epoch + 5, epoch + 5, 0, true},
		"no start":                    {0, epoch + 9, Zero, false},
		"no end":                      {epoch + 5, 0, Zero, false},
		"backward":                    {epoch + 5, epoch + 4, Backward, false},
		"an hour":                     {now - hour, now, 0, true},
		"longer than an hour":         {now - hour - 1, now, TooLong, false},
		"as late as can be":           {now, now + Ahead, 0, true},
		"later":                       {now, now + Ahead + 1, Future, false},
		"as early as can be":          {epoch - second - Slack, epoch, 0, true},
		"earlier":                     {epoch - second - Slack - 1, epoch, BeforeLaunch, false},
		"more than a span can hold":   {span.Limit, span.Limit, Future, false},
		"the launch is never so late": {1, 2, BeforeLaunch, false},
	} {
		b := newBench(t, DefaultLimits)
		launch := uint64(epoch - second)
		if c.why == TooLong || name == "an hour" {
			launch = now - 2*hour
		}
		l := &Launch{Time: launch}
		w := b.window(l, 1, Clock{Now: now})
		require.Equal(t, c.ok, w.holds(c.start, c.end), name)
		if !c.ok {
			require.Equal(t, c.why, w.fault(c.start, c.end), name)
		}
	}
	b := newBench(t, DefaultLimits)
	w := b.window(nil, 1, Clock{Now: 1<<64 - 1})
	require.True(t, w.holds(span.Limit-2, span.Limit-1), "a clock beyond all spans")
	require.False(t, w.holds(span.Limit-1, span.Limit))
	require.True(t, w.holds(1, 2), "nothing tells when it was launched")
}

// TestRecordsThatEndAfterTheClockArePutOff, and no others.
func TestRecordsThatEndAfterTheClockArePutOff(t *testing.T) {
	b := newBench(t, DefaultLimits)
	b.graphLaunch(1, 0)
	early := node(1, 1, second+Ahead)
	records := []wire.Kernel{node(1, 0, 10), early, node(1, 2, 30)}
	now := Clock{Now: epoch + second}
	require.Equal(t, []wire.Kernel{records[0], records[2]}, b.PutOff(b.Joiner.Run(records), now))
	require.Equal(t, []wire.Kernel{early}, b.Early)
	require.Equal(t, early, records[1], "the frame is as it was")
	now.Flushed = true
	require.Equal(t, records, b.PutOff(b.Joiner.Run(records), now))
	require.Len(t, b.Early, 1)
	now = Clock{Now: epoch + second + 10}
	require.Equal(t, records, b.PutOff(b.Joiner.Run(records), now), "it ends when it may, to the nanosecond")
	b.Early = make([]wire.Kernel, maxEarly)
	require.Equal(t, records, b.PutOff(b.Joiner.Run(records), Clock{Now: epoch + second}), "there are too many: they are judged by the clock that there is")
	c := copyOn(7, 1, 0, second, second+Ahead+1)
	require.True(t, IsEarly(&c, Clock{Now: epoch + second}))
	require.False(t, IsEarly(&c, Clock{Now: epoch + second + 1}))
	require.False(t, IsEarly(&c, Clock{Now: epoch + second, Flushed: true}))
}

func TestWhenAnAPICallWasMadeAtTheEarliest(t *testing.T) {
	var h history
	require.Zero(t, h.earliest(5))
	h.note(10, epoch)
	h.note(20, epoch+callsApart-1) // too soon to be worth a mark
	h.note(30, epoch+callsApart)
	h.note(25, epoch+3*callsApart) // another thread's, that tells of its launch late
	h.note(40, epoch+4*callsApart)
	check := func(id uint32, want uint64) {
		t.Helper()
		require.Equal(t, want, h.earliest(id), "call %d", id)
	}
	check(9, 0)
	check(10, epoch-preempted)
	check(29, epoch-preempted)
	check(30, epoch+callsApart-preempted)
	check(39, epoch+callsApart-preempted)
	check(1000, epoch+4*callsApart-preempted)
	for i := range uint32(2 * len(h.marks)) {
		h.note(100+10*i, epoch+uint64(100+i)*callsApart)
	}
	check(100, 0) // no longer known
	check(100+10*uint32(len(h.marks))-1, 0)
	check(100+10*uint32(len(h.marks)), epoch+uint64(100+len(h.marks))*callsApart-preempted)
	h = history{}
	h.note(5, 1)
	check(7, 0)
	require.True(t, after(1, 1<<32-5), "ids go round")
	require.False(t, after(3, 3))
}

func TestColumnsOfCopies(t *testing.T) {
	b := newBench(t, DefaultLimits)
	b.graphLaunch(1, 1000*ms)
	var to Columns
	c := copyOn(7, 1, exec, 1000*ms, 1000*ms+10)
	_, _, bad := b.CopyTo(&to, &c, Clock{Now: epoch + 2*second})
	require.False(t, bad)
	require.Equal(t, []span.Span{span.Make(epoch+1000*ms, epoch+1000*ms+10, span.Copy)}, to.Spans)
	c = copyOn(7, 1, exec, 0, 10)
	_, why, bad := b.CopyTo(&to, &c, Clock{Now: epoch + 2*second})
	require.True(t, bad)
	require.Equal(t, BeforeLaunch, why)
	require.Len(t, to.Spans, 1)
	// An id that is in use again may be that of the use before.
	b.graphLaunch(1, 5000*ms)
	c = copyOn(7, 1, exec, 1000*ms, 1000*ms+10)
	require.True(t, b.Sound(&c, Clock{Now: epoch + 2*second}))
}
