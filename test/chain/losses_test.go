//go:build chain

package chain_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
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

// A pipeline that refuses at first and takes what comes then: the counter, and the files that another exporter beside it
// wrote, say how much was refused.
func TestFilesSayWhatWasRefusedBefore(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(server.Close)
	const name = "solo.rank0"
	c := prepare(t, "dump: DIR/dump.jsonl")
	c.withLogs(map[string]string{
		"kernparquet": `{directory: "` + c.archive() + `", http: {endpoint: ` + freeAddress(t) + `}}`, "otlp_http": sendsTo(server.URL),
	})
	c.start()
	ranks, _ := c.play(t, "--speed", "recorded", file(name))
	require.Len(t, ranks, 1)
	r := ranks[0]
	require.Greater(t, requests.Load(), int64(1), "chunks came after the first")
	isSeen, _ := expected(t, name)
	refused := map[string]int{}
	for record, all := range map[string]int{"kernel": isSeen.Kernels, "copy": isSeen.Copies["memset"]} {
		refused[record] = r.n.count(`kern_packed_records_total{delivery="refused",record="` + record + `"}`)
		taken := r.n.count(`kern_packed_records_total{delivery="consumed",record="` + record + `"}`)
		assert.Equal(t, all, refused[record]+taken, "%s", record)
		assert.Positive(t, taken, "%s", record)
	}
	onlyLost(t, r, map[string]int{books.DownstreamRefused: refused["kernel"] + refused["copy"]})
	inFooter(t, c.sources(), r, books.DownstreamRefused, refused["kernel"]+refused["copy"])
}

// An archived is what GET /status says of rows.
type archived struct {
	Counts struct {
		Rows, Lost map[string]int // by table
	}
}

// An open file of the archive and its journal are removed under a running collector: what its closed files lack is counted.
func TestWhatTheArchiveLosesIsCounted(t *testing.T) {
	t.Parallel()
	const name = "solo.rank0"
	c := prepare(t, "dump: DIR/dump.jsonl")
	address := "http://" + c.withArchive("row_group_rows: 8192")
	c.start()
	ranks, _ := c.play(t, file(name))
	require.Len(t, ranks, 1)
	want, _ := expected(t, name)
	status := func() (s archived) {
		answer, err := http.Get(address + "/status")
		require.NoError(t, err)
		defer answer.Body.Close()
		require.NoError(t, json.NewDecoder(answer.Body).Decode(&s))
		return s
	}
	c.eventually("all kernels are in the archive", func() bool { return status().Counts.Rows["k"] == want.Kernels })
	for _, pattern := range []string{"k-*.parquet.open", "*.journal"} { // of the journal alone the rows could be written anew
		paths, err := filepath.Glob(filepath.Join(c.archive(), pattern))
		require.NoError(t, err)
		require.Len(t, paths, 1)
		require.NoError(t, os.Remove(paths[0]))
	}
	answer, err := http.Post(address+"/flush", "", nil)
	require.NoError(t, err)
	answer.Body.Close()
	c.eventually("the loss is noticed", func() bool { return status().Counts.Lost["k"] > 0 })
	s := status().Counts
	assert.Equal(t, want.Copies["memset"], s.Rows["c"])
	counter := all(scrape(t, c.own))
	c.stop()
	rows := c.rows()
	for table, taken := range s.Rows {
		if table == "r" { // this engine tells no requests
			assert.Zero(t, taken)
			continue
		}
		assert.Positive(t, taken, table)
		assert.Equal(t, taken, rows[table]+s.Lost[table], "table %s", table)
		assert.Equal(t, s.Lost[table], int(counter.sum("otelcol_kernparquet_lost_rows", `reason="archive"`, `table="`+table+`"`)), "table %s", table)
	}
}
