package lint_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/lint"
)

// good is a configuration without a mistake.
const good = `
receivers:
  kernhes:
    endpoint: unix:///run/kernhes/kernhes.sock
processors:
  memory_limiter: {check_interval: 1s, limit_mib: 4096}
  batch: {}
exporters:
  prometheus:
    endpoint: 127.0.0.1:9464
    resource_constant_labels: {included: ["*"]}
  kernparquet:
    directory: /var/lib/kernhes/archive
    retention: {max_bytes: 20000000000}
    sending_queue: {storage: file_storage}
  otlp:
    endpoint: gateway:4317
    sending_queue: {sizer: bytes, queue_size: 134217728}
connectors:
  kernwaits:
extensions:
  file_storage: {directory: /var/lib/kernhes/queue}
  health_check: {endpoint: "127.0.0.1:13133"}
service:
  extensions: [file_storage, health_check]
  telemetry: {metrics: {readers: [{pull: {exporter: {prometheus: {host: 127.0.0.1, port: 8888}}}}]}}
  pipelines:
    metrics: {receivers: [kernhes, kernwaits], processors: [memory_limiter, batch], exporters: [prometheus]}
    logs: {receivers: [kernhes], processors: [memory_limiter], exporters: [kernparquet, otlp, kernwaits]}
`

