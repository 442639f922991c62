package kernhesreceiver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/kernhes/kernhes/exporter/kernparquetexporter"
	"github.com/kernhes/kernhes/internal/sim"
	"github.com/kernhes/kernhes/internal/sim/truth"
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/jsonl"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metrics/metricstest"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/shimscript"
)

// A hostileRow is what was measured while a good engine ran beside a hostile kind.
type hostileRow struct {
	kind              string
	exact             bool
	median, late      time.Duration // of acknowledgements: half, and 99 of 100, take no longer
	status            time.Duration // longest GET /status
	memory, memoryEnd int64         // resident bytes: at most, and when the hostile has gone
	cpu               float64       // cores
	series, scrape    int           // at most: of a Prometheus endpoint, and its bytes
	log               int           // bytes a minute
}

func (r *hostileRow) String() string {
	return fmt.Sprintf("%-22s %-6v %8.1f %8.1f %8.0f %8d %8d %6.2f %8d %8.1f %8d", r.kind, r.exact, ms(r.median), ms(r.late), ms(r.status),
		r.memory>>20, r.memoryEnd>>20, r.cpu, r.series, float64(r.scrape)/1e6, r.log>>10)
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

const hostileHead = "kind                   exact   ack p50  ack p99   status   memory    after    cpu   series   scrape  log\n" +
	"                               ms       ms       ms      MiB      MiB  cores               MB   KiB/min"

// TestHostile has a good engine run beside each hostile kind. KERNHES_HOSTILE_TIME is how long, a kind (make hostile: a minute);
// KERNHES_HOSTILE_SESSIONS how many sessions it has.
func TestHostile(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures")
	}
	long, err := time.ParseDuration(os.Getenv("KERNHES_HOSTILE_TIME"))
	if err != nil {
		long = 100 * time.Millisecond
	}
	sessions, err := strconv.Atoi(os.Getenv("KERNHES_HOSTILE_SESSIONS"))
	if err != nil {
		sessions = 2
	}
	only := os.Getenv("KERNHES_HOSTILE")
	var rows []hostileRow
	for _, kind := range append([]string{"none"}, slices.Sorted(maps.Keys(hostileKinds))...) {
		if only != "" && kind != only && kind != "none" {
			continue
		}
		t.Run(kind, func(t *testing.T) { rows = append(rows, besideHostile(t, kind, sessions, long)) })
	}
	fmt.Println(hostileHead)
	for _, r := range rows {
		fmt.Println(r.String())
	}
}

func besideHostile(t *testing.T, kind string, sessions int, long time.Duration) hostileRow {
	row := hostileRow{kind: kind}
	dump := filepath.Join(t.TempDir(), "dump.jsonl")
	b := newBenchOn(t, componenttest.NewNopHost(), nil, func(c *Config) { c.Dump = dump }, func(r *kernhesReceiver) {
		factory := kernparquetexporter.NewFactory()
		cfg := factory.CreateDefaultConfig().(*kernparquetexporter.Config)
		cfg.Directory = t.TempDir()
		cfg.HTTP = configoptional.None[confighttp.ServerConfig]()
		archive, err := factory.CreateLogs(t.Context(), exportertest.NewNopSettings(factory.Type()), cfg)
		require.NoError(t, err)
		require.NoError(t, archive.Start(t.Context(), componenttest.NewNopHost()))
		t.Cleanup(func() { require.NoError(t, archive.Shutdown(context.Background())) })
		r.logs = archive
	})
	debug.FreeOSMemory() // what other tests had
	began, before := time.Now(), cpuTime()
	if kind != "none" {
		stop := startHostile(t, kind, b, sessions)
		defer stop()
	}
	watching, done := context.WithTimeout(t.Context(), long)
	defer done()
	var watch sync.WaitGroup
	watch.Go(func() { b.look(watching, &row) })
	watch.Go(func() { b.probe(watching, &row) })
	row.exact = b.good(t, long, dump)
	watch.Wait()
	row.cpu = float64(cpuTime()-before) / float64(time.Since(began))
	for _, e := range b.logs.All() {
		text, _ := json.Marshal(e.ContextMap())
		row.log += len(e.Message) + len(text) + 60
	}
	row.log = int(float64(row.log) * float64(time.Minute) / float64(max(time.Since(began), time.Minute)))
	assert.True(t, row.exact, "the good engine's figures")
	assert.Less(t, row.status, 5*time.Second)
	return row
}

// startHostile starts a process that is hostile until stop.
func startHostile(t *testing.T, kind string, b *bench, sessions int) (stop func()) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), "KERNHES_HOSTILE_KIND="+kind, "KERNHES_HOSTILE_SOCKET="+b.cfg.Endpoint, "KERNHES_HOSTILE_CONTROL="+b.r.control.Addr().String(),
		"KERNHES_HOSTILE_SESSIONS="+strconv.Itoa(sessions), "GOMAXPROCS=2")
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
}

