//go:build chain

package chain_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/internal/krec"
)

// onlyLost fails unless some were lost for the reasons that are given, and for no other.
func onlyLost(t *testing.T, r *rank, by map[string]int) {
	t.Helper()
	assert.Equal(t, by, nonZero(r.Dropped), "losses")
	for reason, n := range by {
		require.Positive(t, n, reason)
		assert.Equal(t, n, r.n.count(`kern_trace_dropped_records_total{reason="`+reason+`"}`))
	}
}

const gemm = "nvjet_sm90_tst_128x128_64x5_1x2_h_bz_coopB_NNT"

// decodes adds steps of so many kernels, numbered from first on.
func decodes(b *krec.Builder, first, steps, kernels int) {
	for i := range steps {
		b.Push(fmt.Sprintf("step:decode seq=%d,seqs=8,tokens=8,kv=8192", first+i))
		for range kernels {
			b.Run(gemm, 7, 5_000, 2_000)
		}
		b.Pop()
		b.Wait(10_000)
	}
}

// Kernels that come when their launches were given up are late, each once: in no step, but in the archive.
func TestLateKernelsAreCounted(t *testing.T) {
	t.Parallel()
	const before, after, kernels, withheld = 10, 500, 20, 190 // the tenth step keeps half of its kernels
	b := krec.NewBuilder()
	decodes(b, 0, before, kernels)
	b.Wait(30e9) // step_timeout is 10 s
	decodes(b, before, after, kernels)
	c := prepare(t, "dump: DIR/dump.jsonl")
	c.withArchive()
	c.start()
	ranks, tallies := c.play(t, fmt.Sprint("KERNHES_MOCK_FAULT=withhold=", withheld), "KERNHES_FLUSH_MS=20", write(t, b.Recording()))
	require.Len(t, ranks, 1)
	r := ranks[0]
	require.EqualValues(t, withheld, tallies[0]["withheld"])
	onlyLost(t, r, map[string]int{books.Late: withheld})
	assert.Equal(t, (before+after)*kernels, r.Kernels, "all of them came")
	assert.Equal(t, withheld, r.Late)
	assert.Equal(t, withheld, r.Missing, "what launches lacked when they were given up")
	assert.Equal(t, map[string]int{"missing_records": before}, nonZero(r.StepsIncomplete))
	assert.Equal(t, after, r.StepsComplete)
	assert.Equal(t, r.Kernels, r.n.count(`kern_packed_records_total{delivery="consumed",record="kernel"}`))
	assert.Positive(t, r.UnknownNS)
	inFooter(t, c.sources(), r, books.Late, withheld)
}

// More steps than may be open are given up with their launches; the records of those are late besides.
func TestALimitOfASessionIsCounted(t *testing.T) {
	t.Parallel()
	const steps, atMost = 20_000, 1 << 14
	b := krec.NewBuilder()
	decodes(b, 0, steps, 1)
	c := prepare(t, "dump: DIR/dump.jsonl", "step_timeout: 10m")
	c.withArchive()
	c.start()
	ranks, tallies := c.play(t, fmt.Sprint("KERNHES_MOCK_FAULT=withhold=", math.MaxInt32), write(t, b.Recording()))
	require.Len(t, ranks, 1)
	r := ranks[0]
	require.EqualValues(t, steps, tallies[0]["withheld"])
	taken, cut := r.StepsIncomplete["missing_records"], r.StepsIncomplete["too_large"]
	assert.Greater(t, taken, atMost)
	assert.Less(t, taken, steps, "what comes after that has room")
	assert.LessOrEqual(t, cut, 1, "the one whose range was open and had no launch yet")
	assert.Equal(t, steps, r.Kernels)
	assert.Equal(t, cut, r.Outside, "its launch is in no step")
	assert.Equal(t, steps-taken-cut, r.InSteps)
	assert.Equal(t, steps-taken-cut, r.StepsComplete)
	assert.Equal(t, 1, r.n.count(`kern_limited_total{limit="max_session_bytes"}`))
	onlyLost(t, r, map[string]int{books.SessionLimit: taken, books.Late: taken})
	s := c.sources()
	inFooter(t, s, r, books.SessionLimit, taken)
	inFooter(t, s, r, books.Late, taken)
}

// An overflow of the hardware's own buffer tells of itself nowhere. It shows as records that launches lack.
func TestALossInHardwareShowsAsMissingRecords(t *testing.T) {
	t.Parallel()
	const name = "solo.rank0"
	c := prepare(t, "dump: DIR/dump.jsonl")
	c.withArchive()
	c.start()
	ranks, tallies := c.play(t, "--cupti", "130500", "KERNHES_HES=on", "KERNHES_MOCK_HES=accepted", "KERNHES_MOCK_FAULT=drop-silent=1000", file(name))
	require.Len(t, ranks, 1)
	r, taken := ranks[0], int(tallies[0]["dropped_silent"])
	assert.Equal(t, "hes", r.Mode)
	lostFew(t, name, r, taken)
	onlyLost(t, r, map[string]int{})
	inFooter(t, c.sources(), r, books.HESBuffer, 0)
}
