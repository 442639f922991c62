//go:build chain

package dashboards

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	quiet    = 75 * time.Second // before the fault: a window of the rules, and what the engine needs to warm up
	disturb  = 75 * time.Second // with the fault
	patience = 15 * time.Second // within which an engine that ends must be seen
)

// fault is a GEMM of 3 ms, 20 times a second, on the GPU of rank 2.
var fault = fmt.Sprintf("foreign_gemm:rank=2,at=%s,every=50ms,amount=3", quiet)

// TestThePanelsTellTheStoryOfASlowRank plays the simulator through the collector into a real Prometheus.
func TestThePanelsTellTheStoryOfASlowRank(t *testing.T) {
	s := start(t)
	engine := s.run("kernhes", "sim", "--endpoint", s.socket, "--run", "story", "--duration", "10m", "--fault", fault)
	began := time.Now()

	time.Sleep(quiet - time.Since(began))
	before := map[string]map[string]float64{}
	for _, name := range []string{foreign, comm, blame} {
		before[name] = s.byRank(name)
		require.Len(t, before[name], 4, name)
	}
	for rank, ratio := range s.byRank(both) {
		assert.LessOrEqual(t, ratio, 1.1, "rank %s without a fault", rank)
	}
	assert.Empty(t, s.firing(), "without a fault")

	time.Sleep(quiet + disturb - time.Since(began))
	assert.Equal(t, []string{"KernSlowRank story 2"}, s.firing())
	ratios := s.byRank(both)
	assert.Equal(t, "2", highest(ratios), "ratios: %v", ratios)
	for rank, ratio := range ratios {
		if rank == "2" {
			// 60 ms of GEMM a second beside some 300 ms of steps' own compute.
			assert.Greater(t, ratio, 1.1)
			continue
		}
		assert.LessOrEqual(t, ratio, 1.1, "rank %s", rank)
		assert.Greater(t, s.byRank(comm)[rank], before[comm][rank], "communication of rank %s", rank)
	}
	assert.InDelta(t, 0.06, s.byRank(foreign)["2"], 0.01, "3 ms, 20 times a second")
	assert.Equal(t, "2", highest(s.byRank(blame)), "blame: %v", s.byRank(blame))

	s.panelsAnswer()

	// A process that is stopped, and one that is killed.
	require.NoError(t, engine.Process.Signal(syscall.SIGSTOP))
	assert.Eventually(t, func() bool { return s.one(`count(kern_up{kern_run="story", reason="silent"} == 0)`) == 4 }, patience, time.Second)
	require.NoError(t, engine.Process.Kill())
	assert.Eventually(t, func() bool { return s.one(`count(kern_up{kern_run="story", reason="gone"} == 0)`) == 4 }, patience, time.Second)
}

// The series that the story looks at; each has a value a rank.
const (
	both    = `rank:kern_step_compute_and_foreign:ratio_fastest1m`
	foreign = `rank:kern_step_foreign_compute_seconds:rate1m`
	comm    = `rank:kern_device_share:rate1m{kind="comm"}`
	blame   = `sum by (kern_run, rank) (rank:kern_comm_blame_seconds:rate1m{cause=~"foreign|slow|host"})`
)

// A stack is a collector and a Prometheus that scrapes it.
type stack struct {
	t          *testing.T
	dir        string
	socket     string
	prometheus string
}

func start(t *testing.T) *stack {
	dir := t.TempDir()
	s := &stack{t: t, dir: dir, socket: "unix://" + filepath.Join(dir, "k.sock"), prometheus: "http://" + address(t)}
	metrics := address(t)
	config := fmt.Sprintf(`
receivers: {kernhes: {endpoint: %q, control_endpoint: %q}}
connectors: {kernwaits: {}}
exporters:
  prometheus: {endpoint: %q, resource_constant_labels: {included: ["*"]}, enable_open_metrics: true}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    logs: {receivers: [kernhes], exporters: [kernwaits]}
    metrics: {receivers: [kernhes, kernwaits], exporters: [prometheus]}
`, s.socket, address(t), metrics)
	rules, err := filepath.Abs("rules")
	require.NoError(t, err)
	scrape := fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q, %q]
scrape_configs:
  - {job_name: kernhes, honor_labels: true, static_configs: [{targets: [%q]}]}
