package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/internal/chunk"
)

// TestLateKernelsArePacked: their step is closed and their launch given up, so they are in the archive, outside any step, and in
// no sum. One whose times cannot be is not.
func TestLateKernelsArePacked(t *testing.T) {
	s, _ := limitedScript(t, true, func(*Settings) {})
	s.oneStep(0, 1)
	s.Push(1000, "step:decode tokens=1")
	s.Launch(1001, 2)
	s.Launch(1002, 3)
	s.Pop(1003)
	s.oneStep(12*second, 4)
	s.Flushed(13 * second) // what started a timeout after them has come
	require.Equal(t, map[string]uint64{"missing_records": 1}, s.report().Incomplete)
	s.Ran(2, 1010, 1050)
	s.Kernel(3, 0, us(1060), us(1055))
	s.Flushed(14 * second)
	s.bye()
	r := s.report()
	require.EqualValues(t, 2, r.Became.Late)
	require.EqualValues(t, 40_000, r.ComputeNS, "two steps of 20 µs")
	require.EqualValues(t, 2, r.Dropped[books.Late])
	var outside []chunk.Step
	for _, one := range s.p.TakeChunks() {
		c, err := chunk.Unpack(one.Body)
		require.NoError(t, err)
		for _, step := range c.Steps {
			if step.Outside {
				outside = append(outside, step)
			}
		}
	}
	require.Len(t, outside, 1)
	require.Equal(t, []uint64{us(1010)}, outside[0].Starts)
	require.Equal(t, []uint64{40_000}, outside[0].Durs)
}
