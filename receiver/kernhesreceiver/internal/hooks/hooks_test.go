package hooks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/wire"
)

// TestOnlyTheLastStepsAreRemembered: marks come 64 steps later at most.
func TestOnlyTheLastStepsAreRemembered(t *testing.T) {
	var h Hooks[string]
	h.Pushed(1, 1, "no hook was heard yet")
	require.Empty(t, h.steps)
	h.Domain(3, wire.HookDomain)
	for seq := range uint64(10 * maxSteps) {
		h.Pushed(seq, 100+seq, "decode")
	}
	require.LessOrEqual(t, len(h.steps), maxSteps)
	require.LessOrEqual(t, len(h.order), maxSteps)
	last := uint64(10*maxSteps - 1)
	require.Equal(t, 100+last-64, h.of(last-64).ID)
	require.Nil(t, h.of(0))
	h.Pushed(last, 7, "the seq again")
	require.EqualValues(t, 7, h.of(last).ID, "the later one")
	require.False(t, h.Awaits(last, 7, 10, 11), "no device time was ever told")
	h.speak = true
	require.True(t, h.Awaits(last, 7, 10, 11))
	require.False(t, h.Awaits(last, 7, 10, 10+waitForMark))
	require.False(t, h.Awaits(last, 7, 0, 11), "its end was not seen")
	require.False(t, h.Awaits(last, 8, 10, 11), "another step had that seq")
}

// TestNumbersOfRequestsAreBounded: they are told again about every 256 steps.
func TestNumbersOfRequestsAreBounded(t *testing.T) {
	var h Hooks[string]
	for n := range uint32(3 * maxNumbers) {
		h.number(&wire.Request{Number: n, ID: []byte{0xff}})
	}
	require.LessOrEqual(t, len(h.numbers), maxNumbers)
	require.Equal(t, request{id: "?"}, h.numbers[3*maxNumbers-1])
}
