//go:build chain

package chain_test

import (
	encoding "encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// A backend stands for any that takes OTLP: a second collector, which writes what it is sent to a file.
type backend struct {
	*collector
	address string
	file    string
}

const backendConfiguration = `
receivers:
  otlp: {protocols: {grpc: {endpoint: %s}}}
exporters:
  file: {path: "%s", format: proto}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    traces: {receivers: [otlp], exporters: [file]}
`

func newBackend(t testing.TB) *backend {
	t.Helper()
	dir := t.TempDir()
	b := &backend{&collector{t: t, dir: dir, config: filepath.Join(dir, "config.yaml")}, freeAddress(t), filepath.Join(dir, "traces")}
	require.NoError(t, os.WriteFile(b.config, fmt.Appendf(nil, backendConfiguration, b.address, b.file), 0o600))
	t.Cleanup(b.kill)
	b.start()
	return b
}

// spans ends the back end and gives what it was sent.
func (b *backend) spans() *spans {
	b.t.Helper()
	b.stop()
	bytes, err := os.ReadFile(b.file)
	require.NoError(b.t, err)
	all, size := &spans{}, len(bytes)
	for len(bytes) > 0 { // a message is its length and its bytes
		n := encoding.BigEndian.Uint32(bytes)
		traces, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(bytes[4 : 4+n])
		require.NoError(b.t, err)
		all.take(b.t, traces)
		bytes = bytes[4+n:]
	}
	b.t.Logf("%d spans, %d of them again, in %d bytes", len(all.of)+all.doubles, all.doubles, size)
	return all
}

// everyStep has each step written as a trace.
const everyStep = "traces: {sample_one_in: 1, spans_per_second: 1000000000}"

// sendTraces gives a collector that has not been started a pipeline of traces to an OTLP endpoint.
func (c *collector) sendTraces(address string) {
	c.t.Helper()
	text, err := os.ReadFile(c.config)
	require.NoError(c.t, err)
	exporter := fmt.Sprintf("\nexporters:\n  otlp_grpc: {endpoint: %q, tls: {insecure: true}}\n", address)
	with := strings.Replace(string(text), "\nexporters:\n", exporter, 1) + "    traces: {receivers: [kernhes], exporters: [otlp_grpc]}\n"
	require.NoError(c.t, os.WriteFile(c.config, []byte(with), 0o600))
}

// newTracing starts a collector that sends traces to a back end; options are further keys of the receiver.
func newTracing(t testing.TB, options ...string) (*collector, *backend) {
	t.Helper()
	b := newBackend(t)
	c := prepare(t, options...)
	c.sendTraces(b.address)
	c.start()
	return c, b
}
