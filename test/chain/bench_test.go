//go:build chain

package chain_test

import (
	"cmp"
	wire "encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/fakeshim"
	"github.com/kernhes/kernhes/internal/krec"
)

// The cases of BenchmarkChain: which kernels of tp2.rank0 are sent, and to how many sessions at once.
var benchCases = []struct {
	name     string
	change   func(lap int, r *krec.Recording)
	sessions int
}{
	{"tp2", nil, 1},
	{"graph", graphOnly, 1},
	{"eager", eagerOnly, 1},
	{"new-shapes", newShapes, 1},
	{"sessions-8", nil, 8},
}

// What the collector does with them.
type benchOutput struct{ name, pipelines string }

var benchOutputs = []benchOutput{
	{"metrics", "metrics: {receivers: [kernhes], exporters: [nop]}"},
	{"archive", "metrics: {receivers: [kernhes], exporters: [nop]}\n    logs: {receivers: [kernhes], exporters: [kernparquet]}"},
	{"traces", "metrics: {receivers: [kernhes], exporters: [nop]}\n    traces: {receivers: [kernhes], exporters: [nop]}"},
}

const benchConfiguration = `
receivers:
  kernhes: {endpoint: "unix://%[1]s/k.sock", control_endpoint: "%[2]s", collection_interval: 10s}
exporters:
  nop:
  kernparquet: {directory: "%[1]s/archive", http: {endpoint: "%[3]s"}}
extensions:
  pprof: {endpoint: "%[4]s"}
service:
  extensions: [pprof]
  telemetry: {metrics: {level: none}}
  pipelines:
    %[5]s
`

