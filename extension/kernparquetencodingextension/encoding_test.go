package kernparquetencodingextension

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.yaml.in/yaml/v3"

	"github.com/kernhes/kernhes/internal/chunk"
)

func TestEachMessageIsAWholeFile(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and in one goroutine: the race detector has nothing to see")
	}
	portions := recorded(t, "tp2.rank0")
	c := createDefaultConfig().(*Config)
	c.Table = "k"
	e, err := newEncoding(c, componenttest.NewNopTelemetrySettings())
	require.NoError(t, err)
	var all found
	for _, p := range portions {
		all.add(p)
	}
	require.Greater(t, len(portions), 10)
	require.Equal(t, int64(117_977), all.rows) // expect.json's
	message, err := e.MarshalLogs(logs("", portions...))
	require.NoError(t, err)
	for name, reader := range readers {
		require.Equal(t, all, reader(t, message), name)
	}
}

func TestOnlyChunksAreTaken(t *testing.T) {
	telemetry := componenttest.NewTelemetry()
	defer func() { require.NoError(t, telemetry.Shutdown(context.Background())) }()
	c := createDefaultConfig().(*Config)
	c.Table = "k"
	e, err := newEncoding(c, telemetry.NewTelemetrySettings())
	require.NoError(t, err)
	good := recorded(t, "solo.rank0")[0]
	mixed := logs("", good, portion{body: []byte("no chunk")}, portion{body: good.body[:len(good.body)-1]})
	mixed.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty().Body().SetStr("hello")
	message, err := e.MarshalLogs(mixed)
	require.NoError(t, err)
	for name, reader := range readers {
		require.Equal(t, sum(good), reader(t, message), name)
	}
	_, err = e.MarshalLogs(logs("", portion{body: []byte("no chunk")}))
	require.ErrorIs(t, err, chunk.ErrVersion)
	_, err = e.MarshalLogs(plog.NewLogs())
	require.EqualError(t, err, "no log records")

	refused := map[string]int64{}
	m, err := telemetry.GetMetric("otelcol_kernparquet_encoding_refused_records")
	require.NoError(t, err)
	for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
		why, _ := p.Attributes.Value("reason")
		refused[why.AsString()] = p.Value
	}
	require.Equal(t, map[string]int64{"version": 2, "corrupt": 1, "no_chunk": 1}, refused)
	m, err = telemetry.GetMetric("otelcol_kernparquet_encoding_rows")
	require.NoError(t, err)
	require.Equal(t, good.rows, m.Data.(metricdata.Sum[int64]).DataPoints[0].Value)
}

func TestConfig(t *testing.T) {
	factory := NewFactory()
	require.NoError(t, componenttest.CheckConfigStruct(factory.CreateDefaultConfig()))
	all, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	require.NoError(t, err)
	for name, want := range map[string]*Config{
		"kernparquet_encoding": {Table: "k", Compression: "zstd", RowGroupRows: 1 << 20, ResourceAttribute: "kern.window", MaxMessages: 64},
		"kernparquet_encoding/steps": {Table: "s", Compression: "snappy", RowGroupRows: 1000, Path: "out/parquet/*.s.parquet",
			ResourceAttribute: "window", MaxMessages: 10},
	} {
		sub, err := all.Sub(name)
		require.NoError(t, err)
		got := factory.CreateDefaultConfig().(*Config)
		require.NoError(t, sub.Unmarshal(got))
		require.NoError(t, got.Validate())
		require.Equal(t, want, got)
		e, err := factory.Create(context.Background(), extensiontest.NewNopSettings(factory.Type()), got)
		require.NoError(t, err)
		require.NoError(t, e.Shutdown(context.Background()))
		require.NoError(t, e.Start(context.Background(), componenttest.NewNopHost()))
		require.NoError(t, e.Shutdown(context.Background()))
	}
	err = (&Config{Table: "x", Compression: "lzo", Path: "*/*"}).Validate()
	require.EqualError(t, err, `table: "x", want k, s, c or r
compression: "lzo", want zstd, snappy or none
row_group_rows: 0, want more than 0
path: "*/*", want one *, not at its beginning, as the file exporter's
resource_attribute: empty
max_messages: 0, want more than 0`)
}

// TestMetadata holds the instruments to metadata.yaml.
func TestMetadata(t *testing.T) {
	b, err := os.ReadFile("metadata.yaml")
	require.NoError(t, err)
	var said struct {
		Type      string
		Telemetry struct {
			Metrics map[string]struct{ Description, Unit string }
		}
	}
	require.NoError(t, yaml.Unmarshal(b, &said))
	require.Equal(t, component.MustNewType(said.Type), NewFactory().Type())
	telemetry := componenttest.NewTelemetry()
	defer func() { require.NoError(t, telemetry.Shutdown(context.Background())) }()
	c := createDefaultConfig().(*Config)
	e, err := newEncoding(c, telemetry.NewTelemetrySettings())
	require.NoError(t, err)
	ctx := context.Background()
	e.telemetry.Rows.Add(ctx, 1)
	e.telemetry.RefusedRecords.Add(ctx, 1)
	e.telemetry.RepairedFiles.Add(ctx, 1)
	for name, want := range said.Telemetry.Metrics {
		m, err := telemetry.GetMetric("otelcol_" + name)
		require.NoError(t, err, name)
		require.Equal(t, want.Description, m.Description)
		require.Equal(t, want.Unit, m.Unit)
	}
	require.Len(t, said.Telemetry.Metrics, 3)
}

// TestReadme holds its settings to the code's defaults.
func TestReadme(t *testing.T) {
	b, err := os.ReadFile("README.md")
	require.NoError(t, err)
	defaults := confmap.New()
	require.NoError(t, defaults.Marshal(createDefaultConfig()))
	for key, value := range defaults.ToStringMap() {
		said := ""
		if text := fmt.Sprint(value); text != "" {
			said = "`" + text + "`"
		}
		require.Regexp(t, regexp.QuoteMeta("| `"+key+"` | "+said)+" *\\|", string(b))
	}
}
