package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/internal/wire"
)

// TestTimesThatCannotBe gives one record of a step of three kernels, in the second place, a time that cannot be. The step
// then lacks it, and its times are those of the two others.
func TestTimesThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		start, end uint64
		reason     string
	}{
		"starts 5 s before its launch":                 {us(1001), us(1011), books.BeforeLaunch},
		"starts 0.2 ms before its launch":              {us(5*second + 801), us(5*second + 1030), books.BeforeLaunch},
		"an hour ago":                                  {us(5*second+1020) - 3599e9, us(5*second+1030) - 3599e9, books.BeforeLaunch},
		"ends 30 s after the flush":                    {us(5*second + 1020), us(36 * second), books.FutureTimestamp},
		"ends 0.2 s after the flush":                   {us(5*second + 1020), us(6*second + 200_000), books.FutureTimestamp},
		"minutes after the flush":                      {us(500 * second), us(500*second + 10), books.FutureTimestamp},
		"longer than an hour":                          {us(5*second + 1020), us(5*second+1020) + 3601e9, books.TooLong},
		"ends before it starts":                        {us(5*second + 1030), us(5*second + 1020), books.BackwardTimestamp},
		"no start":                                     {0, us(5*second + 1020), books.ZeroTimestamp},
		"starts 0.05 ms before its launch: is right":   {us(5*second + 951), us(5*second + 1030), ""},
		"ends 0.1 s after the flush: the clock is set": {us(5*second + 1020), us(6*second + 100_000), ""},
	} {
		for how, place := range map[string]int{"eager": 1, "graph": 1, "first of its batch": 0} {
			t.Run(name+"/"+how, func(t *testing.T) {
				s := newScript(t)
				for node := range uint64(3) {
					s.Node(0, 6<<32|node)
				}
				s.oneStep(4*second, 9)
				at := uint64(5 * second)
				s.Push(at+1000, "step:decode tokens=1")
				var batch []byte
				for i := range 3 {
					start, end := us(at+1010+20*uint64(i)), us(at+1020+20*uint64(i))
					if i == place {
						start, end = c.start, c.end
					}
					b := make([]byte, 64)
					if how == "eager" {
						s.Launch(at+1001, uint32(1+i))
						copy(b, u64(start, end))
						copy(b[24:], u32(uint32(1+i), 0, 7))
					} else {
						copy(b, u64(start, end, 6<<32|uint64(i)))
						copy(b[24:], u32(1, 0, 7))
					}
					batch = append(batch, b...)
				}
				if how != "eager" {
					s.GraphLaunch(at+1001, 1)
				}
				s.Pop(at + 1002)
				s.Frame(wire.KindKernels, batch)
				s.Flushed(6 * second)
				s.oneStep(7*second, 5)
				s.Flushed(8 * second)
				s.bye()
				r := s.report()
				require.Zero(t, r.Launches.Unfulfilled, "each launch has its record")
				if c.reason == "" {
					require.EqualValues(t, 3, r.Complete)
					require.Zero(t, r.Became.Invalid)
					return
				}
				require.EqualValues(t, 2, r.Complete)
				require.EqualValues(t, 1, r.Became.Invalid)
				require.EqualValues(t, 4, r.Became.InSteps)
				require.Equal(t, map[string]uint64{"invalid_records": 1}, r.Incomplete)
				require.Equal(t, map[string]uint64{c.reason: 1}, r.Invalid)
				require.EqualValues(t, 20_000+20_000+20_000, r.ComputeNS, "two other steps, and two kernels of 10 µs")
				require.EqualValues(t, 20_000, s.lines[1].ComputeNS)
				require.EqualValues(t, []uint64{30_000, 50_000}[place], s.lines[1].WallNS)
			})
		}
	}
}

// TestTimesOfCopiesThatCannotBe does so with a copy: of a graph, and by itself, where only what was launched before tells.
func TestTimesOfCopiesThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		start, end uint64
		reason     string
	}{
		"5 s before":                {us(10 * second), us(10*second + 50), books.BeforeLaunch},
		"begins 5 minutes before":   {us(15*second) - 300e9, us(15*second + 50), books.BeforeLaunch},
		"ends 30 s after the flush": {us(15*second + 10), us(46 * second), books.FutureTimestamp},
		"is right":                  {us(15*second + 10), us(15*second + 50), ""},
	} {
		for _, node := range []uint64{0, 6<<32 | 1} {
			t.Run(name, func(t *testing.T) {
				s := newScript(t)
				s.Node(0, 6<<32)
				s.Event(wire.EventNodeCreated, 1, 0, append(u64(6<<32|1), u32(0, 0)...), "")
				s.oneStep(1000, 1)
				s.GraphLaunch(15*second, 2)
				s.RanNode(2, 6<<32, 15*second+10, 15*second+20)
				b := make([]byte, 64)
				copy(b, u64(c.start, c.end, node))
				copy(b[32:], u32(3-min(1, uint32(node>>32)), 7))
				b[42] = wire.CopyMemset
				s.Frame(wire.KindCopies, b)
				s.oneStep(15*second+1000, 5)
				s.Flushed(16 * second)
				s.bye()
				r := s.report()
				if c.reason == "" {
					require.EqualValues(t, 30_000, r.CopyNS, "from 20 to 50 µs there is no kernel")
					return
				}
				require.EqualValues(t, 1, r.Dropped[c.reason])
				require.Zero(t, r.CopyNS)
				require.Zero(t, r.Launches.Unfulfilled)
			})
		}
	}
}

// TestAKernelWhoseLaunchIsNotKnownIsHeldAgainstTheLaunchesBeforeIt: correlation ids ascend.
func TestAKernelWhoseLaunchIsNotKnownIsHeldAgainstTheLaunchesBeforeIt(t *testing.T) {
	s := newScript(t)
	s.oneStep(20*second, 7)
	s.Ran(8, 10*second, 10*second+10) // its launch was not heard: but an earlier call was made ten seconds later
	s.Ran(9, 20*second+40, 20*second+50)
	s.Ran(6, 10*second, 10*second+10) // this one is of before: nothing speaks against it
	s.Flushed(21 * second)
	s.bye()
	r := s.report()
	require.Equal(t, uint64(1), r.Dropped[books.BeforeLaunch])
	require.EqualValues(t, 1, r.Became.Invalid)
	require.EqualValues(t, 2, r.Became.Outside)
}

// TestRecordsThatEndAfterTheClockWaitForAFlush: they are not lost, not acknowledged, and in no sum before.
func TestRecordsThatEndAfterTheClockWaitForAFlush(t *testing.T) {
	s := newScript(t)
	s.Push(0, "step:decode tokens=1")
	s.Launch(1, 1)
	s.Pop(2)
	s.Ran(1, 10, 3*second)
	s.CopyOn(7, 2, 3*second, 3*second+10)
	frame, by := s.p.Holds()
	require.EqualValues(t, 0, frame)
	require.Equal(t, "an open step", by)
	require.Zero(t, s.report().Kernels)
	s.Flushed(4 * second)
	r := s.report()
	require.EqualValues(t, 1, r.Complete)
	require.EqualValues(t, 1, r.Kernels)
	require.Len(t, r.Copies, 1)

	s.Ran(3, 8*second, 9*second) // of a launch that was not heard
	frame, by = s.p.Holds()
	require.EqualValues(t, s.Number-1, frame)
	require.Equal(t, "records that end after the last flush", by)
	s.end(true) // no flush says that it cannot be
	require.EqualValues(t, 1, s.report().Became.Outside)
	require.Zero(t, s.report().Became.Invalid)
}
