package kernparquetexporter

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
)

// loaded reads one entry of testdata/config.yaml.
func loaded(t *testing.T, key string) (*Config, error) {
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
		got, err := loaded(t, key)
		require.NoError(t, err, key)
		assert.Equal(t, want, got, key)
		assert.NoError(t, confmap.Validate(component.Config(got)), key)
	}
	check("kernparquet", func(c *Config) { c.Directory = "/var/lib/kernhes/archive" })
	check("kernparquet/all", func(c *Config) {
		c.Directory, c.Roll, c.RowGroupRows, c.Compression, c.Profile = "/data/kernels", time.Hour, 1<<20, "snappy", "small"
		c.FileMode = 0o600
		c.Retention.MaxAge, c.Retention.MaxBytes = 7*24*time.Hour, 500_000_000_000
		c.HTTP.Get().NetAddr.Endpoint = "127.0.0.1:9090"
		storage := component.MustNewIDWithName("file_storage", "archive")
		c.Queue.Get().QueueSize, c.Queue.Get().StorageID = 256<<20, &storage
		c.Retry.InitialInterval = time.Second
	})
	check("kernparquet/no_server", func(c *Config) {
		c.Directory = "/data/kernels"
		c.HTTP, c.Queue = configoptional.None[confighttp.ServerConfig](), configoptional.None[exporterhelper.QueueBatchConfig]()
	})
}

func TestConfigRefusesUnknownKeys(t *testing.T) {
	_, err := loaded(t, "kernparquet/unknown_key")
	assert.ErrorContains(t, err, "rol")
	_, err = loaded(t, "kernparquet/bad_mode")
	assert.ErrorContains(t, err, `file_mode: "rw-r-----" is not octal`)
}

func TestConfigNamesEveryFault(t *testing.T) {
	cfg, err := loaded(t, "kernparquet/faults")
	require.NoError(t, err)
	err = cfg.Validate()
	require.Error(t, err)
	for _, key := range []string{"directory: is required", "file_mode: 0777", "roll: 7m", "row_group_rows: 10", `compression: "gzip"`, `profile: "tiny"`,
		"retention::max_age: -1s", "retention::max_bytes: -1", "http::endpoint: is empty"} {
		assert.ErrorContains(t, err, key)
	}
	assert.Len(t, strings.Split(err.Error(), "\n"), 9, "one line a fault")
	cfg.Roll = 1500 * time.Millisecond
	assert.ErrorContains(t, cfg.Validate(), "roll: 1.5s")
}
