package faults

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOf(t *testing.T) {
	check := func(version int, hes bool, want string) {
		t.Helper()
		assert.Equal(t, want, IDs(Of(version, hes)), "%d", version)
	}
	check(0, true, "")
	check(26, false, "no_buffer_crash")
	check(26, true, "no_buffer_crash,hes_heap,hes_leak")
	check(27, false, "")
	check(28, true, "hes_heap,hes_leak")
	check(130000, false, "flush_crash,disable_deadlock,correlation_ids,cpu_growth")
	check(130001, false, "correlation_ids,cpu_growth")
	check(130101, false, "cpu_growth")
	check(130200, true, "slow_calls,hes_heap,hes_leak,cpu_growth")
	check(130300, false, "cpu_growth")
	check(130400, true, "hes_leak,cpu_growth")
	check(130401, true, "")
	check(130500, true, "")
	ids := map[string]bool{}
	for _, f := range known {
		assert.False(t, ids[f.ID], f.ID)
		ids[f.ID] = true
		assert.NotEmpty(t, f.Text)
		assert.Less(t, f.from, f.fixed)
	}
}
