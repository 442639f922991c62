package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/wire"
)

// TestKernelsCostByTheModeInWhichTheyCame has a process change its mode, with a rest in between.
func TestKernelsCostByTheModeInWhichTheyCame(t *testing.T) {
	s := newScript(t, "mode", "software")
	at, c := uint64(0), uint32(0)
	kernels := func(n int) {
		for range n {
			at, c = at+100, c+1
			s.Launch(at, c)
			s.Ran(c, at+10, at+20)
		}
	}
	mode := func(mode string) { s.Frame(wire.KindInfo, wire.AppendPair(nil, "mode", mode)) }
	check := func(ns uint64) {
		t.Helper()
		require.Equal(t, ns, s.report().CUPTINS)
	}
	check(0)
	kernels(3)
	check(3 * 1200)
	mode("off")
	kernels(2) // these were still on their way
	check(5 * 1200)
	mode("hes")
	check(5 * 1200)
	kernels(4)
	check(5*1200 + 4*260)
	mode("software")
	kernels(1)
	s.bye()
	check(6*1200 + 4*260)
}

func TestCostIsZeroAtFirst(t *testing.T) {
	for _, mode := range []string{"off", ""} {
		s := newScript(t, "mode", mode)
		r := s.report()
		require.Zero(t, ShimCost(r.Stats))
		require.Zero(t, r.CUPTINS)
		s.Launch(1, 1)
		s.Ran(1, 10, 20)
		require.Zero(t, s.report().CUPTINS)
	}
}
