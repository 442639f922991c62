package main

import (
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTable(t *testing.T) {
	server := httptest.NewServer(http.FileServer(http.Dir("testdata")))
	defer server.Close()
	check := func(want string, args ...string) {
		t.Helper()
		var out strings.Builder
		require.NoError(t, run(append([]string{"table", "--url", server.URL + "/metrics.txt"}, args...), &out))
		var got []string
		for line := range strings.Lines(out.String()) {
			got = append(got, strings.Join(strings.Fields(line), " "))
		}
		assert.Equal(t, want, strings.Join(got[1:], "\n"))
	}
	const ranks = "tp2 0 621 0.678404 0.200580 3.318262 0.200000 0.000000 0 42 93.6%\n" +
		"tp2 1 622 0.699085 0.483671 0.000000 0.000000 0.021000 189+2 0 100.0%"
	check("solo 0 7 1.000000 0.000000 0.000000 0.000000 0.000000 0 0 100.0%\n" + ranks)
	check(ranks, "--run", "tp2")
	check("solo#20261201T101500-0000abcd 0 8 2.000000 0.000000 0.000000 0.000000 0.000000 0 0 100.0%", "--url", server.URL+"/again.txt", "--run", "solo#20261201T101500-0000abcd")
	check("solo 0 7 1.000000 0.000000 0.000000 0.000000 0.000000 0 0 100.0%\n"+
		"solo#20261201T101500-0000abcd 0 8 2.000000 0.000000 0.000000 0.000000 0.000000 0 0 100.0%", "--url", server.URL+"/again.txt", "--run", "solo")
}

func TestTableFails(t *testing.T) {
	server := httptest.NewServer(http.FileServer(http.Dir("testdata")))
	defer server.Close()
	check := func(want string, args ...string) {
		t.Helper()
		assert.ErrorContains(t, run(append([]string{"table"}, args...), io.Discard), want)
	}
	check("404 Not Found", "--url", server.URL+"/missing")
	check("has no ranks yet", "--url", server.URL+"/metrics.txt", "--run", "none")
	check(`unexpected "x"`, "x")
	server.Close()
	check("connection refused", "--url", server.URL+"/metrics.txt")
}

func TestCommands(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(nil, &out))
	for _, c := range commands {
		assert.Contains(t, out.String(), c.short)
	}
	out.Reset()
	require.NoError(t, run([]string{"--version"}, &out))
	assert.Equal(t, version+"\n", out.String())
	assert.True(t, errors.Is(run([]string{"nix"}, io.Discard), errUsage))
	assert.True(t, errors.Is(run([]string{"table", "--help"}, io.Discard), flag.ErrHelp))
}

func TestFlush(t *testing.T) {
	answer := `{"files":[{"name":"k-1.parquet","table":"k","rows":7,"bytes":9}]}`
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "POST /flush", r.Method+" "+r.URL.Path)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	var out strings.Builder
	require.NoError(t, run([]string{"flush", "--endpoint", server.URL}, &out))
	assert.Equal(t, "k-1.parquet  7 rows\n", out.String())
	status, answer = http.StatusInternalServerError, "no space"
	assert.ErrorContains(t, run([]string{"flush", "--endpoint", server.URL}, io.Discard), "no space")
	assert.ErrorContains(t, run([]string{"flush", "x"}, io.Discard), `unexpected "x"`)
}
