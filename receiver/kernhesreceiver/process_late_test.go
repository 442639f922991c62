package kernhesreceiver

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/internal/chunk"
)

// TestLateKernelsArePacked: their step is closed and their launch given up, so they are in the archive, outside any step, and in
// no sum. One whose times cannot be is not.
func TestLateKernelsArePacked(t *testing.T) {
	s, _ := limitedScript(t, true, func(*Config) {})
	s.oneStep(0, 1)
	s.push(1000, "step:decode tokens=1")
	s.launch(1001, 2)
	s.launch(1002, 3)
	s.pop(1003)
	s.oneStep(12*second, 4)
	s.flushed(13 * second) // what started a timeout after them has come
	require.Equal(t, map[string]uint64{"missing_records": 1}, s.report().incomplete)
	s.ran(2, 1010, 1050)
	s.kernel(3, 0, us(1060), us(1055))
	s.flushed(14 * second)
	s.bye()
	r := s.report()
	require.EqualValues(t, 2, r.became.Late)
	require.EqualValues(t, 40_000, r.computeNS, "two steps of 20 µs")
	require.EqualValues(t, 2, r.dropped[books.Late])
	var outside []chunk.Step
	for _, one := range s.p.takeParcels() {
		body, err := chunk.Body(one.logs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0))
		require.NoError(t, err)
		c, err := chunk.Unpack(body)
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
