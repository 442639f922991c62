package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/wire"
)

// Frames are held from the first on that something rests on, until all that rests there is released, in whatever order.
func TestHoldsAreReleasedInAnyOrder(t *testing.T) {
	var o openHolds
	first := func() uint64 {
		frame, ok := o.first()
		require.Equal(t, ok, frame != 0)
		return frame
	}
	require.Zero(t, first())
	became := []bool{}
	note := func(taken bool) { became = append(became, taken) }
	seven, three, again, nine := o.add(7, nil), o.add(3, note), o.add(3, note), o.add(9, nil)
	require.EqualValues(t, 3, first())
	seven.Release(true)
	three.Release(true)
	require.EqualValues(t, 3, first())
	again.Release(false)
	require.EqualValues(t, 9, first())
	nine.Release(true)
	require.Zero(t, first())
	require.Equal(t, []bool{true, false}, became)
}

// What is final is held from then on, whether or not it is taken.
func TestWhatNobodyTakesIsNotAcknowledged(t *testing.T) {
	for name, archive := range map[string]bool{"a chunk": true, "a line": false} {
		t.Run(name, func(t *testing.T) {
			s, _ := limitedScript(t, archive, func(set *Settings) { set.Lines = true })
			s.Out = func(f wire.Frame) { require.NoError(t, s.p.Frame(f)) }
			s.oneStep(0, 1)
			s.Flushed(5000)
			s.p.Cut()
			require.Less(t, s.p.Acknowledgeable(), s.Number)
			_, by := s.p.Holds()
			require.Equal(t, "the logs pipeline or the dump", by)
			steps, chunks := s.p.TakeSteps(), s.p.TakeChunks()
			require.Less(t, s.p.Acknowledgeable(), s.Number)
			for _, one := range steps {
				one.Release(true)
			}
			for _, one := range chunks {
				one.Release(true)
			}
			require.Equal(t, s.Number, s.p.Acknowledgeable())
		})
	}
}
