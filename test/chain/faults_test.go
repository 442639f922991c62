//go:build chain

package chain_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/books"
)

// incomplete is how many steps were, for whatever reason.
func incomplete(r *rank) (n int) {
	for _, k := range r.StepsIncomplete {
		n += k
	}
	return n
}

// lostFew fails unless what a fault took of a recording shows: as missing records, and as steps that are incomplete and
// in no other metric (sumsSteps has looked at that), and as time that is unknown.
func lostFew(t *testing.T, name string, r *rank, taken int) {
	t.Helper()
	want, _ := expected(t, name)
	require.Positive(t, taken, "the fault took nothing")
	assert.Equal(t, want.Kernels-taken, r.Kernels, "kernels received")
	assert.Equal(t, taken, r.Missing, "missing records")
	assert.Positive(t, r.UnknownNS, "unknown time")
	assert.Positive(t, r.StepsIncomplete["missing_records"], "incomplete steps")
	assert.Equal(t, want.StepsComplete, r.StepsComplete+incomplete(r), "steps")
	assert.Equal(t, want.StepRanges, r.StepRanges, "step ranges")
	assert.Positive(t, r.StepsComplete, "complete steps")
	completeAsRecorded(t, name, r)
}

// completeAsRecorded fails unless each complete step is as it was. It returns how many there are.
func completeAsRecorded(t *testing.T, name string, r *rank) (n int) {
	t.Helper()
	rows := map[string]stepLine{}
	for _, s := range rowsOf(asRecorded()[name].Devices[0]) {
		rows[s.Text] = s
	}
	for _, s := range linesOf(r.steps) {
		if s.Complete {
			n++
			s.ForeignComputeNS = rows[s.Text].ForeignComputeNS // depends on others' kernels
			assert.Equal(t, rows[s.Text], s)
		}
	}
	return n
}

