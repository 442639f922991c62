//go:build chain

package chain_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/sim/truth"
)

// shipped starts a collector of a configuration as it is shipped, in a folder of its own, with some keys set otherwise.
func shipped(t *testing.T, name string, env []string, keys ...string) *collector {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../otelcol-dist", name))
	require.NoError(t, err)
	program, err := filepath.Abs(binary("otelcol-kernhes"))
	require.NoError(t, err)
	c := &collector{t: t, dir: t.TempDir()}
	args := []string{"--config", path}
	for _, k := range keys {
		args = append(args, "--config", "yaml:"+k)
	}
	log, err := os.Create(filepath.Join(c.dir, "log"))
	require.NoError(t, err)
	defer log.Close()
	c.command = exec.Command(program, args...)
	c.command.Dir, c.command.Env = c.dir, append(os.Environ(), env...)
	c.command.Stdout, c.command.Stderr = log, log
	require.NoError(t, c.command.Start())
	c.ended = make(chan error, 1)
	go func(command *exec.Cmd, ended chan error) { ended <- command.Wait() }(c.command, c.ended)
	t.Cleanup(func() {
		c.kill()
		if t.Failed() {
			t.Logf("the log of %s:\n%s", name, tail(c.log(), 20))
		}
	})
	c.eventually(name+" is ready", func() bool { return c.lives() > 0 })
	return c
}

// A waitsStatus is what of GET /status of the connector is looked at.
type waitsStatus struct {
	Pending int `json:"steps_pending"`
	Runs    []struct {
		Problems []string
		Ranks    []struct {
			Rank  int
			Calls map[string]uint64
		}
	}
}

func waitsOf(t *testing.T, address string) (s waitsStatus) {
	t.Helper()
	answer, err := http.Get("http://" + address + "/status")
	require.NoError(t, err)
	defer answer.Body.Close()
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&s))
	return s
}

// One node's agent sends digests to two gateways, of which one is killed under load. The other goes on: what it compares is the truth
// of whole windows of steps, nothing of it is half there, and the agent's archive has every kernel.
func TestTwoGatewaysOfWhichOneDies(t *testing.T) {
	var gateways [2]*collector
	var otlp, status [2]string
	for i := range gateways {
		otlp[i], status[i] = freeAddress(t), freeAddress(t)
		gateways[i] = shipped(t, "gateway.yaml", []string{"KERNHES_GATEWAY_ENDPOINT=" + otlp[i], "KERNHES_GATEWAY_STATUS=" + status[i],
			"KERNHES_GATEWAY_METRICS=" + freeAddress(t)}, "connectors::kernwaits::collection_interval: 200ms")
	}
	agent := shipped(t, "agent.yaml", []string{fmt.Sprintf("KERNHES_GATEWAYS=[%s, %s]", otlp[0], otlp[1])},
		"receivers::kernhes::control_endpoint: "+freeAddress(t), "connectors::kernwaits/digest::http::endpoint: "+freeAddress(t),
		"exporters::prometheus::endpoint: "+freeAddress(t), "exporters::kernparquet::http::endpoint: "+freeAddress(t),
		"extensions::health_check::endpoint: "+freeAddress(t), "service::telemetry::metrics::level: none")

	path := filepath.Join(agent.dir, "truth.jsonl")
	sim := exec.Command(binary("kernhes"), "sim", "--endpoint", filepath.Join(agent.dir, "out", "kernhes.sock"), "--run", "r", "--truth", path, "--duration", "14s")
	var out bytes.Buffer
	sim.Stdout, sim.Stderr = &out, &out
	require.NoError(t, sim.Start())
	agent.eventually("both gateways have steps", func() bool {
		a, b := waitsOf(t, status[0]), waitsOf(t, status[1])
		return len(a.Runs) > 0 && len(b.Runs) > 0
	})
	gateways[1].kill()
	require.NoError(t, sim.Wait(), "%s", &out)

	// Of each window of 64 steps in a row, how many meetings each rank has.
	windows := map[uint64]int{} // meetings
	kernels := 0
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var kind struct{ Kind string }
		require.NoError(t, json.Unmarshal(lines.Bytes(), &kind))
		switch kind.Kind {
		case "wait":
			windows[decode[truth.WaitLine](t, lines.Bytes()).Seq>>6]++
		case "rank":
			kernels += decode[truth.RankLine](t, lines.Bytes()).Kernels
		}
	}
	compared := func() (n uint64) {
		s := waitsOf(t, status[0])
		for _, r := range s.Runs[0].Ranks {
			require.LessOrEqual(t, len(r.Calls), 1, "%v: all are compared", r.Calls)
			require.True(t, n == 0 || n == r.Calls["compared"] || s.Pending > 0)
			n = r.Calls["compared"]
		}
		return n
	}
	sums := map[uint64]bool{0: true} // meetings of any windows
	for _, n := range windows {
		next := map[uint64]bool{}
		for sum := range sums {
			next[sum], next[sum+uint64(n)] = true, true
		}
		sums = next
	}
	agent.eventually("the gateway has whole windows only", func() bool {
		return waitsOf(t, status[0]).Pending == 0 && compared() > 0 && sums[compared()]
	})
	require.Empty(t, waitsOf(t, status[0]).Runs[0].Problems)
	agent.stop()
	require.EqualValues(t, kernels, (&collector{t: t, dir: filepath.Join(agent.dir, "out")}).rows()["k"])
}
