package cupti

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/wire"
)

const exec = 6 << 32 // node ids of the executable graph of these tests

// captured makes graph 5 and its executable clone 6, of nodes that were made in a launch call or not.
func (b *bench) captured(inLaunch ...bool) {
	for i, in := range inLaunch {
		b.NodeCreated(5<<32|uint64(i), in, 0, 0, 0)
		b.NodeCreated(exec|uint64(i), false, 0, 0, 0)
		b.NodeCloned(5<<32|uint64(i), exec|uint64(i))
	}
}

// node is a kernel of a node of the graph that runs for 10 ns.
func node(c uint32, low, start uint64) wire.Kernel { return kernel(c, exec|low, start, start+10) }

func (b *bench) moved(c uint32, low, start uint64) *Launch {
	r := copyOn(7, c, exec|low, start, start+10)
	return b.Copy(&r, Clock{Now: epoch + second})
}

const long = 3600 * second // a timeout that does not come

func TestAReplayIsWholeWithItsLastKernel(t *testing.T) {
	b := newBench(t, DefaultLimits)
	b.captured(true, true, true)
	b.graphLaunch(1, 0)
	require.False(t, b.took(node(1, 2, 30)).Ended) // in any order
	require.False(t, b.took(node(1, 0, 10)).Ended)
	o := b.took(node(1, 0, 10), node(1, 1, 20), node(1, 1, 20))
	b.became(o, 1, 0, 2, 0)
	require.True(t, o.Ended)
	b.became(b.took(node(1, 1, 20)), 0, 0, 1, 0)
	require.Zero(t, b.Counts.Unchecked)
	require.True(t, b.to.Unordered)
	require.Equal(t, []uint64{2, 0, 1}, b.to.Refs)
}

// TestAReplayIsWholeWithItsLastCopy: a copy shows what its node is, and from then on each replay must have it.
func TestAReplayIsWholeWithItsLastCopy(t *testing.T) {
	b := newBench(t, DefaultLimits)
	b.captured(true, false)
	b.graphLaunch(1, 0)
	require.False(t, b.took(node(1, 0, 10)).Ended, "the other node may give a kernel")
	require.NotNil(t, b.moved(1, 1, 20))
	require.Nil(t, b.moved(1, 1, 20), "it is over")
	b.graphLaunch(2, 100)
	require.False(t, b.took(node(2, 0, 110)).Ended)
	l := b.launches.get(2)
	require.Equal(t, 1, l.Missing())
	require.Same(t, l, b.moved(2, 1, 120))
	require.Zero(t, l.Missing())
	b.graphLaunch(3, 200)
	require.Nil(t, b.moved(3, 1, 210))
	require.Same(t, b.graphs[6], b.launches.get(3).Replays(), "a copy tells which graph is replayed")
	require.True(t, b.took(node(3, 0, 220)).Ended)
	require.Zero(t, b.Counts.Unchecked)
	require.Nil(t, b.moved(99, 1, 20))
}

// TestNodesThatGiveNothing: events and the like. The first replay is over when later work on its stream shows it; what gave
// nothing then is not waited for in later ones.
func TestNodesThatGiveNothing(t *testing.T) {
	b := newBench(t, DefaultLimits)
	b.captured(true, false)
	b.graphLaunch(1, 0)
	b.graphLaunch(2, 50)
	require.False(t, b.took(node(1, 0, 10)).Ended)
	require.False(t, b.took(node(2, 0, 60)).Ended)
	require.Equal(t, []int{1, 2}, b.flushed(100+2*Slack, long), "the first was followed by the second, which is then known to be whole")
	b.graphLaunch(3, 3*ms)
	require.True(t, b.took(node(3, 0, 3*ms+10)).Ended)
	require.Zero(t, b.Counts.Unchecked)
	// What was shown of nodes says nothing once there are others.
	b.NodeCloned(5<<32, exec)
	b.graphLaunch(4, 4*ms)
	require.False(t, b.took(node(4, 0, 4*ms+10)).Ended)
}

// TestAReplayFromBeforeAnUpdateShowsNothingOfTheNodesAfterIt.
func TestAReplayFromBeforeAnUpdateShowsNothingOfTheNodesAfterIt(t *testing.T) {
	b := newBench(t, DefaultLimits)
	b.captured(true, false)
	b.graphLaunch(1, 0)
	b.took(node(1, 0, 10))
	b.NodeCloned(5<<32|1, exec|1)
	b.graphLaunch(2, 50)
	b.took(node(2, 0, 60))
	require.Equal(t, []int{1}, b.flushed(100+2*Slack, long))
}

// TestNodesOfATypeThatGivesNothing: CUPTI says it of some.
func TestNodesOfATypeThatGivesNothing(t *testing.T) {
	for nodeType, waits := range map[uint32]bool{0: true, 1: true, 2: true, 3: false, 4: true, 5: false, 6: false, 9: false, 12: false, 13: true} {
		b := newBench(t, DefaultLimits)
		b.NodeCreated(5<<32, true, 0, 0, 0)
		b.NodeCreated(5<<32|1, false, nodeType, 0, 0)
		b.NodeCloned(5<<32, exec)
		b.NodeCloned(5<<32|1, exec|1)
		b.graphLaunch(1, 0)
		require.Equal(t, !waits, b.took(node(1, 0, 10)).Ended, "type %d", nodeType)
	}
}

