package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/sim"
	"github.com/kernhes/kernhes/internal/sim/fault"
)

func TestSimHelpNamesEachFault(t *testing.T) {
	help := simHelp()
	for _, k := range fault.Kinds {
		assert.Contains(t, help, "  "+k.Name+" ")
	}
	assert.True(t, errors.Is(run([]string{"sim", "--help"}, io.Discard), flag.ErrHelp))
}

func TestSimFails(t *testing.T) {
	check := func(want string, args ...string) {
		t.Helper()
		assert.ErrorContains(t, run(append([]string{"sim"}, args...), io.Discard), want)
	}
	check(`layout "x", want dp4ep4, tp2dp4, pp2tp4, or dpN`, "--layout", "x")
	check(`there is no "x"`, "--fault", "x")
	check("fault hang: rank 9 of 4", "--fault", "hang:rank=9")
	check("want a rate or bursts", "--rate", "0", "--burst", "0")
	check(`identity "x", want env or nccl`, "--identity", "x")
	check("NCCL's communicator names the run", "--identity", "nccl", "--run", "r")
	check("a communicator of one", "--identity", "nccl", "--layout", "dp1")
	check("want less than every", "--window", "6s")
	check(`unexpected "x"`, "x")
	check("no such file", "--truth", filepath.Join(t.TempDir(), "none", "truth"))
}

func TestSimSumsUp(t *testing.T) {
	var out strings.Builder
	sumUp(sim.Result{Steps: 3, Kernels: 5000, Bytes: 2_340_000, Took: 2500 * time.Millisecond, Simulated: 4*time.Second + 1234567, Ended: "bye"}, &out)
	const line = "3 steps, 5000 kernels, 2.3 MB in 2.5s (4.001s simulated): 2000 kernels/s; ended: bye\n"
	assert.Equal(t, line, out.String())
	out.Reset()
	sumUp(sim.Result{Dropped: 7, Ended: "bye"}, &out)
	assert.Contains(t, out.String(), "0 kernels/s")
	assert.Contains(t, out.String(), "\n7 kernels, copies and events were dropped")
}

// docs/sim.md names each field of the truth.
func TestSimDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/sim.md")
	require.NoError(t, err)
	source, err := os.ReadFile("../../internal/sim/truth/truth.go")
	require.NoError(t, err)
	for line := range strings.Lines(string(source)) {
		if _, tag, ok := strings.Cut(line, "`json:\""); ok {
			name, _, _ := strings.Cut(strings.TrimSuffix(strings.TrimSpace(tag), "`"), "\"")
			name, _, _ = strings.Cut(name, ",")
			assert.Contains(t, string(text), "`"+name+"`")
		}
	}
}

func TestSimSaysThatNoCollectorIsThere(t *testing.T) {
	var out bytes.Buffer
	socket := filepath.Join(t.TempDir(), "k.sock")
	sayIfNoCollector("unix://"+socket, &out)
	assert.Equal(t, "no collector at --endpoint unix://"+socket+" yet: waiting for one\n", out.String())
	out.Reset()
	require.NoError(t, os.WriteFile(socket, nil, 0o600))
	sayIfNoCollector(socket, &out)
	sayIfNoCollector("tcp://127.0.0.1:1", &out)
	assert.Empty(t, out.String())
}