`, filepath.Join(rules, "recording.yaml"), filepath.Join(rules, "alerts.yaml"), metrics)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "collector.yaml"), []byte(config), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prometheus.yaml"), []byte(scrape), 0o600))
	s.run("otelcol-kernhes", "--config", filepath.Join(dir, "collector.yaml"))
	s.run("prometheus", "--config.file", filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path", filepath.Join(dir, "data"),
		"--web.listen-address", strings.TrimPrefix(s.prometheus, "http://"), "--log.level", "warn")
	require.Eventually(t, func() bool {
		_, socket := os.Stat(strings.TrimPrefix(s.socket, "unix://"))
		r, err := http.Get(s.prometheus + "/-/ready")
		if err == nil {
			r.Body.Close()
		}
		return socket == nil && err == nil && r.StatusCode == http.StatusOK
	}, time.Minute, 100*time.Millisecond)
	return s
}

// address is one of the loopback on which nothing listens.
func address(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// run starts a program of bin/, or of the system, and ends it with the test.
func (s *stack) run(name string, args ...string) *exec.Cmd {
	path := filepath.Join("..", "bin", name)
	if _, err := os.Stat(path); err != nil {
		path, err = exec.LookPath(name)
		require.NoError(s.t, err, "make build, and Debian's package prometheus")
	}
	var log bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(s.t, cmd.Start())
	s.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if s.t.Failed() {
			s.t.Logf("%s:\n%s", name, log.Bytes()[max(0, log.Len()-4000):])
		}
	})
	return cmd
}

// A sample is one of an instant query's result.
type sample struct {
	Metric map[string]string
	Value  float64
}

func (s *stack) query(expr string) (samples []sample, err error) {
	r, err := http.PostForm(s.prometheus+"/api/v1/query", url.Values{"query": {expr}})
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Error string
		Data  struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("%w: %s", err, body)
	}
	if answer.Error != "" {
		return nil, fmt.Errorf("%s: %s", expr, answer.Error)
	}
	for _, r := range answer.Data.Result {
		v, err := strconv.ParseFloat(r.Value[1].(string), 64)
		if err != nil {
			return nil, err
		}
		samples = append(samples, sample{r.Metric, v})
	}
	return samples, nil
}

// byRank is a value a rank.
func (s *stack) byRank(expr string) map[string]float64 {
	samples, err := s.query(expr)
	require.NoError(s.t, err)
	values := map[string]float64{}
	for _, one := range samples {
		values[one.Metric["rank"]] = one.Value
	}
	return values
}

// one is the value of a query that gives one; NaN: it gives none.
func (s *stack) one(expr string) float64 {
	if samples, err := s.query(expr); err == nil && len(samples) == 1 {
		return samples[0].Value
	}
	return math.NaN()
}

// firing are the alerts that fire, with run and rank.
func (s *stack) firing() (names []string) {
	samples, err := s.query(`group by (alertname, kern_run, rank) (ALERTS{alertstate="firing"})`)
	require.NoError(s.t, err)
	for _, one := range samples {
		names = append(names, one.Metric["alertname"]+" "+one.Metric["kern_run"]+" "+one.Metric["rank"])
	}
	return names
}

func highest(values map[string]float64) (rank string) {
	best := math.Inf(-1)
	for r, v := range values {
		if v > best {
			rank, best = r, v
		}
	}
	return rank
}

// empty are the panels that have nothing to show so soon, or of an engine without that fault.
var empty = map[string]bool{
	"Step compute against 100 minutes earlier": true, // it needs 100 minutes
	"Change of step time: mix or inside":       true, // 30 minutes
	"Bus bandwidth":                            true, // the simulator's meetings are fused and have no message size
	"Ranks that diverge":                       true, // none does
}

// panelsAnswer runs each query of each panel as Grafana would, with all values of each variable.
func (s *stack) panelsAnswer() {
	sections, err := Sections()
	require.NoError(s.t, err)
	variables := strings.NewReplacer("$model", ".*", "$run", ".*", "$rank", ".*", "$program", ".*")
	for _, section := range sections {
		for _, p := range section.Panels {
			for _, q := range p.Queries {
				samples, err := s.query(variables.Replace(q.Query()))
				assert.NoError(s.t, err, p.Title)
				assert.Equal(s.t, empty[p.Title], len(samples) == 0, "%s: %d series", p.Title, len(samples))
			}
		}
	}
}
