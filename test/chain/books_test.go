//go:build chain

package chain_test

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/internal/parquet"
	"github.com/kernhes/kernhes/internal/wire"
)

// withArchive has a collector that is prepared write what it packs as Parquet files, and gives the address at which those
// can be flushed; options are further keys of the exporter.
func (c *collector) withArchive(options ...string) (address string) {
	c.t.Helper()
	address = freeAddress(c.t)
	keys := append([]string{`directory: "` + c.archive() + `"`, "http: {endpoint: " + address + "}"}, options...)
	c.withLogs(map[string]string{"kernparquet": "{" + strings.Join(keys, ", ") + "}"})
	return address
}

// withLogs gives a collector that is prepared a logs pipeline with exporters, by name.
func (c *collector) withLogs(exporters map[string]string) {
	c.t.Helper()
	text, err := os.ReadFile(c.config)
	require.NoError(c.t, err)
	section := "\nexporters:\n"
	names := slices.Sorted(maps.Keys(exporters))
	for _, name := range names {
		section += "  " + name + ": " + exporters[name] + "\n"
	}
	config := strings.Replace(string(text), "\nexporters:\n", section, 1)
	config += "    logs: {receivers: [kernhes], exporters: [" + strings.Join(names, ", ") + "]}\n"
	require.NoError(c.t, os.WriteFile(c.config, []byte(config), 0o600))
}

func (c *collector) archive() string { return filepath.Join(c.dir, "archive") }

// footers ends the collector and gives what the footers of its files say.
func (c *collector) footers(each func(parquet.Table, []parquet.Group)) {
	c.t.Helper()
	c.stop()
	files, err := filepath.Glob(filepath.Join(c.archive(), "*.parquet"))
	require.NoError(c.t, err)
	for _, path := range files {
		b, err := os.ReadFile(path)
		require.NoError(c.t, err)
		footer := b[len(b)-int(parquet.FooterLength(b[len(b)-parquet.TailBytes:])):]
		table, groups, err := parquet.ReadFooter(footer)
		require.NoError(c.t, err)
		each(table, groups)
	}
}

// sources ends the collector and gives the sources of its files of kernels, by run and rank.
func (c *collector) sources() map[string]parquet.Source {
	c.t.Helper()
	of := map[string]parquet.Source{}
	c.footers(func(table parquet.Table, groups []parquet.Group) {
		if table != parquet.Kernels || len(groups) == 0 {
			return
		}
		for _, s := range groups[0].Sources { // a footer has them for the file
			name := fmt.Sprintf("%s/%d", s.Run, s.Rank)
			if have, ok := of[name]; !ok || s.Counts[books.KernelsReceived] >= have.Counts[books.KernelsReceived] {
				of[name] = s
			}
		}
	})
	return of
}

// rows ends the collector and gives how many its files have, by table.
func (c *collector) rows() map[string]int {
	c.t.Helper()
	of := map[string]int{}
	c.footers(func(table parquet.Table, groups []parquet.Group) {
		for _, g := range groups {
			of[string(table)] += int(g.Rows)
		}
	})
	return of
}

