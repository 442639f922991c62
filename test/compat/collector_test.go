package compat_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/kernhes/kernhes/exporter/kernparquetexporter"
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver"
)

// heard plays the bytes of an old shim to a receiver of today: its metrics at the end, and its log records.
func heard(t *testing.T, session []byte) (metrics map[string]float64, logs plog.Logs) {
	t.Helper()
	dir := t.TempDir()
	factory := kernhesreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	require.NoError(t, confmap.NewFromStringMap(map[string]any{
		"endpoint": "unix://" + dir + "/k.sock", "control_endpoint": "", "collection_interval": "20ms",
	}).Unmarshal(config))
	var numbers consumertest.MetricsSink
	var records consumertest.LogsSink
	set := receivertest.NewNopSettings(factory.Type())
	first, err := factory.CreateMetrics(t.Context(), set, config, &numbers)
	require.NoError(t, err)
	second, err := factory.CreateLogs(t.Context(), set, config, &records)
	require.NoError(t, err)
	host := componenttest.NewNopHost()
	require.NoError(t, first.Start(t.Context(), host))
	require.NoError(t, second.Start(t.Context(), host))

	conn, err := net.Dial("unix", dir+"/k.sock")
	require.NoError(t, err)
	_, err = conn.Write(session)
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	// The collector closes when it has acknowledged the bye; what it answers until then has to be there to be read.
	answers := wire.NewReader(conn)
	for acknowledged := false; !acknowledged; {
		f, err := answers.Next()
		require.NoError(t, err, "the session is not acknowledged to its end")
		acknowledged = f.Kind == wire.KindAck && binary.LittleEndian.Uint64(f.Body) == lastNumber(t, session)
	}
	require.NoError(t, conn.Close())
	require.NoError(t, first.Shutdown(t.Context()))
	require.NoError(t, second.Shutdown(t.Context()))

	metrics = map[string]float64{}
	last := map[string]float64{}
	for _, m := range numbers.AllMetrics() {
		for key, value := range points(m) {
			last[key] = value
		}
	}
	for key, value := range last {
		name, _, _ := strings.Cut(key, " ")
		metrics[name] += value
		metrics[key] += value
	}
	logs = plog.NewLogs()
	for _, l := range records.AllLogs() {
		l.ResourceLogs().MoveAndAppendTo(logs.ResourceLogs())
	}
	return metrics, logs
}

// points are the sums of a metrics message, by name and kind.
func points(m pmetric.Metrics) map[string]float64 {
	all := map[string]float64{}
	for _, r := range m.ResourceMetrics().All() {
		for _, s := range r.ScopeMetrics().All() {
			for _, metric := range s.Metrics().All() {
				if metric.Type() != pmetric.MetricTypeSum {
					continue
				}
				for _, p := range metric.Sum().DataPoints().All() {
					value := p.DoubleValue()
					if p.ValueType() == pmetric.NumberDataPointValueTypeInt {
						value = float64(p.IntValue())
					}
					all[metric.Name()+" "+label(p.Attributes(), "kind")+label(p.Attributes(), "reason")+label(p.Attributes(), "program")] += value
				}
			}
		}
	}
	return all
}

func label(attributes pcommon.Map, name string) string {
	if v, ok := attributes.Get(name); ok {
		return v.AsString()
	}
	return ""
}

// lastNumber is the number of a session's last frame.
func lastNumber(t *testing.T, session []byte) (n uint64) {
	t.Helper()
	for r := wire.NewReader(bytes.NewReader(session)); ; {
		f, err := r.Next()
		if err == io.EOF {
			return n
		}
		require.NoError(t, err)
		n = max(n, f.Number)
	}
}

// TestOldShim has a receiver of today hear what an old shim sent.
func TestOldShim(t *testing.T) {
	each(t, func(t *testing.T, dir string) {
		want := expectations(t, dir)
		session, err := os.ReadFile(filepath.Join(dir, "session.wire"))
		require.NoError(t, err)
		metrics, logs := heard(t, session)
		assert.EqualValues(t, want.Steps, metrics["kern_steps_total decode"])
		assert.InDelta(t, float64(want.ComputeNS)*1e-9, metrics["kern_step_compute_seconds_total"], 1e-12)
		assert.InDelta(t, float64(want.CommNS)*1e-9, metrics["kern_step_comm_seconds_total"], 1e-12)
		assert.InDelta(t, float64(want.ComputeNS)*1e-9, metrics["kern_device_seconds_total compute"], 1e-12)
		assert.Zero(t, metrics["kern_trace_dropped_records_total"])
		assert.Zero(t, metrics["kern_steps_incomplete_total"])
		if rewrites(t, dir) {
			text, err := (&plog.ProtoMarshaler{}).MarshalLogs(logs)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "logs.otlp"), text, 0o644))
		}
		stored(t, want, logs, "")
	})
}