// TestAKernelOfANodeThatNoLaunchMade makes the count unknown only while other nodes may give kernels too.
func TestAKernelOfANodeThatNoLaunchMade(t *testing.T) {
	b := newBench(t, DefaultLimits)
	b.captured(true, false)
	b.graphLaunch(1, 0)
	require.False(t, b.took(node(1, 0, 10)).Ended)
	require.True(t, b.took(node(1, 1, 20)).Ended, "each node gave its kernel")
	b.graphLaunch(2, 100)
	require.False(t, b.took(node(2, 0, 110)).Ended)
	require.True(t, b.took(node(2, 1, 120)).Ended)
	require.Zero(t, b.Counts.Unchecked)

	b = newBench(t, DefaultLimits)
	b.captured(true, false, false)
	var before []int
	for c := uint32(1); c < 5; c++ {
		at := uint64(c) * 3 * ms
		b.graphLaunch(c, at)
		require.False(t, b.took(node(c, 0, at+10), node(c, 1, at+20)).Ended)
		require.Equal(t, before, b.flushed(at+2*ms, long), "stream order alone shows the end of each")
		before = []int{int(c)}
	}
	require.EqualValues(t, 3, b.Counts.Unchecked)
}

// TestAReplayThatLacksWhatEachGivesIsNotWhole, even if later work shows that it is over.
func TestAReplayThatLacksWhatEachGivesIsNotWhole(t *testing.T) {
	b := newBench(t, DefaultLimits)
	b.captured(true, true, false, false)
	b.graphLaunch(1, 0)
	b.took(node(1, 0, 10), node(1, 2, 20)) // two kernels, but not the two that launches made
	b.took(kernel(2, 0, 40, 50))
	require.Empty(t, b.flushed(ms, long))
	l := b.launches.get(1)
	require.Equal(t, 1, l.Missing())
	b.took(kernel(3, 0, 12*second, 12*second+10))
	require.Equal(t, []int{-1}, b.flushed(13*second, 10*second))
	require.False(t, l.Uncertain(), "a record is missing for sure")
}

func TestNodesOfAChildGraphCountForNoParent(t *testing.T) {
	b := newBench(t, DefaultLimits)
	b.captured(true, true)
	b.NodeCreated(9<<32, true, 0, 0, 0)
	b.graphLaunch(1, 0)
	require.False(t, b.took(node(1, 0, 10), kernel(1, 9<<32, 20, 30)).Ended)
	l := b.launches.get(1)
	_, known := l.Expected()
	require.False(t, known)
	require.Equal(t, 1, l.Missing(), "of its own graph")
	require.False(t, b.took(node(1, 1, 30)).Ended)
	b.took(kernel(2, 0, 40, 50))
	require.Equal(t, []int{1}, b.flushed(ms, long))
	require.EqualValues(t, 1, b.Counts.Unchecked)
}

// unseen begins a replay of a graph whose capture was not seen: two kernels on stream 7 and one on 8.
func unseen(t *testing.T) *bench {
	b := newBench(t, DefaultLimits)
	b.graphLaunch(10, 0)
	b.became(b.took(node(10, 0, 100), node(10, 1, 200), kernelOn(8, 10, exec|2, epoch+200, epoch+300)), 3, 0, 0, 0)
	return b
}

func on(stream, c uint32, start, end uint64) wire.Kernel {
	return kernelOn(stream, c, 0, epoch+start, epoch+end)
}