// TestMistakes is the list of the mistakes that are found. Each is made in a configuration that has no other.
func TestMistakes(t *testing.T) {
	findings, err := lint.Check([]byte(good))
	require.NoError(t, err)
	require.Empty(t, findings)
	for _, mistake := range []struct {
		what      string
		from, to  string // what is changed in good; from "": to is the whole
		want      string // how the finding begins
		andOthers bool   // the mistake has other consequences
	}{
		{"the archive is in no pipeline", "[kernparquet, otlp, kernwaits]", "[otlp, kernwaits]", "fault: exporters::kernparquet: is in no pipeline", false},
		{"the receiver is in no pipeline", "receivers: [kernhes", "receivers: [otlp", "fault: receivers::kernhes: is in no pipeline", false},
		{"a processor is in no pipeline", "[memory_limiter, batch]", "[memory_limiter]", "fault: processors::batch: is in no pipeline", false},
		{"an extension is not started", "[file_storage, health_check]", "[file_storage]", "fault: extensions::health_check: is not started", false},
		{"the queue's storage is not started", "[file_storage, health_check]", "[health_check]",
			"fault: exporters::kernparquet::sending_queue::storage: file_storage is not started", true},
		{"the authenticator is not started", "kernhes.sock\n", "kernhes.sock\n    auth: {authenticator: bearertokenauth}\n",
			"fault: receivers::kernhes::auth::authenticator: bearertokenauth is not started", false},
		{"the archive is in a metrics pipeline", "exporters: [prometheus]", "exporters: [prometheus, kernparquet]",
			"fault: service::pipelines::metrics: kernparquet takes logs only", false},
		{"two servers have one port", "127.0.0.1:13133", "127.0.0.1:9464", "fault: extensions::health_check::endpoint: exporters::prometheus::endpoint has port 9464", false},
		{"a server has the port of the page, which is not set", "127.0.0.1:13133", "127.0.0.1:8988",
			"fault: extensions::health_check::endpoint: receivers::kernhes::control_endpoint has port 8988", false},
		{"a server has the port of the waits, which is not set", "127.0.0.1:13133", "127.0.0.1:8990",
			"fault: extensions::health_check::endpoint: connectors::kernwaits::http::endpoint has port 8990", false},
		{"the connector's metrics go nowhere", "[kernhes, kernwaits]", "[kernhes]", "fault: connectors::kernwaits: is in no pipeline as a receiver", false},
		{"no receiver hears engines", "\n  kernhes:\n    endpoint: unix:///run/kernhes/kernhes.sock", "\n  nop: {}", "fault: receivers: none is kernhes or otlp", true},
		{"metrics are open to other hosts", "127.0.0.1:9464", "0.0.0.0:9464", "warning: exporters::prometheus::endpoint: 0.0.0.0:9464: other hosts", false},
		{"an address without a host", "127.0.0.1:9464", ":9464", "warning: exporters::prometheus::endpoint: :9464: other hosts", false},
		{"the page is open to other hosts", "kernhes.sock\n", "kernhes.sock\n    control_endpoint: \"[::]:8988\"\n",
			"warning: receivers::kernhes::control_endpoint: [::]:8988: other hosts", false},
		{"the collector's own metrics are open", "host: 127.0.0.1", "host: 0.0.0.0", "warning: service::telemetry::metrics::readers[0]: 0.0.0.0:8888", false},
		{"everybody may connect", "kernhes.sock\n", "kernhes.sock\n    socket_mode: \"0666\"\n", "warning: receivers::kernhes::socket_mode: every user", false},
		{"the same without quotes", "kernhes.sock\n", "kernhes.sock\n    socket_mode: 0666\n", "warning: receivers::kernhes::socket_mode: every user", false},
		{"everybody may read the archive", "    directory: /var/lib/kernhes/archive\n", "    directory: /var/lib/kernhes/archive\n    file_mode: \"0644\"\n",
			"warning: exporters::kernparquet::file_mode: every user", false},
		{"the archive fills the disk", "    retention: {max_bytes: 20000000000}\n", "", "warning: exporters::kernparquet::retention: files are kept", false},
		{"the archive's queue is in memory", "    sending_queue: {storage: file_storage}\n", "", "warning: exporters::kernparquet::sending_queue: chunks that wait", false},
		{"a dump on a server", "kernhes.sock\n", "kernhes.sock\n    dump: /tmp/dump\n", "warning: receivers::kernhes::dump: the file grows", false},
		{"engines have the same series", "    resource_constant_labels: {included: [\"*\"]}\n", "", "warning: exporters::prometheus: two engines", false},
		{"nothing bounds the memory", "logs: {receivers: [kernhes], processors: [memory_limiter]", "logs: {receivers: [kernhes], processors: []",
			"warning: service::pipelines::logs: nothing bounds its memory", false},
		{"the memory limiter is not first", "[memory_limiter, batch]", "[batch, memory_limiter]", "warning: service::pipelines::metrics: memory_limiter comes after batch", false},
		{"a queue of chunks counts requests", "sizer: bytes, ", "", "warning: exporters::otlp::sending_queue: 1000 chunks", false},
		{"losses are seen nowhere", "    metrics: {receivers: [kernhes, kernwaits]", "    metrics: {receivers: [kernwaits]", "warning: receivers::kernhes: is in no metrics pipeline", true},
		{"two receivers have one socket", "processors:\n", "  kernhes/b: {control_endpoint: \"\"}\nprocessors:\n", "fault: receivers::kernhes/b::endpoint: receivers::kernhes has unix://", true},
		{"two archives have one folder", "exporters:\n  prometheus:", "exporters:\n  kernparquet/b: {directory: /var/lib/kernhes/archive, http: {enabled: false}}\n  prometheus:",
			"fault: exporters::kernparquet/b::directory: exporters::kernparquet has /var/lib", true},
	} {
		require.Contains(t, good, mistake.from, mistake.what)
		findings, err := lint.Check([]byte(strings.Replace(good, mistake.from, mistake.to, n(mistake.from))))
		require.NoError(t, err, mistake.what)
		var found []string
		for _, f := range findings {
			if !strings.HasPrefix(f.String(), mistake.want) {
				found = append(found, f.String())
			}
		}
		assert.Len(t, findings, len(found)+1, "%s: want %q among %v", mistake.what, mistake.want, findings)
		if !mistake.andOthers {
			assert.Empty(t, found, mistake.what)
		}
	}
}

// n has a receiver go from all pipelines; all else is changed once.
func n(from string) int {
	if from == "receivers: [kernhes" {
		return -1
	}
	return 1
}

// explained are the warnings that a shipped file is right to get.
var explained = map[string]string{
	// It shows the archive alone.
	"file-exporter.yaml": "warning: receivers::kernhes: is in no metrics pipeline: losses and device time are seen nowhere",
}

// TestShippedConfigurations holds what we ship to our own advice: no fault, and no warning but those that a file explains.
func TestShippedConfigurations(t *testing.T) {
	files, err := filepath.Glob("../../otelcol-dist/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range append(files, "../../packaging/config.yaml") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		findings, err := lint.Check(text)
		require.NoError(t, err)
		for _, f := range findings {
			assert.Equal(t, explained[filepath.Base(file)], f.String(), file)
		}
	}
}

func TestNoYAML(t *testing.T) {
	_, err := lint.Check([]byte("a: [b"))
	assert.Error(t, err)
}