// look reads how the collector stands, again and again.
func (b *bench) look(ctx context.Context, row *hostileRow) {
	for {
		at := time.Now()
		r, _ := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodGet, "http://"+b.r.control.Addr().String()+"/status", nil)
		if answer, err := http.DefaultClient.Do(r); err == nil {
			_ = answer.Body.Close()
		}
		row.status = max(row.status, time.Since(at))
		b.sink.Reset()
		b.r.export(context.WithoutCancel(ctx))
		for _, m := range b.sink.AllMetrics() {
			series, bytes := scrapeOf(m)
			row.series, row.scrape = max(row.series, series), max(row.scrape, bytes)
		}
		row.memory = max(row.memory, resident())
		select {
		case <-ctx.Done():
			debug.FreeOSMemory()
			row.memoryEnd = resident()
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// probe is a session that sends a heartbeat, and waits until it is acknowledged, again and again.
func (b *bench) probe(ctx context.Context, row *hostileRow) {
	c, _, _ := b.connect(1<<60, "run", "probe")
	_ = c.SetDeadline(time.Now().Add(time.Hour))
	var took []time.Duration
	s := &shimscript.Script{Out: func(f wire.Frame) { c.write(wire.AppendFrame(nil, f.Kind, f.Flags, f.Number, f.Body)) }}
	for at := uint64(1); ctx.Err() == nil; at++ {
		began := time.Now()
		s.Flushed(at * 1000)
		c.ack(s.Number)
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	row.median, row.late = took[len(took)/2], took[len(took)*99/100]
}

// good runs four ranks for a time, and reports whether the collector's dump says of them what is true.
func (b *bench) good(t *testing.T, long time.Duration, dump string) bool {
	t.Helper()
	c := sim.Defaults()
	c.Run, c.Paced, c.Duration, c.Load.Rate, c.Load.Prompt, c.Waits = "good", true, long, 50, 500, false
	c.Endpoint = "unix://" + b.cfg.Endpoint
	var lines bytes.Buffer
	c.Truth = &lines
	result, err := sim.Run(t.Context(), c)
	if !assert.NoError(t, err) || !assert.Equal(t, "bye", result.Ended) {
		return false
	}
	want := map[string][]uint64{}
	for line := range strings.Lines(lines.String()) {
		var l truth.RankLine
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		if l.Kind == "rank" {
			want[publicName(t, l.Session)] = []uint64{uint64(l.Kernels), uint64(l.Steps), uint64(l.First), uint64(l.Last), uint64(l.Compute), uint64(l.Comm), uint64(l.Idle)}
		}
	}
	file, err := os.Open(dump)
	require.NoError(t, err)
	defer file.Close()
	got := map[string][]uint64{}
	lost := 0
	for reader := bufio.NewReader(file); ; {
		line, err := reader.ReadString('\n')
		if err != nil {
			break
		}
		if !strings.HasPrefix(line, `{"kind":"session"`) {
			continue
		}
		var l jsonl.SessionLine
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		if want[l.Session] != nil {
			got[l.Session] = []uint64{l.Kernels, l.StepsComplete, l.FirstNS, l.LastNS, l.ComputeNS, l.CommNS, l.IdleNS}
			lost += len(l.Dropped)
			for reason, n := range l.Dropped {
				t.Log(l.Rank, reason, n)
			}
		}
	}
	return assert.Equal(t, want, got) && assert.Zero(t, lost)
}

// scrapeOf is how many series a Prometheus endpoint would show of metrics, whose resources become labels, and how many bytes.
func scrapeOf(m pmetric.Metrics) (series, bytes int) {
	for _, r := range m.ResourceMetrics().All() {
		labels := 0
		for name, v := range r.Resource().Attributes().All() {
			labels += len(name) + len(v.AsString()) + 4
		}
		one := pmetric.NewMetrics()
		r.CopyTo(one.ResourceMetrics().AppendEmpty())
		add := func(name string, own, lines int) {
			series += lines
			bytes += lines * (len(name) + labels + own + 24)
		}
		metricstest.Each(one, func(m pmetric.Metric) {
			if m.Type() == pmetric.MetricTypeHistogram {
				for _, p := range m.Histogram().DataPoints().All() {
					add(m.Name(), 60, p.BucketCounts().Len()+2)
				}
				return
			}
			for _, p := range metricstest.Numbers(m) {
				own := 0
				for name, v := range p.Attributes().All() {
					own += len(name) + len(v.AsString()) + 4
				}
				add(m.Name(), own, 1)
			}
		})
	}
	return series, bytes
}

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// resident is how much memory this process has, in bytes.
func resident() int64 {
	text, _ := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
