//go:build chain && soak

package chain_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The shipped shape of things: metrics, every kernel in Parquet (the oldest removed), one step in 1,000 traced.
const soakConfiguration = `
receivers:
  kernhes: {endpoint: "unix://%[1]s/k.sock", control_endpoint: "%[2]s", collection_interval: 5s}
exporters:
  prometheus: {endpoint: "%[3]s", resource_constant_labels: {included: ["*"]}, metric_expiration: 3h}
  kernparquet: {directory: "%[1]s/archive", roll: 1m, retention: {max_bytes: 1000000000}, http: {endpoint: "%[4]s"}}
  file: {path: "%[1]s/traces.jsonl", rotation: {max_megabytes: 10, max_backups: 1}}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    metrics: {receivers: [kernhes], exporters: [prometheus]}
    logs: {receivers: [kernhes], exporters: [kernparquet]}
    traces: {receivers: [kernhes], exporters: [file]}
`

func newSoak(t *testing.T) *collector {
	t.Helper()
	dir := t.TempDir()
	c := &collector{t: t, dir: dir, config: filepath.Join(dir, "config.yaml"), socket: filepath.Join(dir, "k.sock")}
	address := freeAddress(t)
	c.metrics = "http://" + address + "/metrics"
	text := fmt.Sprintf(soakConfiguration, dir, freeAddress(t), address, freeAddress(t))
	require.NoError(t, os.WriteFile(c.config, []byte(text), 0o600))
	t.Cleanup(c.kill)
	c.start()
	return c
}

// setting is a number of the environment.
func setting(t *testing.T, name string, otherwise float64) float64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	v, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err, name)
	return v
}

// A billion kernels as fast as they go: SOAK_KERNELS. Two engines of two ranks each, SOAK_PLAYS of them.
func TestSoakFlatOut(t *testing.T) {
	kernels := setting(t, "SOAK_KERNELS", 1e9)
	plays := int(setting(t, "SOAK_PLAYS", 2))
	rounds := int(kernels/float64(plays)/tp2Kernels) + 1
	soak(t, plays, "--rounds", strconv.Itoa(rounds))
}

// A paced hour: SOAK_SECONDS. SOAK_PLAYS engines of two ranks each, SOAK_SPEED times as fast as an H200 made their kernels (21,000 a
// second): 4 of them at 4 times are a node of eight ranks with 0.7 million kernels a second.
func TestSoakPaced(t *testing.T) {
	seconds, speed := setting(t, "SOAK_SECONDS", 3600), setting(t, "SOAK_SPEED", 4)
	plays := int(setting(t, "SOAK_PLAYS", 4))
	rounds := int(seconds*speed/tp2Seconds) + 1
	soak(t, plays, "--rebase", "--speed", fmt.Sprint(speed), "--rounds", strconv.Itoa(rounds))
}

// One round of the recordings of two ranks.
const (
	tp2Kernels = 235_969
	tp2Seconds = 5.63
)

