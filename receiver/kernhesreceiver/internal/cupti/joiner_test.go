package cupti

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

var le = binary.LittleEndian

// Times of these tests are in ns after an hour that suits.
const epoch = 1_790_000_000_000_000_000

const ms, second = 1_000_000, 1_000_000_000

// A bench has a Joiner of which every kernel is compute, but for those of name 2.
type bench struct {
	*testing.T
	*Joiner
	to *Columns
}

func newBench(t *testing.T, limits Limits) *bench {
	return &bench{t, New(limits, func(string) (span.Class, bool, bool) { return span.Compute, false, false }, func(_, id uint32, _ *Name) span.Class {
		if id == 2 {
			return span.Comm
		}
		return span.Compute
	}), &Columns{}}
}

func kernelOn(stream, c uint32, node, start, end uint64) (k wire.Kernel) {
	le.PutUint64(k[0:], start)
	le.PutUint64(k[8:], end)
	le.PutUint64(k[16:], node)
	le.PutUint32(k[24:], c)
	le.PutUint32(k[28:], 1)
	le.PutUint32(k[32:], stream)
	return k
}

func kernel(c uint32, node, start, end uint64) wire.Kernel {
	return kernelOn(7, c, node, epoch+start, epoch+end)
}

func copyOn(stream, c uint32, node, start, end uint64) (r wire.Copy) {
	le.PutUint64(r[0:], epoch+start)
	le.PutUint64(r[8:], epoch+end)
	le.PutUint64(r[16:], node)
	le.PutUint32(r[32:], c)
	le.PutUint32(r[36:], stream)
	r[42] = wire.CopyMemset
	return r
}

func (b *bench) launch(c uint32, at uint64) *Launch {
	return b.Launch(Launch{Time: epoch + at, Correlation: c, Owner: 1})
}

func (b *bench) graphLaunch(c uint32, at uint64) {
	require.Nil(b, b.Launch(Launch{Time: epoch + at, Correlation: c, Owner: 1, Graph: true}))
}

// took gives records to the Joiner and sums what became of them. The clock is far ahead.
func (b *bench) took(records ...wire.Kernel) (sum Outcome) {
	b.Helper()
	for len(records) > 0 {
		r := b.Joiner.Run(records)
		records = records[len(r.Records):]
		o := b.Take(r, Clock{Now: epoch + 3600*second}, b.to)
		sum.Taken += o.Taken
		sum.Late += o.Late
		sum.Duplicate += o.Duplicate
		sum.Ended = o.Ended
		for i, n := range o.Invalid {
			sum.Invalid[i] += n
		}
	}
	return sum
}

// became checks what became of records: taken, late, duplicate, invalid.
func (b *bench) became(o Outcome, taken, late, duplicate, invalid int) {
	b.Helper()
	require.Equal(b, [4]int{taken, late, duplicate, invalid}, [4]int{o.Taken, o.Late, o.Duplicate, o.Bad()})
}

// flushed tells of a flush and returns the correlation ids of the launches that it ended; expired ones are negative.
func (b *bench) flushed(at, timeout uint64) (ended []int) {
	b.Flushed(epoch+at, timeout, func(l *Launch) { ended = append(ended, sign(l)) })
	return ended
}

func sign(l *Launch) int {
	if l.Expired() {
		return -int(l.Correlation)
	}
	return int(l.Correlation)
}

func TestAnEagerLaunchHasOneRecord(t *testing.T) {
	b := newBench(t, DefaultLimits)
	b.launch(1, 0)
	b.became(b.took(kernel(1, 0, 10, 20), kernel(1, 0, 30, 40)), 1, 0, 1, 0) // in one batch
	b.became(b.took(kernel(1, 0, 10, 20)), 0, 0, 1, 0)
	_, _, waits := b.Oldest()
	require.False(t, waits)
	b.launch(2, 50)
	b.launch(3, 60)
	at, _, waits := b.Oldest()
	require.True(t, waits)
	require.EqualValues(t, epoch+50, at)
	require.True(t, b.took(kernel(2, 0, 70, 80)).Ended)
	at, _, _ = b.Oldest()
	require.EqualValues(t, epoch+60, at)
	b.became(b.took(kernel(9, 0, 70, 80)), 1, 0, 0, 0) // of a launch that was not heard
	require.Len(t, b.to.Spans, 3)
	require.Equal(t, Counts{Launches: 3}, b.Counts)
}

func TestRecordsOfOneBatchOnSeveralDevicesAreRunsOfTheirOwn(t *testing.T) {
	b := newBench(t, DefaultLimits)
	b.graphLaunch(1, 0)
	b.launch(2, 0)
	other := kernel(1, 0, 10, 20)
	le.PutUint16(other[36:], 3)
	records := []wire.Kernel{kernel(1, 0, 10, 20), kernel(1, 0, 20, 30), other, kernel(2, 0, 10, 20)}
	var lengths []int
	for len(records) > 0 {
		r := b.Joiner.Run(records)
		lengths = append(lengths, len(r.Records))
		records = records[len(r.Records):]
	}
	require.Equal(t, []int{2, 1, 1}, lengths)
}

