//go:build chain

// Package chain_test plays recordings through the whole chain, as it is built and shipped: kernhes-play with the mock
// libcupti, libkernhes.so, otelcol-kernhes. What it looks at is what the collector exports and nothing else: its
// Prometheus endpoint, the file exporter's JSON lines, the receiver's dump, its log.
//
// It needs `make build`; KERNHES_BIN is where that has put it, if not bin/.
package chain_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/krec"
)

const recordings = "../../testdata/recordings/"

var names = []string{"solo.rank0", "tp2.rank0", "tp2.rank1"}

func binary(name string) string {
	dir := os.Getenv("KERNHES_BIN")
	if dir == "" {
		dir = "../../bin"
	}
	path, err := filepath.Abs(filepath.Join(dir, name))
	if err != nil {
		panic(err)
	}
	return path
}

func file(name string) string { return recordings + name + ".krec.zst" }

func load(t testing.TB, name string) *krec.Recording {
	t.Helper()
	r, err := krec.Read(file(name))
	require.NoError(t, err)
	return r
}

// A play is one run of kernhes-play.
type play struct {
	t       testing.TB
	run     string
	command *exec.Cmd
	out     bytes.Buffer
	errors  bytes.Buffer
	ended   chan error
}

var runs atomic.Int32

// begin plays files to the collector; args may hold options and NAME=value for the environment.
func (c *collector) begin(t testing.TB, args ...string) *play {
	t.Helper()
	p := &play{t: t, run: fmt.Sprintf("run%d", runs.Add(1)), ended: make(chan error, 1)}
	p.command = exec.Command(binary("kernhes-play"), "--stats", "--quiet")
	p.command.Env = append(os.Environ(), "KERNHES_ENDPOINT=unix://"+c.socket, "KERNHES_RUN="+p.run)
	for _, a := range args {
		if name, value, ok := strings.Cut(a, "="); ok && strings.HasPrefix(name, "KERNHES_") {
			p.command.Env = append(p.command.Env, a)
			if name == "KERNHES_RUN" {
				p.run = value
			}
			continue
		}
		p.command.Args = append(p.command.Args, a)
	}
	p.command.Stdout, p.command.Stderr = &p.out, &p.errors
	require.NoError(t, p.command.Start())
	go func() { p.ended <- p.command.Wait() }()
	t.Cleanup(func() {
		if p.command.ProcessState == nil {
			_ = p.command.Process.Kill()
		}
	})
	return p
}

// A tally is what a play's faults took and what it delivered, by name; see kernhes-play --help.
type tally map[string]uint64

// end waits until the play has ended with a status, and gives a tally for each file.
func (p *play) end(status int) []tally {
	p.t.Helper()
	var err error
	select {
	case err = <-p.ended:
	case <-time.After(patience):
		_ = p.command.Process.Kill()
		<-p.ended
		p.t.Fatalf("kernhes-play did not end: %s", p.errors.String())
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	require.Equal(p.t, status, p.command.ProcessState.ExitCode(), "status of kernhes-play: %s", p.errors.String())
	var tallies []tally
	for line := range bytes.Lines(p.out.Bytes()) {
		var fields map[string]any
		require.NoError(p.t, json.Unmarshal(line, &fields), "%s", line)
		t := tally{}
		for name, v := range fields {
			if n, ok := v.(float64); ok {
				t[name] = uint64(n)
			}
		}
		tallies = append(tallies, t)
	}
	return tallies
}

// play plays files to their end, all of them acknowledged, and gives what was exported of each rank, in order of rank.
func (c *collector) play(t testing.TB, args ...string) ([]*rank, []tally) {
	t.Helper()
	p := c.begin(t, args...)
	tallies := p.end(0)
	return c.ranks(t, p.run), tallies
}

// waitFor lets the play go on for a while, unless it ends.
func (p *play) waitFor(ms int) {
	select {
	case err := <-p.ended:
		p.ended <- err
	case <-time.After(time.Duration(ms) * time.Millisecond):
	}
}
