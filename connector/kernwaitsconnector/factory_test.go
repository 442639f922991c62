package kernwaitsconnector

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/connector/connectortest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/metadata"
)

func TestDefaultsAreValid(t *testing.T) {
	require.NoError(t, componenttest.CheckConfigStruct(createDefaultConfig()))
	require.NoError(t, confmap.Validate(createDefaultConfig()))
}

func TestConfigNamesEveryFault(t *testing.T) {
	c := &Config{CollectionInterval: time.Millisecond, WaitForRanks: time.Millisecond, MaxMemoryMiB: 0, MaxSeries: 1}
	err := c.Validate()
	for _, key := range []string{"collection_interval: 1ms", "wait_for_ranks: 1ms", "max_memory_mib: 0", "max_series: 1"} {
		require.ErrorContains(t, err, key)
	}
	err = createDefaultConfig().(*Config).Unmarshal(confmap.NewFromStringMap(map[string]any{"wait_for_ranks": 5}))
	require.ErrorContains(t, err, "wait_for_ranks: 5: a duration needs a unit")
}

// A log record that holds no chunk is counted, and fails nothing.
func TestOtherLogsAreCounted(t *testing.T) {
	sink := new(consumertest.MetricsSink)
	set := connectortest.NewNopSettings(metadata.Type)
	config := createDefaultConfig().(*Config)
	config.HTTP = configoptional.None[confighttp.ServerConfig]()
	c, err := NewFactory().CreateLogsToMetrics(t.Context(), set, component.Config(config), sink)
	require.NoError(t, err)
	require.NoError(t, c.Shutdown(t.Context()), "before Start")
	require.NoError(t, c.Start(t.Context(), componenttest.NewNopHost()))
	logs := plog.NewLogs()
	logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty().Body().SetStr("hello")
	require.NoError(t, c.ConsumeLogs(t.Context(), logs))
	require.NoError(t, c.Shutdown(t.Context()))
	require.NoError(t, c.Shutdown(t.Context()), "twice")
	all := sink.AllMetrics()
	require.NotEmpty(t, all)
	metrics := all[len(all)-1].ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics()
	for _, m := range metrics.All() {
		if m.Name() == metadata.KernWaitsRefusedRecordsTotal.Name {
			for _, p := range m.Sum().DataPoints().All() {
				reason, _ := p.Attributes().Get("refusal")
				require.EqualValues(t, map[string]int{"not_a_chunk": 1}[reason.Str()], p.IntValue(), reason.Str())
			}
		}
	}
}
