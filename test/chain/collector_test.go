//go:build chain

package chain_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience bounds what a test waits for; only what does not come takes so long.
const patience = 2 * time.Minute

// A collector is the built one, with a configuration of its own.
type collector struct {
	t       testing.TB
	dir     string
	config  string
	socket  string
	dump    string // "": none
	jsonl   string // of the file exporter
	metrics string // URL of the Prometheus exporter
	own     string // URL of its own metrics
	control string // URL of the receiver's control endpoint, unless options say where that is
	command *exec.Cmd
	ended   chan error
}

const configuration = `
receivers:
  kernhes:
    endpoint: "unix://%s"
%s
exporters:
  prometheus:
    endpoint: %s
    resource_constant_labels: {included: ["*"]}
    metric_expiration: 1h
  file: {path: "%s", append: true}
service:
  telemetry:
    metrics:
      readers: [{pull: {exporter: {prometheus: {host: 127.0.0.1, port: %s}}}}]
  pipelines:
    metrics: {receivers: [kernhes], exporters: [prometheus, file]}
`

// newCollector starts a collector with a dump; options are further keys of the receiver.
func newCollector(t testing.TB, options ...string) *collector {
	c := prepare(t, append(options, "dump: DIR/dump.jsonl")...)
	c.start()
	return c
}

// prepare writes a configuration; DIR in an option is the collector's folder.
func prepare(t testing.TB, options ...string) *collector {
	t.Helper()
	dir := t.TempDir()
	c := &collector{t: t, dir: dir, config: filepath.Join(dir, "config.yaml"), socket: filepath.Join(dir, "k.sock"),
		jsonl: filepath.Join(dir, "metrics.jsonl")}
	address, own := freeAddress(t), freeAddress(t)
	c.metrics, c.own = "http://"+address+"/metrics", "http://"+own+"/metrics"
	_, port, err := net.SplitHostPort(own)
	require.NoError(t, err)
	if !slices.ContainsFunc(options, func(o string) bool { return strings.HasPrefix(o, "collection_interval:") }) {
		options = append(options, "collection_interval: 1h") // what is exported, is exported at bye
	}
	if !slices.ContainsFunc(options, func(o string) bool { return strings.HasPrefix(o, "control_endpoint:") }) {
		control := freeAddress(t) // collectors beside each other have not one address
		options = append(options, "control_endpoint: "+control)
		c.control = "http://" + control
	}
	keys := ""
	for _, o := range options {
		keys += "    " + strings.ReplaceAll(o, "DIR", dir) + "\n"
		if path, ok := strings.CutPrefix(o, "dump: DIR/"); ok {
			c.dump = filepath.Join(dir, path)
		}
	}
	text := fmt.Sprintf(configuration, c.socket, keys, address, c.jsonl, port)
	require.NoError(t, os.WriteFile(c.config, []byte(text), 0o600))
	t.Cleanup(func() {
		c.kill()
		if t.Failed() {
			t.Logf("the collector's log:\n%s", tail(c.log(), 40))
		}
	})
	return c
}

// nextPort counts through the ports that the kernel gives nobody by itself: one of those could be an outgoing connection's
// when a collector comes back to it.
var nextPort atomic.Int32

// freeAddress is one on which nobody listens, and that no other test is given.
func freeAddress(t testing.TB) string {
	t.Helper()
	for range 10_000 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20_000+nextPort.Add(1)%10_000))
		if err == nil {
			require.NoError(t, l.Close())
			return l.Addr().String()
		}
	}
	t.Fatal("no port between 20000 and 30000 is free")
	return ""
}

// start begins a life of the collector and waits until it listens.
func (c *collector) start() {
	c.t.Helper()
	log, err := os.OpenFile(filepath.Join(c.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(c.t, err)
	defer log.Close()
	c.command = exec.Command(binary("otelcol-kernhes"), "--config", c.config)
	c.command.Stdout, c.command.Stderr = log, log
	ready := c.lives()
	require.NoError(c.t, c.command.Start())
	c.ended = make(chan error, 1)
	go func(command *exec.Cmd, ended chan error) { ended <- command.Wait() }(c.command, c.ended)
	for c.lives() == ready {
		select {
		case err := <-c.ended:
			c.command = nil
			c.t.Fatalf("the collector ended: %v\n%s", err, tail(c.log(), 20))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// lives is how often a collector got ready.
func (c *collector) lives() int { return strings.Count(c.log(), "Everything is ready") }

// stop ends the collector as a service manager would.
func (c *collector) stop() {
	c.t.Helper()
	c.end(syscall.SIGTERM)
}

// kill ends the collector, if it runs, with -9.
func (c *collector) kill() { c.end(syscall.SIGKILL) }

func (c *collector) end(signal os.Signal) {
	if c.command == nil {
		return
	}
	_ = c.command.Process.Signal(signal)
	select {
	case <-c.ended:
	case <-time.After(patience):
		_ = c.command.Process.Kill()
		<-c.ended
		c.t.Errorf("the collector did not end by %v", signal)
	}
	c.command = nil
}

// log is all that its lives wrote.
func (c *collector) log() string {
	text, err := os.ReadFile(filepath.Join(c.dir, "log"))
	if err != nil && !os.IsNotExist(err) {
		c.t.Fatal(err)
	}
	return string(text)
}

// logged is the first line of the log with all of parts, or "".
func (c *collector) logged(parts ...string) string {
lines:
	for line := range strings.Lines(c.log()) {
		for _, p := range parts {
			if !strings.Contains(line, p) {
				continue lines
			}
		}
		return line
	}
	return ""
}

// eventually waits until something holds.
func (c *collector) eventually(what string, holds func() bool) {
	c.t.Helper()
	for until := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			c.t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// tail is the last n lines of text.
func tail(text string, n int) string {
	lines := bytes.Split([]byte(text), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-n):], []byte("\n")))
}

// resident is what a process has in memory, in bytes; 0 if it has ended.
func resident(pid int) uint64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	pages, _ := strconv.ParseUint(strings.Fields(string(text))[1], 10, 64)
	return pages * uint64(os.Getpagesize())
}
