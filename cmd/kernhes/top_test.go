package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// livePage is an answer of a collector: a run of two ranks, the second of which is slow.
const livePage = `{"now":"2026-12-01T12:00:00Z",
 "verdicts":[{"alert":"KernSlowRank","run":"r","rank":1,"text":"Rank 1 of run r\u001b[2J is slow (compute)."}],
 "runs":[{"run":"r","model":"m","engine":"e","waits":[{"cause":"slow","share":0.2}],
  "ranks":[{"rank":0,"mode":"software","tracing":true,"last_step_age":0.5,"last_minute":{"compute":0.25,"comm":0.5,"idle":0.25,"unknown":0},
    "mean_step_seconds":0.0123,"compute_over_fastest":1,"wait_share":0.4,"dropped":7},
   {"rank":1,"mode":"software","tracing":true,"down":"hung","last_step_age":null,"last_minute":{"compute":0,"comm":0,"idle":0,"unknown":1},"compute_over_fastest":1.3,"blame_share":0.4}],
  "steps":[{"program":"decode","batch":"64","kv":"4096","steps":100,"p50":0.01,"p99":0.02}],
  "slowest_calls":[{"program":"decode","call":"layers.*.experts","seconds":0.004,"slowest":1,"ratio":1.5}]},
 {"run":"other","ranks":[],"steps":[],"slowest_calls":[]}]}`

func TestTopPrintsThePageOnce(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/live", r.URL.Path)
		_, _ = w.Write([]byte(livePage))
	}))
	defer server.Close()
	var out bytes.Buffer
	require.NoError(t, run([]string{"top", "--endpoint", server.URL}, &out))
	lines := strings.Split(out.String(), "\n")
	assert.Equal(t, "KernSlowRank Rank 1 of run r?[2J is slow (compute).", lines[1])
	assert.Equal(t, "run r  m  e  2 ranks", lines[3])
	// 34 cells: a quarter is 8.5, three quarters are 25.5.
	assert.Equal(t, "   0 software   #########=================........   25.0%  50.0%  25.0%    12.3ms     1.00    0.0%  40.0%    0.0%      7     500ms", lines[5])
	assert.Equal(t, "   1 hung       "+strings.Repeat("?", 34)+"    0.0%   0.0%   0.0%         -     1.30    0.0%   0.0%   40.0%      0     never", lines[6])
	assert.Contains(t, out.String(), "why ranks wait: slow 20.0%")
	assert.NotContains(t, out.String(), "\x1b")

	require.Error(t, run([]string{"top", "--every", "1ms"}, &out))
	server.Close()
	require.ErrorContains(t, run([]string{"top", "--endpoint", server.URL}, &out), "/live")
}

func TestTopFollowsKeysAndSize(t *testing.T) {
	var v liveView
	require.NoError(t, json.Unmarshal([]byte(livePage), &v))
	m := &topModel{every: 1, width: 120}
	m.Update(fetched{view: v})
	assert.Contains(t, m.View().Content, "2 ranks")
	m.Update(tea.KeyPressMsg{Code: tea.KeyDown})
	assert.Contains(t, m.View().Content, "run other")
	m.Update(tea.KeyPressMsg{Code: tea.KeyDown})
	assert.Equal(t, 1, m.selected, "there is no third run")
	m.Update(tea.KeyPressMsg{Code: tea.KeyUp})
	assert.Equal(t, 0, m.selected)

	m.Update(tea.WindowSizeMsg{Width: 90, Height: 6})
	assert.Len(t, strings.Split(strings.TrimSuffix(m.View().Content, "\n"), "\n"), 6)
	// An answer that fails leaves the last page, and says so.
	m.Update(fetched{err: assert.AnError})
	assert.Contains(t, m.View().Content, "no answer: ")
	assert.Contains(t, m.View().Content, "run r")
	_, end := m.Update(tea.KeyPressMsg{Code: 'q', Text: "q"})
	require.NotNil(t, end)
	assert.Equal(t, tea.Quit(), end())
	// A run that is gone is not chosen any more.
	m.selected = 1
	v.Runs = nil
	m.Update(fetched{view: v})
	assert.Contains(t, m.View().Content, "No engine yet.")
}
