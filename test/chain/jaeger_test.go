//go:build chain && jaeger

package chain_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// A jaeger is the built one, with its memory store, on 127.0.0.1.
type jaeger struct {
	t    testing.TB
	otlp string // address
	api  string // URL
}

// newJaeger starts bin/jaeger and waits until it answers; it ends with the test.
func newJaeger(t testing.TB) *jaeger {
	t.Helper()
	j := &jaeger{t: t, otlp: freeAddress(t)}
	api := freeAddress(t)
	j.api = "http://" + api + "/api/v3/"
	path := filepath.Join(t.TempDir(), "log")
	log, err := os.Create(path)
	require.NoError(t, err)
	defer log.Close()
	command := exec.Command(binary("jaeger"), "--config", "../jaeger/jaeger.yaml")
	command.Env = append(os.Environ(), "JAEGER_OTLP="+j.otlp, "JAEGER_HTTP="+api, "JAEGER_GRPC="+freeAddress(t))
	command.Stdout, command.Stderr = log, log
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if text, err := os.ReadFile(path); t.Failed() && err == nil {
			t.Logf("Jaeger's log:\n%s", tail(string(text), 40))
		}
	})
	for until := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		answer, err := http.Get(j.api + "services")
		if err == nil {
			answer.Body.Close()
			return j
		}
		require.True(t, time.Now().Before(until), "Jaeger does not answer: %v", err)
	}
}

// get asks the API; what is not 200 or, for a search, 404 ends the test.
func (j *jaeger) get(path string, query url.Values) []byte {
	j.t.Helper()
	answer, err := http.Get(j.api + path + "?" + query.Encode())
	require.NoError(j.t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(j.t, err)
	if answer.StatusCode == http.StatusNotFound {
		return nil
	}
	require.Equal(j.t, http.StatusOK, answer.StatusCode, "%s: %s", path, body)
	return body
}

// find gives the traces with a span that begins at a moment, unix ns, as they were stored.
func (j *jaeger) find(at int64) (traces ptrace.Traces, ok bool) {
	j.t.Helper()
	moment := time.Unix(0, at).UTC().Format(time.RFC3339Nano)
	body := j.get("traces", url.Values{"query.start_time_min": {moment}, "query.start_time_max": {moment},
		"query.num_traces": {"10"}, "query.raw_traces": {"true"}})
	if body == nil {
		return traces, false
	}
	var answer struct {
		Result json.RawMessage `json:"result"`
	}
	require.NoError(j.t, json.Unmarshal(body, &answer))
	traces, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(answer.Result)
	require.NoError(j.t, err)
	return traces, true
}

// Every step of both ranks, as Jaeger gives it back; and again of a run in which the collector is started anew several times, so that
// steps may come twice.
func TestJaegerHasTheRecordings(t *testing.T) {
	j := newJaeger(t)
	c := prepare(t, everyStep)
	c.sendTraces(j.otlp)
	c.start()
	once := c.begin(t, file(names[1]), file(names[2]))
	once.end(0)
	c.stop()
	j.has(once.run)

	var services struct{ Services []string }
	require.NoError(t, json.Unmarshal(j.get("services", nil), &services))
	assert.NotEmpty(t, services.Services)
	assert.False(t, slices.Contains(services.Services, ""))

	c.start()
	again := c.begin(t, "--speed", "0.5", file(names[1]), file(names[2]))
	for range 6 { // steps come from the 6th to the 14th second
		again.waitFor(1700)
		c.stop()
		c.start()
	}
	again.end(0)
	c.stop()
	j.has(again.run)
}

// has fails unless each step of a run is in Jaeger, both ranks of it in one trace.
func (j *jaeger) has(run string) {
	j.t.Helper()
	doubles, kernels := 0, 0
	found := [2]map[int64]pictured{{}, {}}
	rows := asRecorded()[names[1]].Devices[0].Steps
	for _, row := range rows {
		traces, ok := j.find(row.First)
		require.True(j.t, ok, "no trace of %s", row.Text)
		var all spans
		all.take(j.t, traces)
		doubles += all.doubles
		steps := all.steps(j.t, run)
		require.Len(j.t, steps, 2, "ranks of %s", row.Text)
		ids := map[string]bool{}
		for rank, of := range steps {
			require.Len(j.t, of, 1, "steps of rank %d in the trace of %s", rank, row.Text)
			for first, s := range of {
				found[rank][first] = s
				kernels += len(s.kernels)
				ids[fmt.Sprint(s.trace)] = true
			}
		}
		require.Len(j.t, ids, 1, "traces of %s", row.Text)
	}
	for rank, of := range found {
		arePictured(j.t, asRecorded()[names[1+rank]], int64(rank), of, doubles == 0)
	}
	j.t.Logf("%s: %d steps of each rank, %d kernels, %d spans came again", run, len(rows), kernels, doubles)
}