// soak plays to the end. What is lost, because the machine cannot keep up, is counted; residues are 0 whenever they are read, and
// what the second half of the time needs of memory is what the first did.
func soak(t *testing.T, engines int, args ...string) {
	c := newSoak(t)
	began := time.Now()
	var plays []*play
	for range engines {
		plays = append(plays, c.begin(t, append(args, file("tp2.rank0"), file("tp2.rank1"))...))
	}
	var collectors, shims memory
	every := time.Duration(setting(t, "SOAK_SAMPLE", 10) * float64(time.Second))
	for next := began; running(plays); {
		plays[0].waitFor(200)
		if time.Now().Before(next) {
			continue
		}
		next = next.Add(every)
		collectors.add(resident(c.command.Process.Pid))
		shims.add(ofChildren(plays))
		received := 0.0
		for _, r := range scrape(t, c.metrics) {
			received += r.numbers["kern_kernels_received_total"]
			noResidue(t, r)
		}
		t.Logf("%5.0f s: %.1f million kernels, collector %d MiB, engines %d MiB", time.Since(began).Seconds(), received/1e6,
			collectors.last()>>20, shims.last()>>20)
	}
	delivered, dropped := uint64(0), uint64(0)
	for _, p := range plays {
		for _, tally := range p.end(0) {
			delivered += tally["delivered_kernels"]
			dropped += tally["no_buffer"]
			assert.Zero(t, tally["unacknowledged"])
		}
	}
	wall, cpu := time.Since(began), cpuTime(t, c.command.Process.Pid)
	received, queued, lost, events := 0.0, 0.0, 0.0, 0.0
	for _, r := range scrape(t, c.metrics) {
		received += r.numbers["kern_kernels_received_total"]
		queued = max(queued, r.numbers["kern_shim_queued_max_bytes"])
		noResidue(t, r)
		assert.Zero(t, r.numbers["kern_kernels_pending"], "%s: pending", r.instance)
		lost += r.numbers.sum("kern_trace_dropped_records_total")
		events += r.numbers[`kern_trace_dropped_records_total{reason="shim_events"}`]
	}
	assert.Equal(t, delivered, uint64(received), "kernels received, and delivered by CUPTI")
	assert.Equal(t, dropped, uint64(lost-events), "records lost, and those for which CUPTI had no buffer: the machine is too slow for the pace")
	collectors.flat(t, "the collector")
	shims.flat(t, "the engines")
	assert.Empty(t, c.logged("\terror\t"))
	t.Logf("%d kernels in %.0f s: %.2f million a second; collector %.0f CPU-seconds (%.2f million kernels each), at most %d MiB; "+
		"engines at most %d MiB, one's queue %.1f MiB; lost %.0f records and %.0f events", delivered, wall.Seconds(), float64(delivered)/1e6/wall.Seconds(), cpu,
		float64(delivered)/1e6/cpu, collectors.most()>>20, shims.most()>>20, queued/(1<<20), lost-events, events)
}

// noResidue fails if the books of a resource have a residue.
func noResidue(t *testing.T, r *resource) {
	t.Helper()
	for s, v := range r.numbers {
		if name, _, _ := strings.Cut(s, "{"); strings.HasSuffix(name, "_residue") {
			assert.Zero(t, v, "%s: %s", r.instance, s)
		}
	}
}

// running tells whether a play has not ended.
func running(plays []*play) bool {
	for _, p := range plays {
		select {
		case err := <-p.ended:
			p.ended <- err
		default:
			return true
		}
	}
	return false
}

// A memory is samples of resident bytes.
type memory []uint64

func (m *memory) add(bytes uint64) { *m = append(*m, bytes) }

func (m memory) last() uint64 { return m[len(m)-1] }

func (m memory) most() (bytes uint64) {
	for _, b := range m {
		bytes = max(bytes, b)
	}
	return bytes
}

// flat fails if the second half of the samples has a peak more than an eighth and 16 MiB above that of the first.
func (m memory) flat(t *testing.T, of string) {
	t.Helper()
	require.GreaterOrEqual(t, len(m), 4, "samples")
	first, second := m[:len(m)/2].most(), m[len(m)/2:].most()
	assert.LessOrEqual(t, second, first+first/8+16<<20, "%s: resident bytes of the second half, and of the first", of)
}

// ofChildren is resident for the processes that plays have begun, one for each file.
func ofChildren(plays []*play) (bytes uint64) {
	for _, p := range plays {
		pid := p.command.Process.Pid
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
		for _, child := range strings.Fields(string(text)) {
			n, err := strconv.Atoi(child)
			if err == nil {
				bytes += resident(n)
			}
		}
	}
	return bytes
}

// cpuTime is the CPU-seconds of a process.
func cpuTime(t *testing.T, pid int) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, err := strconv.ParseFloat(fields[11], 64)
	require.NoError(t, err)
	system, err := strconv.ParseFloat(fields[12], 64)
	require.NoError(t, err)
	return (user + system) / 100 // USER_HZ
}
