package kernhesreceiver

import (
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
)

func TestYield(t *testing.T) {
	b := newBench(t, nil)
	free, _, _ := b.connect(1, "run", "a", "mode", "off", "mode_reason", "yielded", "subscribed", "0")
	has, _, _ := b.connect(2, "run", "b", "mode", "hes", "subscribed", "1")
	control := func(c *client) (command uint32, argument uint64) {
		t.Helper()
		body := c.read(wire.KindControl)
		require.Len(t, body, 40)
		return le.Uint32(body), le.Uint64(body[8:])
	}
	check := func(c *client, wantCommand uint32, wantArgument uint64) {
		t.Helper()
		command, argument := control(c)
		assert.Equal(t, wantCommand, command)
		assert.Equal(t, wantArgument, argument)
	}

	status, body := b.ask("POST", "/yield?run=a&rank=0&seconds=7")
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, map[string]any{"seconds": 7.0, "engines": []any{map[string]any{
		"session": engine.SessionName(public(1)), "run": "a", "rank": 0.0, "pid": strconv.Itoa(os.Getpid()), "mode": "off", "mode_reason": "yielded", "subscribed": false}}}, body)
	check(free, wire.CommandYield, 7e9)

	status, body = b.ask("DELETE", "/yield?run=b")
	assert.Equal(t, http.StatusOK, status)
	assert.Len(t, body["engines"], 1)
	check(has, wire.CommandResume, 0)

	status, _ = b.ask("POST", "/yield?run=a") // the other was not asked for anything meanwhile
	assert.Equal(t, http.StatusOK, status)
	check(free, wire.CommandYield, 60e9)

	for query, want := range map[string]int{
		"run=c": http.StatusNotFound, "rank=9": http.StatusNotFound, "seconds=0": http.StatusBadRequest, "seconds=86401": http.StatusBadRequest,
		"seconds=x": http.StatusBadRequest, "rank=x": http.StatusBadRequest, "run=a&run=b": http.StatusBadRequest, "who=a": http.StatusBadRequest,
	} {
		status, body = b.ask("POST", "/yield?"+query)
		assert.Equal(t, want, status, query)
		assert.NotEmpty(t, body["error"], query)
	}
	for range 20 { // of several faults, the first by name
		_, body = b.ask("POST", "/yield?seconds=0&rank=x&other=1")
		assert.Contains(t, body["error"], `"other"`)
	}
	status, _ = b.ask("DELETE", "/yield?seconds=3")
	assert.Equal(t, http.StatusBadRequest, status)
}

// TestWindowOnRequest: the ranks of a run in the mode windows are told the same times; others nothing.
func TestWindowOnRequest(t *testing.T) {
	b := newBench(t, nil)
	status, _ := b.ask("POST", "/window")
	assert.Equal(t, http.StatusNotFound, status, "nobody is there")
	one, _, _ := b.connect(1, "run", "a", "rank", "0", "mode", "windows", "window_state", "detached")
	two, _, _ := b.connect(2, "run", "a", "rank", "1", "mode", "windows", "window_state", "detached")
	b.connect(3, "run", "b", "mode", "software")
	status, body := b.ask("POST", "/window?seconds=2&run=a")
	require.Equal(t, http.StatusOK, status, "%v", body)
	windows := body["windows"].([]any)
	require.Len(t, windows, 1)
	assert.Equal(t, 2.0, windows[0].(map[string]any)["engines"])
	first, second := one.read(wire.KindControl), two.read(wire.KindControl)
	assert.Equal(t, first, second)
	assert.EqualValues(t, wire.CommandWindow, le.Uint32(first))
	assert.EqualValues(t, 2e9, le.Uint64(first[16:])-le.Uint64(first[8:]))
}

// TestOtherSitesHaveNoSay on any route: by another name that leads here, or by a query of which only a part can be read.
func TestOtherSitesHaveNoSay(t *testing.T) {
	b := newBench(t, nil)
	b.connect(1)
	for _, route := range []string{"GET /", "GET /live", "GET /rank", "GET /step", "GET /step.pftrace", "GET /status", "POST /trace", "POST /yield", "DELETE /yield", "POST /window"} {
		method, path, _ := strings.Cut(route, " ")
		status, _, _ := b.get(method, path+"?rank=7%", nil)
		assert.Equal(t, http.StatusBadRequest, status, "%s with a malformed query", route)
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+b.r.control.Addr().String()+path, nil)
		require.NoError(t, err)
		r.Host = "evil.example:8988"
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		assert.Equal(t, http.StatusForbidden, answer.StatusCode, "%s by another name", route)
	}
	status, _, _ := b.get("GET", "/rank?run=r1&rank=x", nil)
	assert.Equal(t, http.StatusBadRequest, status)
}
