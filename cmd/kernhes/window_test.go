package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWindow(t *testing.T) {
	var asked, answer string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.String()
		if answer == "" {
			http.Error(w, "no connected engine is in the mode windows", http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	ask := func(args ...string) (string, error) {
		var out strings.Builder
		err := run(append([]string{"window", "--endpoint", server.URL}, args...), &out)
		return out.String(), err
	}
	answer = `{"windows": [{"run": "r", "id": 7, "start": "2026-12-01T10:00:00.5Z", "seconds": 2.5, "engines": 2, "why": "asked"},
		{"run": "s", "id": 8, "start": "2026-12-01T10:00:01Z", "seconds": 8, "engines": 1, "why": "by the clock", "ordered_before": true}]}`
	said, err := ask("--seconds", "2.5", "--run", "r")
	require.NoError(t, err)
	assert.Equal(t, "POST /window?run=r&seconds=2.5", asked)
	assert.Equal(t, "run r: a window of 2.5 s opens at 10:00:00.500 on 2 engines (asked)\n"+
		"run s: a window of 8 s was ordered before at 10:00:01.000 on 1 engines (by the clock)\n", said)
	answer = ""
	_, err = ask()
	assert.Equal(t, "POST /window?seconds=5", asked)
	assert.ErrorContains(t, err, "no connected engine is in the mode windows")
	_, err = ask("x")
	assert.ErrorContains(t, err, `unexpected "x"`)
}
