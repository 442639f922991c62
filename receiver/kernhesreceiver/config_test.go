package kernhesreceiver

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/confignet"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"
)

// load reads one entry of testdata/config.yaml.
func load(t *testing.T, key string) (*Config, error) {
	t.Helper()
	all, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	require.NoError(t, err)
	sub, err := all.Sub(key)
	require.NoError(t, err)
	cfg := createDefaultConfig().(*Config)
	return cfg, sub.Unmarshal(cfg)
}

func TestConfigLoads(t *testing.T) {
	require.NoError(t, componenttest.CheckConfigStruct(createDefaultConfig()))
	check := func(key string, change func(*Config)) {
		t.Helper()
		want := createDefaultConfig().(*Config)
		change(want)
		got, err := load(t, key)
		require.NoError(t, err, key)
		assert.Equal(t, want, got, key)
		assert.NoError(t, confmap.Validate(component.Config(got)), key)
	}
	check("kernhes", func(*Config) {})
	check("kernhes/unix", func(c *Config) { c.Endpoint, c.SocketMode = "/run/engines/k.sock", 0o600 })
	check("kernhes/mode", func(c *Config) { c.SocketMode = 0o600 })
	tcp := func(c *Config) { c.Transport, c.Endpoint = confignet.TransportTypeTCP, "127.0.0.1:7777" }
	check("kernhes/tcp", tcp)
	check("kernhes/plain", tcp)
	check("kernhes/all", func(c *Config) {
		c.Endpoint, c.SocketMode = "/run/engines/k.sock", 0o666
		c.AllowedUIDs = []uint32{0, 1000}
		c.CollectionInterval, c.StepTimeout = time.Second, 2*time.Second
		c.ReconnectTimeout, c.HandshakeTimeout, c.SilenceTimeout = 3*time.Second, 4*time.Second, 5*time.Second
		c.Patterns = []PatternConfig{{Domain: "engine",
			Match: `^execute_model (?P<program>\w+) bs=(?P<seqs>\d+) tokens=(?P<tokens>\d+)$`}}
		c.CallDomains = []string{"", "engine"}
		c.BatchEdges, c.KVEdges = []int64{1, 8, 64}, []int64{4096}
		c.MaxStrings, c.MaxRanges, c.MaxShapes = 1000, 2000, 3000
		c.MaxSeries, c.MaxSessions, c.MaxConnections, c.MaxSessionBytes = 10, 2, 3, 64<<20
		c.Dump = "/var/lib/kernhes/steps.jsonl"
	})
}

func TestConfigRefuses(t *testing.T) {
	for key, want := range map[string]string{
		"kernhes/contradiction": `contradicts transport: "tcp"`,
		"kernhes/unknown_key":   "socket_mod",
		"kernhes/bad_mode":      `socket_mode: "rw-rw----" is not octal`,
	} {
		_, err := load(t, key)
		assert.ErrorContains(t, err, want, key)
	}
}

func TestConfigNamesEveryFault(t *testing.T) {
	cfg, err := load(t, "kernhes/faults")
	require.NoError(t, err)
	err = cfg.Validate()
	require.Error(t, err)
	for _, key := range []string{
		"endpoint: unix socket", "socket_mode: 1777", "collection_interval: 0s", "step_timeout: -1s", "reconnect_timeout: 0s",
		"handshake_timeout: 0s", "silence_timeout: 0s", `patterns[0]: match: group "programme"`, "patterns[1]: match: error parsing regexp",
		"patterns[2]: match: is empty", "patterns[3]: match: no group named program", "batch_edges[1]: 2", "kv_edges[0]: 0", "max_strings: 0", "max_ranges: 0", "max_shapes: 1",
		"max_series: 0", "max_sessions: 0",
		"max_connections: -1", "max_session_bytes: 1024",
	} {
		assert.ErrorContains(t, err, key)
	}
	assert.Len(t, strings.Split(err.Error(), "\n"), 20, "one line a fault")

	cfg = createDefaultConfig().(*Config)
	cfg.Transport = confignet.TransportTypeUDP
	assert.ErrorContains(t, cfg.Validate(), "transport")
	cfg.Transport, cfg.Endpoint, cfg.AllowedUIDs = confignet.TransportTypeTCP, "localhost", []uint32{0}
	assert.ErrorContains(t, cfg.Validate(), "endpoint")
	assert.ErrorContains(t, cfg.Validate(), "allowed_uids")
	cfg.Transport, cfg.Endpoint = confignet.TransportTypeUnix, "/"+strings.Repeat("x", 107)
	assert.ErrorContains(t, cfg.Validate(), "endpoint: unix socket path of 108 bytes")
}

func TestWhatIsRefusedWithTheRightForm(t *testing.T) {
	check := func(want string, settings map[string]any) {
		t.Helper()
		cfg := createDefaultConfig().(*Config)
		err := confmap.NewFromStringMap(settings).Unmarshal(cfg)
		if err == nil {
			err = confmap.Validate(component.Config(cfg))
		}
		if want == "" {
			require.NoError(t, err)
			return
		}
		require.ErrorContains(t, err, want)
	}
	check("collection_interval: 10: a duration needs a unit, as 10s or 10ms", map[string]any{"collection_interval": 10})
	check("traces::keep: 2: a duration needs a unit, as 2s or 2ms", map[string]any{"traces": map[string]any{"keep": 2}})
	check("", map[string]any{"traces": map[string]any{"keep": "2s"}})
	check(`endpoint: "unix:/tmp/x.sock": want unix:///path, or tcp://host:port`, map[string]any{"endpoint": "unix:/tmp/x.sock"})
	check(`endpoint: "tcp:host/4": want unix:///path, or tcp://host:port`, map[string]any{"endpoint": "tcp:host/4"})
	check("", map[string]any{"endpoint": "unix:///tmp/with:colon/x.sock"})
	check("", map[string]any{"endpoint": "/tmp/x.sock"})
	check(`preset "vlm": want one of kernhes, sglang, tensorrt-llm, vllm`, map[string]any{"patterns": []any{map[string]any{"preset": "vlm"}}})
	check("a preset goes alone", map[string]any{"patterns": []any{map[string]any{"preset": "vllm", "program": "x"}}})
	check("is empty: want an expression, or one of the presets", map[string]any{"patterns": []any{map[string]any{"domain": "x"}}})
	check("", map[string]any{"patterns": []any{map[string]any{"preset": "vllm"}, map[string]any{"preset": "sglang"}, map[string]any{"match": "^x$", "program": "x"}}})
}
