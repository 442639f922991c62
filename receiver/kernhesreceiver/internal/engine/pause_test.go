package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/wire"
)

// TestALargeFrameIsTakenInParts: 262,144 kernels of launches in a step, in reverse, make a frame of 16 MB. Others may read the account
// between its parts, and its counts agree there.
func TestALargeFrameIsTakenInParts(t *testing.T) {
	const kernels = 1 << 18 // MaxBody
	s := newScript(t)
	parts := 0
	s.p.Pause(func() {
		if parts++; parts%32 != 0 {
			return
		}
		for _, r := range s.p.Reports() {
			require.Zero(t, r.Counts["received"]-r.Counts["in_steps"]-r.Counts["outside"]-r.Counts["late"]-r.Counts["invalid"]-r.Counts["duplicate"]-r.Counts["pending"])
		}
		s.p.Standing()
		s.p.Holds()
	})
	s.Push(1, "step:a")
	for i := range uint32(1000) {
		s.Launch(2+uint64(i), i+1)
	}
	body := make([]byte, 0, kernels*64)
	for i := range uint32(kernels) {
		k := make([]byte, 64)
		copy(k, u64(us(uint64(10_000+i)), us(uint64(10_001+i))))
		copy(k[24:], u32(1000-i%1000, 0, 7))
		body = append(body, k...)
	}
	require.Len(t, body, wire.MaxBody)
	s.Frame(wire.KindKernels, body)
	require.Equal(t, kernels/part-1, parts)
	s.Pop(20_000)
	s.Flushed(2_000_000)
	require.EqualValues(t, kernels, s.report().Kernels)
}