func TestWhatShowsTheEndOfAReplay(t *testing.T) {
	const flush = ms
	for name, c := range map[string]struct {
		what func(b *bench)
		want []int
	}{
		"nothing":                       {func(b *bench) {}, nil},
		"later kernels on both streams": {func(b *bench) { b.took(on(7, 11, 400, 500), on(8, 12, 400, 500)) }, []int{10}},
		"on one of them":                {func(b *bench) { b.took(on(7, 11, 400, 500), on(7, 12, 500, 600)) }, nil},
		"on another":                    {func(b *bench) { b.took(on(7, 11, 400, 500), on(9, 12, 400, 500)) }, nil},
		"on the streams of another device": {func(b *bench) {
			k := on(8, 12, 400, 500)
			k[36] = 1
			b.took(on(7, 11, 400, 500), k)
		}, nil},
		"earlier calls": {func(b *bench) { b.took(on(7, 8, 400, 500), on(8, 9, 400, 500)) }, nil},
		"one starts before what came of it ended":  {func(b *bench) { b.took(on(7, 11, 400, 500), on(8, 12, 299, 500)) }, nil},
		"one starts when what came of it ended":    {func(b *bench) { b.took(on(7, 11, 300, 500), on(8, 12, 300, 500)) }, []int{10}},
		"one ends when the flush begins":           {func(b *bench) { b.took(on(7, 11, 400, flush-Slack), on(8, 12, 400, 500)) }, nil},
		"one ends just before the flush begins":    {func(b *bench) { b.took(on(7, 11, 400, flush-Slack-1), on(8, 12, 400, 500)) }, []int{10}},
		"the latest of several is the one that is": {func(b *bench) { b.took(on(7, 12, 600, 700), on(7, 11, 400, 500), on(8, 13, 400, flush)) }, nil},
		"a copy": {func(b *bench) {
			r := copyOn(8, 12, 0, 400, 500)
			b.took(on(7, 11, 400, 500))
			b.Copy(&r, Clock{Now: epoch + second})
		}, []int{10}},
		"a copy whose time cannot be": {func(b *bench) {
			r := copyOn(8, 12, 0, 400, 500)
			b.took(on(7, 11, 400, 500))
			b.Copy(&r, Clock{Now: epoch - second})
		}, nil},
		"a copy of its own": {func(b *bench) {
			b.took(on(7, 11, 400, 500), on(8, 12, 400, 500))
			r := copyOn(9, 10, exec|5, 350, 360)
			b.Copy(&r, Clock{Now: epoch + second})
		}, nil},
		"later replays of the graph": {func(b *bench) {
			b.graphLaunch(11, 300)
			b.took(node(11, 0, 400), kernelOn(8, 11, exec|2, epoch+400, epoch+500))
		}, []int{10}},
		"while an earlier launch lacks its record": {func(b *bench) {
			b.launch(11, 10)
			b.took(on(7, 12, 400, 500), on(8, 13, 400, 500))
		}, nil},
		"while a later launch lacks its record": {func(b *bench) {
			b.took(on(7, 11, 400, 500), on(8, 12, 400, 500))
			b.launch(13, 600)
		}, []int{10}},
	} {
		t.Run(name, func(t *testing.T) {
			b := unseen(t)
			c.what(b)
			require.Equal(t, c.want, b.flushed(flush, long))
		})
	}
}

// TestAReplayDoesNotShowItsOwnEnd, even if its only kernel so far took no time.
func TestAReplayDoesNotShowItsOwnEnd(t *testing.T) {
	b := newBench(t, DefaultLimits)
	b.graphLaunch(10, 0)
	b.took(kernel(10, exec, 100, 100))
	require.Empty(t, b.flushed(ms, long))
}

// TestWorkThatEndsWithEachFlushShowsTheEndWithTheNext: on a busy stream the latest kernel is always later than the flush began.
func TestWorkThatEndsWithEachFlushShowsTheEndWithTheNext(t *testing.T) {
	b := unseen(t)
	b.took(on(7, 11, ms, ms+10), on(8, 12, ms, ms+10))
	require.Empty(t, b.flushed(ms, long))
	b.took(on(7, 13, 2*ms, 2*ms+10), on(8, 14, 2*ms, 2*ms+10))
	require.Equal(t, []int{10}, b.flushed(2*ms, long))
}

// TestAnOldestLaunchThatIsOverdueBlocksNothing: its buffer is held back no longer than it is waited for itself.
func TestAnOldestLaunchThatIsOverdueBlocksNothing(t *testing.T) {
	b := newBench(t, DefaultLimits)
	b.launch(9, 0)
	b.graphLaunch(10, 10)
	b.took(node(10, 0, 100))
	b.took(on(7, 11, 400, 500))
	require.Empty(t, b.flushed(ms, second))
	b.took(on(7, 12, 2*second, 2*second+10))
	require.Equal(t, []int{-9, 10}, b.flushed(3*second, second))
}

func TestTheEndOfASession(t *testing.T) {
	for name, c := range map[string]struct {
		whole    bool
		followed bool
		want     int
	}{
		"later work, and all came":    {true, true, 10},
		"later work, the engine died": {false, true, -10},
		"no later work":               {true, false, -10},
	} {
		b := unseen(t)
		b.launch(20, 400)
		if c.followed {
			b.took(on(7, 11, 400, 500), on(8, 12, 400, 500))
		}
		l := b.launches.get(10)
		var ended []int
		b.End(c.whole, func(l *Launch) { ended = append(ended, sign(l)) })
		require.Equal(t, []int{c.want, -20}, ended, name)
		require.Equal(t, c.want < 0, l.Uncertain(), name)
		require.Zero(t, l.Missing(), name)
	}
}

// TestAReplayOnTooManyStreamsIsNeverSeenToEnd, rather than taken to be over by those that are known.
func TestAReplayOnTooManyStreamsIsNeverSeenToEnd(t *testing.T) {
	b := newBench(t, DefaultLimits)
	for s := range uint32(maxLanes) {
		b.took(on(100+s, s+1, 10, 20))
	}
	b.graphLaunch(5000, 100)
	b.took(kernelOn(100, 5000, exec, epoch+200, epoch+210), kernelOn(7, 5000, exec|1, epoch+200, epoch+210))
	b.took(on(100, 5001, 300, 310), on(7, 5002, 300, 310))
	require.Empty(t, b.flushed(ms, long))
	require.Len(t, b.lanes, maxLanes)
}
