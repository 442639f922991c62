//go:build chain

package chain_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The collector reloads its configuration three times while CUPTI loses records: each scrape says at least what the one before
// said, and the last one all that were lost.
func TestLossesSurviveAReload(t *testing.T) {
	t.Parallel()
	c := prepare(t, "collection_interval: 100ms", "step_timeout: 300ms") // steps that lack records close soon
	c.start()
	p := c.begin(t, "--speed", "0.5", "KERNHES_MOCK_FAULT=drop=500", file("solo.rank0"))
	const name = `kern_trace_dropped_records_total{reason="cupti_dropped"}`
	lost, kernels := 0.0, 0.0
	// look returns whether the engine's series are there. What was lost is never less than before.
	look := func() bool {
		for _, r := range scrape(t, c.metrics) {
			if r.run != p.run || r.numbers["kern_kernels_received_total"] == 0 {
				continue
			}
			require.GreaterOrEqual(t, r.numbers[name], lost, "lost")
			lost, kernels = r.numbers[name], r.numbers["kern_kernels_received_total"]
			return true
		}
		return false
	}
	for range 3 {
		had := lost
		c.eventually("more is lost", func() bool { return look() && lost > had })
		lives := c.lives()
		require.NoError(t, c.command.Process.Signal(syscall.SIGHUP))
		c.eventually("the collector is ready again", func() bool { return c.lives() > lives })
		c.eventually("the engine is back", look)
	}
	tallies := p.end(0)
	c.eventually("all is counted", func() bool { return look() && lost >= float64(tallies[0]["dropped"]) })
	assert.EqualValues(t, tallies[0]["dropped"], lost)
	assert.Less(t, int(kernels), asRecorded()["solo.rank0"].Devices[0].Kernels, "other totals begin anew")
}
