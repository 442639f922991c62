package kernhesreceiver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/kernhes/kernhes/internal/wire"
)

// TestKernelsCostByTheModeInWhichTheyCame has a process change its mode, with a rest in between.
func TestKernelsCostByTheModeInWhichTheyCame(t *testing.T) {
	s := newScript(t, "mode", "software")
	at, c := uint64(0), uint32(0)
	kernels := func(n int) {
		for range n {
			at, c = at+100, c+1
			s.launch(at, c)
			s.ran(c, at+10, at+20)
		}
	}
	mode := func(mode string) { s.frame(wire.KindInfo, wire.AppendPair(nil, "mode", mode)) }
	check := func(ns uint64) {
		t.Helper()
		require.Equal(t, ns, s.report().cuptiNS)
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
		r.unplaced = false
		m := pmetric.NewMetrics()
		appendRank(m, &r, false, "", "", time.Time{})
		require.Equal(t, map[string][]any{"shim": {0.0}, "cupti": {0.0}}, points(m)["kern_trace_cost_seconds_total"])
		s.launch(1, 1)
		s.ran(1, 10, 20)
		require.Zero(t, s.report().cuptiNS)
	}
}
