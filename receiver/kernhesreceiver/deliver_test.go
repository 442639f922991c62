package kernhesreceiver

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/plog"
)

// A logsPipeline takes chunks, or answers with what fails says of a call; the first call is 1.
type logsPipeline struct {
	fails func(call int64) error
	calls atomic.Int64
}

func (p *logsPipeline) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (p *logsPipeline) ConsumeLogs(context.Context, plog.Logs) error {
	return p.fails(p.calls.Add(1))
}

// newLogsBench starts a receiver whose fake engines' chunks go to a pipeline, and which tries again at once.
func newLogsBench(t *testing.T, fails func(call int64) error) (*bench, *logsPipeline) {
	return newLogsBenchWith(t, fails, time.Millisecond)
}

// newLogsBenchWith starts one that tries again after a while.
func newLogsBenchWith(t *testing.T, fails func(call int64) error, retryDelay time.Duration) (*bench, *logsPipeline) {
	p := &logsPipeline{fails: fails}
	b := newBenchOn(t, componenttest.NewNopHost(), fakes, nil, func(r *kernhesReceiver) { r.logs, r.retryDelay = p, retryDelay })
	return b, p
}

// became tells what the engine of a session has heard of its chunks.
func (b *bench) became(session uint64) []bool { return b.engine(session).Became() }

// refused are the records that the pipeline refused.
func (b *bench) refused() [2]int64 {
	return [2]int64{b.number("kernhes_refused_kernels"), b.number("kernhes_refused_copies")}
}

var errBusy = errors.New("busy")

func TestARefusedChunkIsCountedAndSettled(t *testing.T) {
	b, p := newLogsBench(t, func(call int64) error {
		if call == 2 {
			return consumererror.NewPermanent(errors.New("never"))
		}
		return nil
	})
	c, _, _ := b.connect(1)
	for n := uint64(1); n <= 3; n++ {
		c.word(n, "chunk 10")
		c.ack(n)
	}
	assert.EqualValues(t, 3, p.calls.Load(), "a chunk that is refused for good is not sent again")
	assert.Equal(t, []bool{true, false, true}, b.became(1))
	assert.Equal(t, [2]int64{3, 2}, b.refused())
	assert.Equal(t, 1, b.logs.FilterMessage("the logs pipeline refused packed steps").Len())
	assert.Zero(t, b.logs.FilterMessage("nothing is acknowledged until this works again").Len(), "delivery works")
}

// newBusyBench starts a receiver whose logs pipeline takes nothing while busy is set, as it is at first.
func newBusyBench(t *testing.T) (b *bench, p *logsPipeline, busy *atomic.Bool) {
	busy = &atomic.Bool{}
	busy.Store(true)
	b, p = newLogsBench(t, func(int64) error {
		if busy.Load() {
			return errBusy
		}
		return nil
	})
	return b, p, busy
}

// TestFewChunksThatWaitHoldNothingUp: frames are read on, and nothing is acknowledged until the pipeline takes the chunks.
func TestFewChunksThatWaitHoldNothingUp(t *testing.T) {
	b, p, busy := newBusyBench(t)
	c, _, _ := b.connect(1)
	for n := uint64(1); n <= 4; n++ {
		c.word(n, "chunk 2097152") // four of them are the bound of 8 MiB
	}
	c.word(5, "outside")
	require.Eventually(t, func() bool { return b.received(1) == 5 }, waitFor, tick, "what waits is within the bound")
	require.Empty(t, b.became(1))
	require.Equal(t, 1, b.logs.FilterMessage("nothing is acknowledged until this works again").Len(), "said once")
	busy.Store(false)
	c.ack(5)
	assert.Equal(t, []bool{true, true, true, true}, b.became(1))
	assert.Equal(t, 1, b.logs.FilterMessage("all is delivered again").Len())
	assert.Greater(t, p.calls.Load(), int64(4))
	assert.Equal(t, [2]int64{}, b.refused())
}

// received is the last frame that a session's engine took.
func (b *bench) received(session uint64) uint64 { return b.engine(session).Received() }

// TestBackpressureReachesTheEngine: with more than the bound waiting, nothing more is read.
func TestBackpressureReachesTheEngine(t *testing.T) {
	b, p, busy := newBusyBench(t)
	c, _, _ := b.connect(1)
	c.word(1, "chunk 8388609") // one byte over
	c.word(2, "outside")
	require.Eventually(t, func() bool { return p.calls.Load() > 20 }, waitFor, tick, "it is tried again and again")
	assert.EqualValues(t, 1, b.received(1), "frame 2 waits")
	busy.Store(false)
	c.ack(2)
	assert.Equal(t, []bool{true}, b.became(1))
}

func TestShutdownDoesNotWaitForABusyPipeline(t *testing.T) {
	b, p := newLogsBenchWith(t, func(int64) error { return errBusy }, time.Hour)
	c, _, _ := b.connect(1)
	c.word(1, "chunk 8388609")
	require.Eventually(t, func() bool { return p.calls.Load() == 1 }, waitFor, tick)
	require.NoError(t, b.r.Shutdown(t.Context()))
	assert.Empty(t, c.closed())
	assert.Equal(t, [2]int64{}, b.refused(), "the engine keeps what was not acknowledged")
}

// TestLastChunksAreTriedForAWhile: an ended session's chunks are offered 50 times, then they are refused and counted.
func TestLastChunksAreTriedForAWhile(t *testing.T) {
	check := func(name string, succeedsAt int64, want []bool, calls int64, refused [2]int64) {
		t.Run(name, func(t *testing.T) {
			b, p := newLogsBench(t, func(call int64) error {
				if call < succeedsAt {
					return errBusy
				}
				return nil
			})
			c, _, _ := b.connect(1)
			e := b.engine(1)
			// The two chunks are cut as the session ends, so that only the last tries offer them.
			e.EndsWithChunks(2)
			c.bye(1)
			c.ack(1)
			assert.Equal(t, want, e.Became())
			assert.Equal(t, calls, p.calls.Load())
			assert.Equal(t, refused, b.refused())
			assert.Empty(t, b.r.sessions.Live(time.Now()), "the session has ended")
		})
	}
	check("taken at the third try", 3, []bool{true, true}, 2+2, [2]int64{})
	check("taken at the last try", 50, []bool{true, true}, 49+2, [2]int64{})
	check("never taken", 1<<40, []bool{false, false}, 50, [2]int64{6, 4})
}