// What a fault takes is what the counters say.
func TestFaultsAreCounted(t *testing.T) {
	const solo = "solo.rank0"
	dropped := func(r *rank, reason string) int {
		return r.n.count(`kern_trace_dropped_records_total{reason="` + reason + `"}`)
	}
	readable := func(r *rank) int { return r.n.count("kern_trace_drop_count_readable") }
	// invalid fails unless some kernels are in no sum, by reason, and their steps are incomplete for that.
	invalid := func(t *testing.T, r *rank, reason string, taken int) {
		t.Helper()
		want, _ := expected(t, solo)
		require.Positive(t, taken)
		assert.Equal(t, taken, r.Invalid)
		assert.Equal(t, taken, r.n.count(`kern_kernels_invalid_total{reason="`+reason+`"}`))
		assert.Equal(t, taken, dropped(r, reason))
		assert.Equal(t, want.Kernels, r.Kernels)
		assert.Less(t, r.ComputeNS, want.Compute)
		assert.Equal(t, map[string]int{"invalid_records": want.StepsComplete - r.StepsComplete}, nonZero(r.StepsIncomplete))
		assert.Positive(t, r.StepsIncomplete["invalid_records"])
		assert.LessOrEqual(t, r.StepsIncomplete["invalid_records"], taken)
		assert.Zero(t, r.Missing)
	}
	for _, test := range []struct {
		fault string
		check func(t *testing.T, r *rank, took tally)
	}{
		{"drop=1000", func(t *testing.T, r *rank, took tally) {
			lostFew(t, solo, r, int(took["dropped"]))
			assert.Equal(t, int(took["dropped"]), dropped(r, "cupti_dropped"))
			assert.Equal(t, 1, readable(r))
		}},
		{"drop=1000,unreadable", func(t *testing.T, r *rank, took tally) {
			lostFew(t, solo, r, int(took["dropped"]))
			assert.Zero(t, dropped(r, "cupti_dropped"))
			assert.Zero(t, readable(r))
		}},
		{"drop-silent=1000", func(t *testing.T, r *rank, took tally) {
			lostFew(t, solo, r, int(took["dropped_silent"]))
			assert.Zero(t, r.n.sum("kern_trace_dropped_records_total"))
			assert.Equal(t, 1, readable(r))
		}},
		// CUPTI that loses all kernels after so many, and says nothing. Of a replay none came: what it lacks is a launch's records.
		{"warm-up=100000", func(t *testing.T, r *rank, took tally) {
			want, _ := expected(t, solo)
			require.Positive(t, took["dropped_silent"])
			assert.Equal(t, want.Kernels-int(took["dropped_silent"]), r.Kernels)
			assert.Positive(t, r.Missing)
			assert.Positive(t, r.UnknownNS)
			assert.Equal(t, map[string]int{"missing_records": want.StepsComplete - r.StepsComplete}, nonZero(r.StepsIncomplete))
			assert.Equal(t, r.StepsComplete, completeAsRecorded(t, solo, r))
			assert.Zero(t, r.n.sum("kern_trace_dropped_records_total"))
			assert.Equal(t, 1, readable(r))
		}},
		{"unreadable", func(t *testing.T, r *rank, _ tally) {
			assert.Zero(t, readable(r))
			r.n["kern_trace_drop_count_readable"] = 1 // the rest is as expected
			isExpected(t, solo, r)
		}},
		{"missing=cuptiActivityGetNumDroppedRecords", func(t *testing.T, r *rank, _ tally) {
			assert.Zero(t, readable(r))
			r.n["kern_trace_drop_count_readable"] = 1
			isExpected(t, solo, r)
		}},
		{"flush-fail=2", func(t *testing.T, r *rank, _ tally) { isExpected(t, solo, r) }},
		{"missing=cuptiGetTimestamp", func(t *testing.T, r *rank, _ tally) { isExpected(t, solo, r) }},
		{"zero-start=500", func(t *testing.T, r *rank, took tally) { invalid(t, r, "zero_timestamp", int(took["zero"])) }},
		{"zero-end=500", func(t *testing.T, r *rank, took tally) { invalid(t, r, "zero_timestamp", int(took["zero"])) }},
		{"backward=500", func(t *testing.T, r *rank, took tally) { invalid(t, r, "backward_timestamp", int(took["backward"])) }},
		{"long=500", func(t *testing.T, r *rank, took tally) { invalid(t, r, "too_long", int(took["too_long"])) }},
		{"future=500", func(t *testing.T, r *rank, took tally) { invalid(t, r, "future_timestamp", int(took["future"])) }},
		{"duplicate=500", func(t *testing.T, r *rank, took tally) {
			require.Positive(t, took["duplicated"])
			assert.EqualValues(t, took["duplicated"], r.Duplicate)
			assert.EqualValues(t, took["duplicated"], dropped(r, "duplicate"))
			r.n[`kern_trace_dropped_records_total{reason="duplicate"}`] = 0
			r.Kernels -= r.Duplicate // the rest is as expected
			r.n["kern_shim_kernels_total"] -= float64(r.Duplicate)
			isExpected(t, solo, r)
		}},
		{"unknown-kind=100", func(t *testing.T, r *rank, took tally) {
			require.Positive(t, took["unknown"])
			isExpected(t, solo, r)
		}},
		{"truncate", func(t *testing.T, r *rank, took tally) {
			want, _ := expected(t, solo)
			require.Positive(t, took["truncated"])
			assert.EqualValues(t, took["truncated"], dropped(r, "shim_malformed"))
			assert.EqualValues(t, took["truncated"], want.Kernels-r.Kernels+want.Copies["memset"]-r.Copies["memset"])
			assert.Equal(t, want.Kernels-r.Kernels, r.Missing)
			assert.Positive(t, r.UnknownNS)
			assert.Equal(t, want.StepsComplete, r.StepsComplete+incomplete(r))
		}},
		{"busy", func(t *testing.T, r *rank, took tally) {
			assert.Equal(t, "off", r.Mode)
			assert.Zero(t, r.Kernels)
			assert.Positive(t, took["untraced"])
		}},
		{"missing=cuptiSubscribe", func(t *testing.T, r *rank, _ tally) { assert.Equal(t, "off", r.Mode); assert.Zero(t, r.Kernels) }},
		{"missing=cuptiActivityEnable", func(t *testing.T, r *rank, _ tally) { assert.Equal(t, "off", r.Mode); assert.Zero(t, r.Kernels) }},
	} {
		t.Run(test.fault, func(t *testing.T) {
			t.Parallel()
			c := newCollector(t)
			ranks, tallies := c.play(t, "KERNHES_MOCK_FAULT="+test.fault, file(solo))
			require.Len(t, ranks, 1)
			assert.EqualValues(t, tallies[0]["delivered_kernels"]-kernelsCut(ranks[0], tallies[0]), ranks[0].Kernels)
			test.check(t, ranks[0], tallies[0])
			if ranks[0].Mode == "off" {
				assert.NotEmpty(t, c.logged(`"mode": "off"`, `"mode_reason": "`), "why tracing is off")
			}
		})
	}
}

// kernelsCut is how many kernels, not copies, buffers that were cut short held last.
func kernelsCut(r *rank, took tally) uint64 {
	return took["truncated"] - (took["delivered_copies"] - uint64(r.Copies["memset"]))
}