// BenchmarkChain sends a recording over and over, as fast as the collector reads, and reports what CPU time of the collector's
// process a kernel costs: socket, joins, device time, chunks and Parquet, up to the last acknowledgement and a flush of the
// archive. Where KERNHES_BIN_BEFORE names another build, that takes the same frames by turns. KERNHES_ROUNDS is how many
// sessions follow each other, of 20 recordings' length each; KERNHES_PROFILES is a folder for CPU profiles, of which a share
// of each stage is reported.
func BenchmarkChain(b *testing.B) {
	rounds := 1
	if text := os.Getenv("KERNHES_ROUNDS"); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(b, err)
		rounds = n
	}
	recording := load(b, "tp2.rank0")
	for _, c := range benchCases {
		var load *benchLoad
		for _, o := range benchOutputs {
			b.Run(c.name+"/"+o.name, func(b *testing.B) {
				builds := []string{""}
				if before := os.Getenv("KERNHES_BIN_BEFORE"); before != "" {
					builds = append(builds, before)
				}
				cost := make([][]float64, len(builds))
				if load == nil {
					load = newBenchLoad(recording, c.change)
				}
				for b.Loop() {
					for i, build := range builds {
						cost[i] = append(cost[i], benchChain(b, build, o, load, c.sessions, rounds))
					}
				}
				now := middle(cost[0])
				b.ReportMetric(now, "cpu-ns/kernel")
				b.ReportMetric(1e3/now, "Mkernels/cpu-s")
				if len(builds) > 1 {
					b.ReportMetric(middle(cost[1]), "before-ns/kernel")
					b.ReportMetric(middle(cost[1])/now, "times-faster")
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// benchLaps are how often a session plays the recording.
const benchLaps = 20

// middle is the median.
func middle(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

// A benchLoad is the frames of a session behind its HELLO, which alone says whose they are.
type benchLoad struct {
	recording *krec.Recording
	frames    [][]byte
	kernels   int
	last      uint64 // number of its last frame
}

func newBenchLoad(r *krec.Recording, change func(int, *krec.Recording)) *benchLoad {
	l := &benchLoad{recording: r, frames: fakeshim.Laps(r, fakeshim.Options{Deliver: fakeshim.Flush}, benchLaps, change)[1:]}
	for _, f := range l.frames {
		if wire.LittleEndian.Uint16(f[4:]) == 5 { // KERNELS
			l.kernels += (len(f) - 16) / 64
		}
		l.last = max(l.last, wire.LittleEndian.Uint64(f[8:]))
	}
	return l
}

// hello is the HELLO of a rank in a round.
func (l *benchLoad) hello(rank, round int) []byte {
	o := fakeshim.Options{Run: "bench", Rank: strconv.Itoa(rank), Session: uint64(1 + rank + round<<8)}
	return fakeshim.Laps(l.recording, o, 0, nil)[0]
}

// benchChain runs a collector for a load by several sessions at once, round after round, and returns CPU ns a kernel.
func benchChain(b *testing.B, build string, o benchOutput, load *benchLoad, sessions, rounds int) float64 {
	dir := b.TempDir()
	c := &collector{t: b, dir: dir, config: filepath.Join(dir, "config.yaml"), socket: filepath.Join(dir, "k.sock")}
	archive, profiles := freeAddress(b), freeAddress(b)
	text := fmt.Sprintf(benchConfiguration, dir, freeAddress(b), archive, profiles, o.pipelines)
	if build != "" {
		b.Setenv("KERNHES_BIN", build)
	}
	require.NoError(b, os.WriteFile(c.config, []byte(text), 0o600))
	c.start()
	_ = os.Unsetenv("KERNHES_BIN")
	defer c.kill()
	pid := c.command.Process.Pid
	var profiled sync.WaitGroup
	folder := os.Getenv("KERNHES_PROFILES")
	if folder != "" && build == "" {
		profiled.Go(func() {
			saveProfile(b, "http://"+profiles, filepath.Join(folder, strings.ReplaceAll(b.Name(), "/", "_")))
		})
		time.Sleep(100 * time.Millisecond) // until it has begun
	}
	before := cpuNanoseconds(b, pid)
	var sending sync.WaitGroup
	kernels := load.kernels * sessions * rounds
	for rank := range sessions {
		sending.Go(func() {
			for round := range rounds {
				load.send(b, c.socket, rank, round)
			}
		})
	}
	sending.Wait()
	if o.name == "archive" {
		rows, bytes := flushed(c, "http://"+archive, int64(kernels))
		require.EqualValues(b, kernels, rows, "rows in closed files")
		if build == "" {
			b.ReportMetric(float64(bytes)/float64(rows), "B/row")
		}
	}
	spent := float64(cpuNanoseconds(b, pid)-before) / float64(kernels)
	if build == "" {
		b.ReportMetric(float64(resident(pid))/(1<<20), "MiB")
	}
	if profiled.Wait(); folder != "" && build == "" {
		saveURL(b, "http://"+profiles+"/debug/pprof/allocs", filepath.Join(folder, strings.ReplaceAll(b.Name(), "/", "_")+".allocs.pprof"))
	}
	return spent
}

// send sends the frames and waits until the last is acknowledged: then every pipeline has taken every step.
func (l *benchLoad) send(b *testing.B, socket string, rank, round int) {
	conn, err := net.Dial("unix", socket)
	require.NoError(b, err)
	defer conn.Close()
	acknowledged := make(chan error, 1)
	go func() {
		head := make([]byte, 16)
		for {
			if _, err := io.ReadFull(conn, head); err != nil {
				acknowledged <- err
				return
			}
			body := make([]byte, wire.LittleEndian.Uint32(head))
			if _, err := io.ReadFull(conn, body); err != nil {
				acknowledged <- err
				return
			}
			if wire.LittleEndian.Uint16(head[4:]) == 65 && wire.LittleEndian.Uint64(body) >= l.last {
				acknowledged <- nil
				return
			}
		}
	}()
	frames := append(net.Buffers{l.hello(rank, round)}, l.frames...)
	_, err = frames.WriteTo(conn)
	require.NoError(b, err)
	select {
	case err := <-acknowledged:
		require.NoError(b, err, "acknowledgement of frame %d", l.last)
	case <-time.After(patience):
		require.Fail(b, "the last frame is not acknowledged")
	}
}

// flushed closes the archive's files once they have so many kernels: rows and bytes of k.
func flushed(c *collector, url string, kernels int64) (rows, bytes int64) {
	var status struct {
		Counts struct{ Rows struct{ K int64 } }
	}
	c.eventually("all rows are taken", func() bool {
		answer, err := http.Get(url + "/status")
		require.NoError(c.t, err)
		defer answer.Body.Close()
		require.NoError(c.t, json.NewDecoder(answer.Body).Decode(&status))
		return status.Counts.Rows.K == kernels
	})
	answer, err := http.Post(url+"/flush", "", nil)
	require.NoError(c.t, err)
	defer answer.Body.Close()
	var closed struct {
		Files []struct {
			Table       string
			Rows, Bytes int64
		}
	}
	require.NoError(c.t, json.NewDecoder(answer.Body).Decode(&closed))
	for _, f := range closed.Files {
		if f.Table == "k" {
			rows, bytes = rows+f.Rows, bytes+f.Bytes
		}
	}
	return rows, bytes
}

// cpuNanoseconds is the CPU time of all threads of a process, by the scheduler: /proc/PID/stat counts in 10 ms.
func cpuNanoseconds(t testing.TB, pid int) (sum int64) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	require.NoError(t, err)
	for _, path := range threads {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		ns, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		require.NoError(t, err)
		sum += ns
	}
	return sum
}

// saveProfile takes a CPU profile of a second and reports what shares of it the stages have.
func saveProfile(b *testing.B, url, name string) {
	saveURL(b, url+"/debug/pprof/profile?seconds=2", name+".pprof")
	out, err := exec.Command("go", "tool", "pprof", "-top", "-nodecount=3000", "-nodefraction=0", name+".pprof").Output()
	require.NoError(b, err)
	shares := map[string]float64{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 6 || !strings.HasSuffix(fields[1], "%") {
			continue
		}
		share, _ := strconv.ParseFloat(strings.TrimSuffix(fields[1], "%"), 64)
		shares[stageOf(fields[5])] += share
	}
	for _, stage := range slices.SortedFunc(maps.Keys(shares), func(x, y string) int { return cmp.Compare(shares[y], shares[x]) }) {
		if shares[stage] >= 0.5 {
			b.Logf("%5.1f%% %s", shares[stage], stage)
		}
	}
}

// saveURL writes what a page says into a file.
func saveURL(b *testing.B, url, path string) {
	answer, err := http.Get(url)
	require.NoError(b, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(b, err)
	require.NoError(b, os.WriteFile(path, text, 0o600))
}
