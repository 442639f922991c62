package control

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/fleet"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/sample"
)

// ask asks a control and returns the status and the answer.
func ask(t *testing.T, c *Endpoint, method, path string, header ...string) (int, map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+c.listener.Addr().String()+path, nil)
	require.NoError(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(r)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	var got map[string]any
	if strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") {
		require.NoError(t, json.Unmarshal(body, &got), string(body))
	}
	return response.StatusCode, got
}

// oneConnected is an engine that is connected.
type oneConnected struct{ engines }

func (oneConnected) Standings() []fleet.Standing { return []fleet.Standing{{Connected: true}} }

func startControl(t *testing.T, demand func(context.Context, sample.Ask) (sample.Got, error)) *Endpoint {
	t.Helper()
	c := New(zap.NewNop(), demand, oneConnected{}, nil, func(time.Time) Status { return Status{} }, http.NotFoundHandler())
	require.NoError(t, c.Shutdown(t.Context()), "before Start")
	require.NoError(t, c.Start(t.Context(), "127.0.0.1:0"))
	t.Cleanup(func() {
		require.NoError(t, c.Shutdown(context.WithoutCancel(t.Context())))
		require.NoError(t, c.Shutdown(context.WithoutCancel(t.Context())), "twice")
	})
	return c
}

func TestControlTrace(t *testing.T) {
	var asked sample.Ask
	var waited time.Duration
	got, fault := sample.Got{}, error(nil)
	c := startControl(t, func(ctx context.Context, a sample.Ask) (sample.Got, error) {
		asked = a
		until, _ := ctx.Deadline()
		waited = time.Until(until)
		return got, fault
	})

	got = sample.Got{Taken: []sample.Taken{{Trace: [16]byte{15: 7}, Seq: 5}, {Trace: [16]byte{15: 7}, Seq: 5, Rank: 1}}, Away: 3}
	status, body := ask(t, c, "POST", "/trace?steps=2&seq=5&rank=-1&wait=60s")
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, map[string]any{
		"traces":   []any{map[string]any{"trace_id": "00000000000000000000000000000007", "seq": 5.0, "ranks": []any{0.0, 1.0}}},
		"complete": false, "turned_away": 3.0, "reason": "3 steps were over the budget of spans (traces::spans_per_second)",
	}, body)
	require.NotNil(t, asked.Seq)
	require.NotNil(t, asked.Rank)
	assert.Equal(t, []any{2, uint64(5), int64(-1)}, []any{asked.Steps, *asked.Seq, *asked.Rank})
	assert.Greater(t, waited, traceWait)

	status, body = ask(t, c, "POST", "/trace")
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, true, body["complete"])
	assert.NotContains(t, body, "reason")
	assert.Equal(t, sample.Ask{Steps: 1}, asked)

	got.Away, got.Missing = 0, []sample.Taken{{Trace: [16]byte{15: 7}, Seq: 5, Rank: 2}}
	_, body = ask(t, c, "POST", "/trace?wait=3s")
	assert.Equal(t, map[string]any{
		"traces":   []any{map[string]any{"trace_id": "00000000000000000000000000000007", "seq": 5.0, "ranks": []any{0.0, 1.0}, "missing_ranks": []any{2.0}}},
		"complete": false, "turned_away": 0.0, "reason": "missing_ranks closed no step of their traces within 3s",
	}, body)
	got = sample.Got{}
	_, body = ask(t, c, "POST", "/trace")
	assert.Equal(t, "0 of 1 steps closed within 10s: GET /status says whether engines have steps", body["reason"])

	for _, query := range []string{"steps=0", "steps=1001", "steps=x", "seq=-1", "seq=9223372036854775808", "rank=x", "wait=2m", "steps=1&steps=2", "step=1"} {
		status, body = ask(t, c, "POST", "/trace?"+query)
		assert.Equal(t, http.StatusBadRequest, status, query)
		name, _, _ := strings.Cut(query, "=")
		assert.Contains(t, body["error"], name)
	}
	for range 20 { // of several faults, the first by name
		_, body = ask(t, c, "POST", "/trace?wait=x&steps=0&rank=x&seq=x")
		assert.Contains(t, body["error"], "rank:")
	}
	fault = sample.ErrBusy
	status, _ = ask(t, c, "POST", "/trace")
	assert.Equal(t, http.StatusTooManyRequests, status)

	status, _ = ask(t, c, "GET", "/trace")
	assert.Equal(t, http.StatusMethodNotAllowed, status)
	status, _ = ask(t, c, "POST", "/trace", "Sec-Fetch-Site", "cross-site")
	assert.Equal(t, http.StatusForbidden, status, "a page of another site asks")
}

// TestTracesNeedAnEngine that is connected.
func TestTracesNeedAnEngine(t *testing.T) {
	c := New(zap.NewNop(), func(context.Context, sample.Ask) (sample.Got, error) { return sample.Got{}, nil }, noneConnected{}, nil, nil, http.NotFoundHandler())
	require.NoError(t, c.Start(t.Context(), "127.0.0.1:0"))
	defer func() { require.NoError(t, c.Shutdown(t.Context())) }()
	status, body := ask(t, c, "POST", "/trace")
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Equal(t, errNoEngine.Error(), body["error"])
}

// noneConnected is an engine that waits for its connection.
type noneConnected struct{ engines }

func (noneConnected) Standings() []fleet.Standing { return []fleet.Standing{{}} }

func TestControlLists(t *testing.T) {
	c := startControl(t, nil)
	status, body := ask(t, c, "GET", "/")
	assert.Equal(t, http.StatusOK, status)
	assert.Len(t, body["endpoints"], 10)
	status, _ = ask(t, c, "GET", "/nothing")
	assert.Equal(t, http.StatusNotFound, status)
	status, body = ask(t, c, "POST", "/trace")
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Equal(t, errNoTraces.Error(), body["error"])

	other := New(zap.NewNop(), nil, oneConnected{}, nil, nil, http.NotFoundHandler())
	require.ErrorContains(t, other.Start(t.Context(), c.listener.Addr().String()), "control endpoint")
}