// An engine that outruns the pool: CUPTI drops what it has no buffer for, and before 12.9, where it must be given one, the
// shim throws away what it writes there.
func TestTooFewBuffers(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	for _, test := range []struct{ version, reason string }{
		{"12080", "shim_pool"},
		{"12090", "cupti_dropped"},
		{"130001", "cupti_dropped"},
		{"130500", "cupti_dropped"},
	} {
		t.Run(test.version, func(t *testing.T) {
			ranks, tallies := c.play(t, "KERNHES_POOL_BUFFERS=1", "KERNHES_POOL_BUFFER_KB=64", "--speed", "30", "--cupti", test.version, file("solo.rank0"))
			require.Len(t, ranks, 1)
			r, want := ranks[0], asRecorded()["solo.rank0"].Devices[0]
			taken := want.Kernels - r.Kernels + want.Copies["memset"] - r.Copies["memset"]
			assert.Positive(t, taken, "the pool was large enough")
			delivered := tallies[0]["delivered_kernels"] + tallies[0]["delivered_copies"]
			assert.EqualValues(t, want.Kernels+want.Copies["memset"], tallies[0]["no_buffer"]+delivered)
			if test.reason == "cupti_dropped" {
				assert.EqualValues(t, tallies[0]["no_buffer"], taken)
			} else {
				assert.Zero(t, tallies[0]["no_buffer"])
			}
			assert.Equal(t, taken, r.n.count(`kern_trace_dropped_records_total{reason="`+test.reason+`"}`))
			assert.EqualValues(t, taken, r.n.sum("kern_trace_dropped_records_total"))
			assert.Positive(t, r.UnknownNS)
			assert.Equal(t, want.StepsComplete, r.StepsComplete+incomplete(r), "each step is counted once")
			assert.Positive(t, r.StepsIncomplete["missing_records"])
		})
	}
}

// An engine that outruns the ring of events: those that find no room are lost, each counted, and every kernel is still there.
func TestTooFewEvents(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	const name = "solo.rank0"
	whole, _ := c.play(t, file(name))
	require.Len(t, whole, 1)
	isExpected(t, name, whole[0])
	events := whole[0].n.count("kern_shim_events_total")
	for _, part := range []series{"kern_shim_callback_seconds_total", "kern_shim_range_seconds_total", "kern_shim_buffer_seconds_total"} {
		assert.Positive(t, whole[0].n[part], "%s: the shim takes some time of the engine's", part)
		t.Logf("%s: %v of %v callbacks, %v NVTX calls", part, whole[0].n[part], whole[0].n["kern_shim_callbacks_total"], whole[0].n["kern_shim_range_calls_total"])
	}
	ranks, tallies := c.play(t, "KERNHES_EVENTS_KB=64", "--speed", "100", file(name))
	require.Len(t, ranks, 1)
	r, want := ranks[0], asRecorded()[name].Devices[0]
	lost := r.n.count(`kern_trace_dropped_records_total{reason="shim_events"}`)
	assert.Positive(t, lost, "the ring was large enough")
	assert.Equal(t, events, r.n.count("kern_shim_events_total")+lost, "what was posted came or was counted")
	assert.EqualValues(t, lost, r.n.sum("kern_trace_dropped_records_total"))
	assert.EqualValues(t, want.Kernels, tallies[0]["delivered_kernels"])
	assert.Equal(t, want.Kernels, r.Kernels, "kernels received")
	assert.Equal(t, copiesOf(t, want), r.Copies, "copies received")
	assert.Less(t, r.Launches, want.Launches)
	assert.Positive(t, r.UnknownNS)
	// A step that was told of at all may have other kernels than it had; it is counted once, and none is made up.
	assert.LessOrEqual(t, r.StepsComplete+incomplete(r), want.StepsComplete)
}

// The collector is away for longer than the engine can buffer: the oldest goes, counted, and the rest comes.
func TestBufferBound(t *testing.T) {
	t.Parallel()
	c := prepare(t, "dump: DIR/dump.jsonl")
	c.withArchive() // it runs only later
	const name = "solo.rank0"
	// Of some 8 MiB the last 5 are kept. They are flushed so often that there are launches as well as their records in them.
	p := c.begin(t, "KERNHES_BUFFER_MB=5", "KERNHES_FLUSH_MS=20", "--speed", "2", file(name))
	p.waitFor(4500) // the play takes 3.4 s
	c.start()
	p.end(0)
	ranks := c.ranks(t, p.run)
	require.Len(t, ranks, 1)
	r, want := ranks[0], asRecorded()[name].Devices[0]
	kernels, copies := want.Kernels-r.Kernels, want.Copies["memset"]-r.Copies["memset"]
	require.Positive(t, kernels)
	require.Positive(t, r.Kernels, "the newest are kept")
	assert.Equal(t, want.Kernels, r.n.count("kern_shim_kernels_total"), "kernels that the shim saw")
	dropped := r.n.count(`kern_trace_dropped_records_total{reason="shim_buffer"}`)
	events := dropped - kernels - copies
	assert.GreaterOrEqual(t, events, 0, "what is dropped is kernels, copies and events")
	assert.Less(t, events, r.n.count("kern_shim_events_total"))
	assert.EqualValues(t, dropped, r.n.sum("kern_trace_dropped_records_total"))
	assert.Positive(t, r.UnknownNS)
	// What was heard whole is as it was, with its labels: names and nodes outlive the frames that brought them.
	assert.Positive(t, completeAsRecorded(t, name, r), "steps that came whole")
	inFooter(t, c.sources(), r, books.ShimBuffer, dropped)
}