// Counter, footer and residue agree with what a fault took, for each way to lose a record.
func TestEachLossIsInCounterAndFooter(t *testing.T) {
	const solo = "solo.rank0"
	took := func(name string) func(*testing.T, *rank, tally) int {
		return func(_ *testing.T, _ *rank, n tally) int { return int(n[name]) }
	}
	// lacking is what did not arrive of the recording, copies too.
	lacking := func(t *testing.T, r *rank, _ tally) int {
		want, _ := expected(t, solo)
		return want.Kernels - r.Kernels + want.Copies["memset"] - r.Copies["memset"]
	}
	c := prepare(t, "dump: DIR/dump.jsonl")
	c.withArchive()
	c.start()
	whole, _ := c.play(t, file(solo))
	require.Len(t, whole, 1)
	// unheard is what did not come of the events that the engine's threads posted.
	unheard := func(_ *testing.T, r *rank, _ tally) int {
		return whole[0].n.count("kern_shim_events_total") - r.n.count("kern_shim_events_total")
	}
	type loss struct {
		rank   *rank
		reason string
		taken  int
	}
	var losses []loss
	for _, test := range []struct {
		reason string
		args   []string
		taken  func(*testing.T, *rank, tally) int
	}{
		{books.CUPTIDropped, []string{"KERNHES_MOCK_FAULT=drop=1000"}, took("dropped")},
		{books.ShimMalformed, []string{"KERNHES_MOCK_FAULT=truncate"}, took("truncated")},
		{books.ZeroTimestamp, []string{"KERNHES_MOCK_FAULT=zero-start=500"}, took("zero")},
		{books.BackwardTimestamp, []string{"KERNHES_MOCK_FAULT=backward=500"}, took("backward")},
		{books.TooLong, []string{"KERNHES_MOCK_FAULT=long=500"}, took("too_long")},
		{books.FutureTimestamp, []string{"KERNHES_MOCK_FAULT=future=500"}, took("future")},
		{books.Duplicate, []string{"KERNHES_MOCK_FAULT=duplicate=500"}, took("duplicated")},
		{books.ShimPool, []string{"KERNHES_POOL_BUFFERS=1", "KERNHES_POOL_BUFFER_KB=64", "--speed", "30", "--cupti", "12080"}, lacking},
		{books.ShimEvents, []string{"KERNHES_EVENTS_KB=64", "--speed", "100"}, unheard},
	} {
		ranks, tallies := c.play(t, append(test.args, file(solo))...)
		require.Len(t, ranks, 1)
		n := ranks[0].n.count(`kern_trace_dropped_records_total{reason="` + test.reason + `"}`)
		assert.Equal(t, test.taken(t, ranks[0], tallies[0]), n, test.reason)
		require.Positive(t, n, "%s: the fault took nothing", test.reason)
		losses = append(losses, loss{ranks[0], test.reason, n})
	}
	sources := c.sources()
	for _, l := range losses {
		inFooter(t, sources, l.rank, l.reason, l.taken)
	}
}

// inFooter fails unless a rank's source in the files says what its counters say: that a loss took so many, and nothing
// else did.
func inFooter(t *testing.T, sources map[string]parquet.Source, r *rank, reason string, taken int) {
	t.Helper()
	s, ok := sources[fmt.Sprintf("%s/%d", r.Run, r.Rank)]
	require.True(t, ok, "%s: %s/%d is in no file", reason, r.Run, r.Rank)
	assert.EqualValues(t, r.Kernels, s.Counts[books.KernelsReceived], "%s: received", reason)
	assert.EqualValues(t, r.InSteps, s.Counts[books.KernelsInSteps], "%s: in steps", reason)
	assert.EqualValues(t, taken, s.Losses[reason], reason)
	for other, n := range s.Losses {
		assert.EqualValues(t, r.n.count(`kern_trace_dropped_records_total{reason="`+other+`"}`), n, "%s: %s", reason, other)
	}
	assert.Len(t, s.Losses, len(books.Received()), reason)
	assert.Len(t, s.Residues, len(books.Identities), reason)
	for identity, n := range s.Residues {
		assert.Zero(t, n, "%s: residue of %s", reason, identity)
	}
}

// thief stands between engines and a collector, and takes the first frame of kernels that has a launch before it.
func (c *collector) thief(taken chan<- int) (endpoint string) {
	c.t.Helper()
	path := filepath.Join(c.dir, "thief.sock")
	listener, err := net.Listen("unix", path)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = listener.Close() })
	go func() {
		engine, err := listener.Accept()
		if err != nil {
			return
		}
		defer engine.Close()
		there, err := net.Dial("unix", c.socket)
		if err != nil {
			return
		}
		defer there.Close()
		go func() { _, _ = io.Copy(engine, there) }()
		reader, stolen := wire.NewReader(engine), false
		for {
			f, err := reader.Next()
			if err != nil {
				return
			}
			if f.Kind == wire.KindKernels && !stolen {
				stolen = true
				taken <- len(f.Body) / 64
				continue
			}
			if _, err := there.Write(wire.AppendFrame(nil, f.Kind, f.Flags, f.Number, f.Body)); err != nil {
				return
			}
		}
	}()
	return "unix://" + path
}

