//go:build chain

package chain_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Two ranks run whose communication a user's table hides; the user mends it while they run. What was not seen is told of
// as long as it is not, and warned of once; a broken table is refused.
func TestATableIsMendedUnderRunningSessions(t *testing.T) {
	c := prepare(t, "class_table: DIR/table.tsv", "collection_interval: 500ms", "dump: DIR/dump.jsonl")
	write := func(table string) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(c.dir, "table.tsv"), []byte(table), 0o600))
	}
	write("compute\tpath\t(?i)nccl\n")
	c.start()
	p := c.begin(t, "--loop", "--rebase", "--speed", "recorded", file("tp2.rank0"), file("tp2.rank1"))

	const silence = "no communication was ever seen"
	silent := func() bool {
		return slices.ContainsFunc(c.status().Problems, func(s string) bool { return strings.Contains(s, p.run) && strings.Contains(s, silence) })
	}
	unseen := func(want float64) bool {
		pages := scrape(t, c.metrics)
		n := 0
		for instance, page := range pages {
			if strings.HasPrefix(instance, p.run+"/") && page.numbers["kern_comm_unseen"] == want {
				n++
			}
		}
		return n == 2
	}
	comm := func() (kernels uint64) {
		for _, s := range c.status().Sessions {
			for _, r := range s.Ranks {
				kernels += r.CommKernels
			}
		}
		return kernels
	}
	c.eventually("silence is told of", func() bool { return silent() && unseen(1) })
	assert.Zero(t, comm())

	write("this is no table\n")
	c.eventually("a broken table is refused", func() bool { return c.logged("class_table is refused", "table.tsv: rule in line 1: ") != "" })
	assert.Zero(t, comm(), "the last good one stays")

	write("comm\tpath\t(?i)nccl\n")
	// A step has some 75 kernels that do.
	c.eventually("steps communicate", func() bool { return comm() > 2000 && !silent() && unseen(0) })
	require.NoError(t, p.command.Process.Signal(syscall.SIGINT))
	p.end(0)
	ranks := c.ranks(t, p.run)
	require.Len(t, ranks, 2)
	for _, r := range ranks {
		assert.Positive(t, r.CommNS)
		assert.Positive(t, r.n.sum("kern_step_comm_seconds_total"))
		assert.Positive(t, r.n[`kern_classified_seconds_total{by="rule"}`])
		all := r.n.sum("kern_classified_seconds_total")
		assert.Greater(t, all, r.n["kern_in_step_seconds_total"], "some kernels are outside any step")
		assert.Greater(t, r.n["kern_in_step_seconds_total"], r.n["kern_labelled_seconds_total"])
		assert.Positive(t, r.n["kern_labelled_seconds_total"])
	}
	assert.Equal(t, 1, strings.Count(c.log(), "several ranks run, and no kernel counts as communication"), "it is warned of once")
	assert.Equal(t, 1, strings.Count(c.log(), "class_table is refused"))
}