// TestOldChunks has an exporter of today store what an old receiver packed.
func TestOldChunks(t *testing.T) {
	each(t, func(t *testing.T, dir string) {
		text, err := os.ReadFile(filepath.Join(dir, "logs.otlp"))
		require.NoError(t, err)
		logs, err := (&plog.ProtoUnmarshaler{}).UnmarshalLogs(text)
		require.NoError(t, err)
		keep := ""
		if rewrites(t, dir) {
			keep = filepath.Join(dir, "archive")
		}
		stored(t, expectations(t, dir), logs, keep)
	})
}

// stored writes log records as files, reads these, and keeps them in a folder if it has a name.
func stored(t *testing.T, want expected, logs plog.Logs, keep string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "archive")
	factory := kernparquetexporter.NewFactory()
	config := factory.CreateDefaultConfig()
	require.NoError(t, confmap.NewFromStringMap(map[string]any{
		"directory": dir, "http": map[string]any{"enabled": false}, "sending_queue": map[string]any{"enabled": false},
	}).Unmarshal(config))
	e, err := factory.CreateLogs(t.Context(), exportertest.NewNopSettings(factory.Type()), config)
	require.NoError(t, err)
	require.NoError(t, e.Start(t.Context(), componenttest.NewNopHost()))
	require.NoError(t, e.ConsumeLogs(t.Context(), logs))
	require.NoError(t, e.Shutdown(t.Context()))
	read(t, want, dir)
	if keep != "" {
		require.NoError(t, os.RemoveAll(keep))
		require.NoError(t, os.MkdirAll(keep, 0o755))
		for _, table := range []string{"k", "s", "c"} {
			files, err := filepath.Glob(filepath.Join(dir, table+"-*.parquet"))
			require.NoError(t, err)
			require.Len(t, files, 1)
			text, err := os.ReadFile(files[0])
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(keep, table+"-compat.parquet"), text, 0o644))
		}
	}
}

// read compares an archive with what the engine did.
func read(t *testing.T, want expected, dir string) {
	t.Helper()
	type kernel struct {
		Run     string `parquet:"run"`
		Seq     *int64 `parquet:"seq,optional"`
		Program string `parquet:"program"`
		Call    string `parquet:"call"`
		Class   string `parquet:"class"`
		Dur     int64  `parquet:"dur_ns"`
	}
	type step struct {
		Seq      int64 `parquet:"seq"`
		Complete bool  `parquet:"complete"`
		Compute  int64 `parquet:"compute_ns"`
	}
	got, sums, calls := expected{}, map[string]int64{}, map[string]bool{}
	for _, r := range rows[kernel](t, dir, "k") {
		assert.Equal(t, "compat", r.Run)
		if r.Seq != nil {
			got.Kernels++
			sums[r.Class] += r.Dur
			calls[r.Call] = true
		}
	}
	for _, r := range rows[step](t, dir, "s") {
		if r.Complete {
			got.Steps++
		}
	}
	got.ComputeNS, got.CommNS, got.Calls = sums["compute"], sums["comm"], len(calls)
	assert.Equal(t, want, got)
}

// rows are those of a table.
func rows[T any](t *testing.T, dir, table string) (all []T) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, table+"-*.parquet"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		some, err := parquet.ReadFile[T](file)
		require.NoError(t, err)
		all = append(all, some...)
	}
	return all
}

// TestOldArchive reads files of old versions; analysis has the queries.
func TestOldArchive(t *testing.T) {
	each(t, func(t *testing.T, dir string) { read(t, expectations(t, dir), filepath.Join(dir, "archive")) })
}

// TestOldShimsReadTodaysAnswers holds what a collector of today says to what shims of the first version read. A longer
// answer would be one that they refuse.
func TestOldShimsReadTodaysAnswers(t *testing.T) {
	check := func(want string, got []byte) {
		t.Helper()
		assert.Equal(t, want, hex.EncodeToString(got))
	}
	// Header: length, kind, flags, number; then the body, little-endian: WIRE.md.
	check("08000000"+"4100"+"0000"+"0000000000000000"+"0807060504030201", wire.AppendAck(nil, 0x0102030405060708))
	each(t, func(t *testing.T, dir string) {
		welcome, err := os.ReadFile(filepath.Join(dir, "welcome.bin"))
		require.NoError(t, err)
		check(hex.EncodeToString(welcome), wire.AppendWelcome(nil, wire.Welcome{}))
	})
}