// TestACorrelationIDThatIsUsedAgain: a record is of the latest use that was launched before it started.
func TestACorrelationIDThatIsUsedAgain(t *testing.T) {
	b := newBench(t, DefaultLimits)
	b.launch(5, 0)
	b.launch(5, 10*second)
	b.launch(5, 20*second)
	require.NotNil(t, b.Captured(5)) // the last one gives no record
	first, second := b.launches.get(5).older.older, b.launches.get(5).older
	check := func(start uint64, want *Launch) {
		t.Helper()
		require.Same(t, want, b.Joiner.Run([]wire.Kernel{kernel(5, 0, start, start+1)}).Launch)
	}
	check(5*ms, first)
	check(10_000*ms-Slack-1, first)
	check(10_000*ms-Slack, second)
	check(30_000*ms, second)
	none := kernelOn(7, 5, 0, 0, epoch+1)
	require.Same(t, second, b.Joiner.Run([]wire.Kernel{none}).Launch, "without a start: the latest")
	require.Nil(t, b.Captured(99))
	require.Nil(t, b.Captured(5), "it is captured")
}

func TestTheLaunchLimitGivesUpTheOldest(t *testing.T) {
	limits := DefaultLimits
	limits.Launches = 3
	b := newBench(t, limits)
	for c := range uint32(3) {
		require.Nil(t, b.launch(1+c, uint64(c)))
	}
	b.took(kernel(2, 0, 10, 20))
	require.Nil(t, b.launch(4, 3), "one has its record: there is room")
	gone := b.launch(5, 4)
	require.EqualValues(t, 1, gone.Correlation)
	require.True(t, gone.Expired())
	require.EqualValues(t, 3, b.launch(6, 5).Correlation)
	require.EqualValues(t, 2, b.Refused.Launches)
	require.EqualValues(t, 2, b.Counts.Unfulfilled)
	b.became(b.took(kernel(1, 0, 30, 40)), 0, 1, 0, 0) // late
}

// TestLaunchesAreRecycled: of ended ones the last 32,768 are remembered, so that a record that comes twice is known for it; those
// before are used again, with no trace of what they were.
func TestLaunchesAreRecycled(t *testing.T) {
	const n = 1 << 17
	b := newBench(t, DefaultLimits)
	b.node(6<<32 | 70)
	for c := range uint32(n) {
		at := uint64(c) * 1000
		if c%2 == 0 {
			b.launch(c+1, at)
			b.became(b.took(kernel(c+1, 0, at+10, at+20)), 1, 0, 0, 0)
			continue
		}
		b.graphLaunch(c+1, at)
		b.became(b.took(kernel(c+1, 6<<32|70, at+10, at+20), kernel(c+1, 6<<32|5, at+20, at+30)), 2, 0, 0, 0)
		b.took(kernel(c+2, 0, at+40, at+50)) // of a call after it, that nobody heard of: the replay is over
		require.Equal(t, []int{int(c + 1)}, b.flushed(at+200_000, second))
		require.LessOrEqual(t, b.launches.ids, DefaultLimits.Recent)
	}
	require.LessOrEqual(t, len(b.recent)-b.recentHead, DefaultLimits.Recent)
	require.Less(t, cap(b.recent), 4*DefaultLimits.Recent)
	require.LessOrEqual(t, len(b.spare), DefaultLimits.Recent)
	require.Less(t, b.marks, 2*DefaultLimits.Recent*4, "two words for each launch that is remembered, as slices grow")
	last := uint32(n)
	b.became(b.took(kernel(last-1, 0, 1000*(n-2)+10, 1000*(n-2)+20)), 0, 0, 1, 0)
	b.became(b.took(kernel(last-1<<15+1, 0, 1000*(n-1), 1000*(n-1)+1)), 0, 0, 1, 0) // the oldest that is remembered
	b.became(b.took(kernel(1, 0, 10, 20)), 1, 0, 0, 0)                              // one that is not
}

func TestALaunchWithoutARecordIsGivenUp(t *testing.T) {
	const timeout = 10 * second
	b := newBench(t, DefaultLimits)
	b.launch(1, 0)
	b.launch(2, 1*second)
	require.Empty(t, b.flushed(timeout+1, timeout), "it may still be running")
	b.took(kernel(3, 0, timeout, timeout+5)) // started a timeout after, and not later
	require.Empty(t, b.flushed(timeout+ms, timeout))
	b.took(kernel(3, 0, timeout+1, timeout+5))
	require.Empty(t, b.flushed(timeout, timeout), "the flush is not later than the timeout")
	require.Equal(t, []int{-1}, b.flushed(timeout+1, timeout))
	require.Empty(t, b.flushed(61*second, timeout), "nothing tells of the second, for six timeouts")
	require.Equal(t, []int{-2}, b.flushed(61*second+1, timeout))
	_, _, waits := b.Oldest()
	require.False(t, waits)
	require.EqualValues(t, 2, b.Counts.Unfulfilled)
	require.Empty(t, b.open)
}

func TestAKernelThatHangsHoldsBackNothingElse(t *testing.T) {
	b := newBench(t, DefaultLimits)
	b.launch(1, 0)
	for c := uint32(2); c < 1000; c++ {
		b.launch(c, uint64(c))
		b.took(kernel(c, 0, uint64(c), uint64(c)+1))
		if c%100 == 0 {
			b.flushed(uint64(c)+500_000, second)
			require.Less(t, len(b.open), 300, "ended launches behind one that waits are let go")
		}
	}
	b.became(b.took(kernel(1, 0, 5, 9)), 1, 0, 0, 0)
}
