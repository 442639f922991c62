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

func TestYield(t *testing.T) {
	var asked, answer string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.String()
		if answer == "" {
			http.Error(w, "no connected engine is so", http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	ask := func(args ...string) (string, error) {
		var out strings.Builder
		err := run(append([]string{"yield", "--endpoint", server.URL}, args...), &out)
		return out.String(), err
	}
	answer = `{"engines": [{"run": "r", "rank": 3, "pid": "7", "mode": "off", "mode_reason": "yielded", "subscribed": false}]}`
	said, err := ask("--seconds", "9", "--rank", "3", "--run", "r")
	require.NoError(t, err)
	assert.Equal(t, "POST /yield?rank=3&run=r&seconds=9", asked)
	assert.Equal(t, "rank 3 of run r (process 7): does not have CUPTI; traces in mode off yielded\n", said)
	answer = `{"engines": [{"run": "", "rank": -1, "pid": "7", "mode": "off", "mode_reason": "yielded", "subscribed": false}]}`
	said, err = ask("--run", "r")
	require.NoError(t, err)
	assert.Equal(t, "process 7, whose run and rank are not known yet: does not have CUPTI; traces in mode off yielded\n", said)
	_, err = ask("--back")
	assert.Equal(t, "DELETE /yield?", asked)
	assert.ErrorContains(t, err, "1 of 1 engines have not done it")
	answer = ""
	_, err = ask()
	assert.ErrorContains(t, err, "no connected engine is so")
	_, err = ask("x")
	assert.ErrorContains(t, err, `unexpected "x"`)
}
