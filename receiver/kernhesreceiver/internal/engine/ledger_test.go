package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/model"
)

// A buffer may hold the kernels of launches in reverse: 262,144 of them in one frame, each resting on the frame of its own launch.
// Whatever their order, each is counted once its frame may be acknowledged, and no sooner.
func TestTheLedgerTakesFramesInAnyOrder(t *testing.T) {
	const n = 1 << 18
	var l ledger
	for frame := uint64(n); frame > 0; frame-- {
		l.note(frame, Unattributed{Settled: model.Settled{Outside: 1}})
		l.note(frame, Unattributed{Settled: model.Settled{Late: 2}})
	}
	l.note(7, Unattributed{Settled: model.Settled{Outside: 10}})
	l.note(8, Unattributed{}) // nothing
	require.Len(t, l.entries, n)
	var sum Unattributed
	l.take(6, &sum)
	require.Equal(t, Unattributed{Settled: model.Settled{Outside: 6, Late: 12}}, sum)
	l.take(6, &sum)
	require.Equal(t, Unattributed{Settled: model.Settled{Outside: 6, Late: 12}}, sum)
	l.take(7, &sum)
	require.Equal(t, Unattributed{Settled: model.Settled{Outside: 17, Late: 14}}, sum)
	l.note(3, Unattributed{Copies: 1}) // of a frame that was acknowledged: it is the first to be counted
	l.take(3, &sum)
	require.Equal(t, Unattributed{Settled: model.Settled{Outside: 17, Late: 14}, Copies: 1}, sum)
	l.take(n, &sum)
	require.Equal(t, Unattributed{Settled: model.Settled{Outside: n + 10, Late: 2 * n}, Copies: 1}, sum)
	require.Zero(t, l.bytes())

}

// TestTheLedgerDoesNotSortAnewForEachFrame: in whatever order frames come, the work is n log n.
func TestTheLedgerDoesNotSortAnewForEachFrame(t *testing.T) {
	const n, depth = 1 << 12, 12
	for name, frame := range map[string]func(uint64) uint64{
		"ascending":  func(i uint64) uint64 { return i },
		"descending": func(i uint64) uint64 { return n - i },
		"scattered":  func(i uint64) uint64 { return i * 1021 % n },
	} {
		var l ledger
		for i := range uint64(n) {
			l.note(frame(i), Unattributed{Settled: model.Settled{Outside: 1}})
		}
		var sum Unattributed
		l.take(n, &sum)
		require.EqualValues(t, n, sum.Outside, name)
		// On each level a push compares and swaps once, and a pop compares twice and swaps once.
		require.LessOrEqual(t, l.frames.work, n*(2+3)*(depth+1), name)
	}
}