// A frame that vanishes on the way, and of which the shim knows nothing, is found by what the shim has seen.
func TestAFrameThatVanishesIsCounted(t *testing.T) {
	t.Parallel()
	c := prepare(t, "dump: DIR/dump.jsonl")
	c.withArchive()
	c.start()
	taken := make(chan int, 1)
	ranks, _ := c.play(t, "KERNHES_ENDPOINT="+c.thief(taken), "--speed", "4", file("solo.rank0"))
	require.Len(t, ranks, 1)
	r, n := ranks[0], <-taken
	want, _ := expected(t, "solo.rank0")
	assert.Equal(t, want.Kernels-n, r.Kernels)
	assert.Equal(t, n, r.n.count(`kern_trace_dropped_records_total{reason="wire"}`))
	assert.Positive(t, r.UnknownNS)
	inFooter(t, c.sources(), r, books.Wire, n)
}

// What launches still lacked when their engine was killed is counted; nothing waits for it for ever.
func TestAnEngineThatIsKilledIsCounted(t *testing.T) {
	t.Parallel()
	c := prepare(t, "dump: DIR/dump.jsonl", "reconnect_timeout: 1s")
	c.withArchive()
	c.start()
	p := c.begin(t, "--speed", "1", file("solo.rank0"))
	c.eventually("steps are closed", func() bool { return len(c.read(t).steps) > 20 })
	require.NoError(t, p.command.Process.Kill())
	<-p.ended
	c.eventually("its session ends", func() bool { return len(c.read(t).of(p.run).sessions) > 0 })
	ranks := c.ranks(t, p.run)
	require.Len(t, ranks, 1)
	r := ranks[0]
	assert.Equal(t, r.Missing, r.n.count(`kern_trace_dropped_records_total{reason="engine_gone"}`))
	assert.EqualValues(t, r.Missing, r.n.sum("kern_trace_dropped_records_total"))
	inFooter(t, c.sources(), r, books.EngineGone, r.Missing)
}

// sendsTo is the settings of an otlp_http exporter that hands on what the server says.
func sendsTo(url string) string {
	return `{endpoint: "` + url + `", sending_queue: {enabled: false}, retry_on_failure: {enabled: false}}`
}

// What the pipeline refuses for good is counted by its rank.
func TestWhatThePipelineRefusesIsCounted(t *testing.T) {
	t.Parallel()
	var refused atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refused.Add(1)
		w.WriteHeader(http.StatusBadRequest)
	}))
	t.Cleanup(server.Close)
	c := prepare(t, "dump: DIR/dump.jsonl")
	c.withLogs(map[string]string{"otlp_http": sendsTo(server.URL)})
	c.start()
	ranks, _ := c.play(t, file("solo.rank0"))
	require.Len(t, ranks, 1)
	r := ranks[0]
	isSeen, _ := expected(t, "solo.rank0")
	assert.Positive(t, refused.Load())
	n := r.n.count(`kern_trace_dropped_records_total{reason="downstream_refused"}`)
	assert.Equal(t, isSeen.Kernels+isSeen.Copies["memset"]+isSeen.Copies["copy kind 1"], n, "all is refused")
	assert.Equal(t, isSeen.Kernels, r.n.count(`kern_packed_records_total{delivery="refused",record="kernel"}`))
	assert.Zero(t, r.n.sum("kern_packed_records_total", `delivery="consumed"`))
	assert.Zero(t, r.n.sum("kern_packed_records_pending"))
}
