package kernparquetexporter

import (
	"encoding/json"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	parquetgo "github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/kernhes/kernhes/exporter/kernparquetexporter/internal/archive"
	"github.com/kernhes/kernhes/exporter/kernparquetexporter/internal/metadata"
	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/chunk/chunktest"
	"github.com/kernhes/kernhes/internal/chunklog"
	"github.com/kernhes/kernhes/internal/krec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorded is the rank of a recording; the oracle takes seconds for it, so once is enough.
var recorded = sync.OnceValues(func() (chunktest.Rank, error) {
	r, err := krec.Read(filepath.Join("../../testdata/recordings", "solo.rank0.krec.zst"))
	if err != nil {
		return chunktest.Rank{}, err
	}
	return chunktest.Ranks(r, "run", 0)[0], nil
})

// recordedLogs are log records, a chunk each, of a recorded rank, as of so many sessions of it.
func recordedLogs(t *testing.T, sessions int) (plog.Logs, chunktest.Rank) {
	t.Helper()
	rank, err := recorded()
	require.NoError(t, err)
	logs := plog.NewLogs()
	records := logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
	for i := range sessions {
		id := rank.Identity
		id.Session += uint64(i)
		id.Rank += int64(i)
		p := chunk.NewPacker(id, func(s *chunk.Sealed) { chunklog.Put(s, records.AppendEmpty(), "run") })
		for k := range rank.Steps {
			require.NoError(t, p.Add(&rank.Steps[k]))
		}
		p.AddCopies(rank.Copies)
		p.Cut()
	}
	return logs, rank
}

// started makes and starts an exporter of the factory.
func started(t *testing.T, cfg *Config, set exporter.Settings) exporter.Logs {
	t.Helper()
	e, err := NewFactory().CreateLogs(t.Context(), set, cfg)
	require.NoError(t, err)
	require.NoError(t, e.Start(t.Context(), componenttest.NewNopHost()))
	return e
}

// config is for a directory, with a server on a free port and no queue: so ConsumeLogs answers for what it was given.
func config(t *testing.T) *Config {
	t.Helper()
	cfg := createDefaultConfig().(*Config)
	cfg.Directory = filepath.Join(t.TempDir(), "archive")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	cfg.HTTP.Get().NetAddr.Endpoint = l.Addr().String()
	require.NoError(t, l.Close())
	return cfg
}

func ask(t *testing.T, method, endpoint, path string, to any) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+endpoint+path, nil)
	require.NoError(t, err)
	transport := &http.Transport{DisableKeepAlives: true}
	answer, err := transport.RoundTrip(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	if to != nil {
		require.NoError(t, json.Unmarshal(b, to), string(b))
	}
	return answer.StatusCode
}

func TestRecordingsAreFlushedWhole(t *testing.T) {
	cfg := config(t)
	cfg.Queue.Get().WaitForResult = true
	e := started(t, cfg, exportertest.NewNopSettings(metadata.Type))
	endpoint := cfg.HTTP.Get().NetAddr.Endpoint
	logs, rank := recordedLogs(t, 2)
	require.NoError(t, e.ConsumeLogs(t.Context(), logs))
	want := archive.Rows{Kernels: 2 * int64(rank.Want.Kernels), Copies: 2 * int64(len(rank.Copies))}
	for i := range rank.Steps {
		if !rank.Steps[i].Outside {
			want.Steps += 2
		}
	}
	var status archive.Status
	require.Equal(t, http.StatusOK, ask(t, http.MethodGet, endpoint, "/status", &status))
	require.Equal(t, want, status.Counts.Rows)
	require.Equal(t, want.Kernels, status.Open.Files[0].Rows)

	var answer flushed
	require.Equal(t, http.StatusOK, ask(t, http.MethodPost, endpoint, "/flush", &answer))
	require.Empty(t, answer.Error)
	require.Len(t, answer.Files, 3)
	for i, rows := range []int64{want.Kernels, want.Steps, want.Copies} {
		f, err := os.Open(filepath.Join(cfg.Directory, answer.Files[i].Name))
		require.NoError(t, err)
		file, err := parquetgo.OpenFile(f, answer.Files[i].Bytes)
		require.NoError(t, err)
		require.Equal(t, rows, file.NumRows())
		require.Equal(t, rows, answer.Files[i].Rows)
		require.NoError(t, f.Close())
	}
	require.Equal(t, http.StatusMethodNotAllowed, ask(t, http.MethodGet, endpoint, "/flush", nil))
	for status, header := range map[int][2]string{http.StatusForbidden: {"Origin", "http://evil.example"}, http.StatusOK: {"Origin", "http://" + endpoint}} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+endpoint+"/flush", nil)
		require.NoError(t, err)
		request.Header.Set(header[0], header[1])
		answer, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, status, answer.StatusCode, "a page of another site has no say")
	}
	require.Equal(t, http.StatusOK, ask(t, http.MethodPost, endpoint, "/flush", &answer))
	require.Empty(t, answer.Files)
	require.NoError(t, e.Shutdown(t.Context()))
}

func TestShutdownClosesAndTheQueueIsEmptied(t *testing.T) {
	cfg := config(t)
	e := started(t, cfg, exportertest.NewNopSettings(metadata.Type))
	logs, rank := recordedLogs(t, 1)
	require.NoError(t, e.ConsumeLogs(t.Context(), logs))
	require.NoError(t, e.Shutdown(t.Context()))
	found, err := filepath.Glob(filepath.Join(cfg.Directory, "k-*.parquet"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	b, err := os.ReadFile(found[0])
	require.NoError(t, err)
	file, err := parquetgo.OpenFile(strings.NewReader(string(b)), int64(len(b)))
	require.NoError(t, err)
	require.EqualValues(t, rank.Want.Kernels, file.NumRows())
}

// TestFilesHaveTheirMode also has the umask take nothing away: a unit with UMask=0077 narrows the setting.
func TestFilesHaveTheirMode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	for want, set := range map[fs.FileMode]func(*Config){
		0o640: func(*Config) {},
		0o600: func(c *Config) { c.FileMode = 0o600 },
	} {
		cfg := config(t)
		set(cfg)
		cfg.Queue.Get().WaitForResult = true
		e := started(t, cfg, exportertest.NewNopSettings(metadata.Type))
		logs, _ := recordedLogs(t, 1)
		require.NoError(t, e.ConsumeLogs(t.Context(), logs))
		modes := func() map[string]fs.FileMode {
			files, err := os.ReadDir(cfg.Directory)
			require.NoError(t, err)
			all := map[string]fs.FileMode{}
			for _, f := range files {
				info, err := f.Info()
				require.NoError(t, err)
				all[f.Name()] = info.Mode()
			}
			return all
		}
		open := modes()
		require.NoError(t, e.Shutdown(t.Context()))
		closed := modes()
		require.GreaterOrEqual(t, len(open), 5, "three tables, the journal, the lock")
		for _, all := range []map[string]fs.FileMode{open, closed} {
			for name, mode := range all {
				require.Equal(t, want, mode, name)
			}
		}
	}
}

// TestOtherRecordsAreRefusedAndCounted sends what is no chunk along with chunks: those are taken all the same.
func TestOtherRecordsAreRefusedAndCounted(t *testing.T) {
	telemetry := componenttest.NewTelemetry()
	set := exportertest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = telemetry.NewTelemetrySettings()
	cfg := config(t)
	cfg.Queue.Get().WaitForResult = true
	e := started(t, cfg, set)

	logs, rank := recordedLogs(t, 1)
	records := logs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords()
	chunks := records.Len()
	records.AppendEmpty().Body().SetStr("a line of some log")
	later := records.AppendEmpty()
	records.At(0).CopyTo(later)
	later.Attributes().PutInt(chunklog.VersionAttribute, chunk.Version+1)
	torn := records.AppendEmpty()
	records.At(0).CopyTo(torn)
	body := torn.Body().Bytes().AsRaw()
	torn.Body().SetEmptyBytes().FromRaw(body[:len(body)-1])
	require.NoError(t, e.ConsumeLogs(t.Context(), logs))
	require.NoError(t, e.ConsumeLogs(t.Context(), logs), "chunks that come again are counted and not taken")

	require.Equal(t, map[string]int64{"not_a_chunk": 2, "version": 2, "corrupt": 2}, values(t, telemetry, "kernparquet_refused_records", "reason"))
	require.Equal(t, map[string]int64{"": int64(chunks)}, values(t, telemetry, "kernparquet_chunks", ""))
	require.Equal(t, map[string]int64{"": int64(chunks)}, values(t, telemetry, "kernparquet_duplicate_chunks", ""))
	require.EqualValues(t, rank.Want.Kernels, values(t, telemetry, "kernparquet_rows", "table")["k"])
	require.NoError(t, e.Shutdown(t.Context()))
	require.NoError(t, telemetry.Shutdown(t.Context()))
}

// values are those of a counter by an attribute.
func values(t *testing.T, telemetry *componenttest.Telemetry, name, attribute string) map[string]int64 {
	t.Helper()
	m, err := telemetry.GetMetric("otelcol_" + name)
	require.NoError(t, err)
	all := map[string]int64{}
	for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
		key := ""
		for _, a := range p.Attributes.ToSlice() {
			if string(a.Key) == attribute {
				key = a.Value.AsString()
			}
		}
		all[key] = p.Value
	}
	return all
}

func TestSecondExporterIsRefused(t *testing.T) {
	cfg := config(t)
	e := started(t, cfg, exportertest.NewNopSettings(metadata.Type))
	other := config(t)
	other.Directory = cfg.Directory
	second, err := NewFactory().CreateLogs(t.Context(), exportertest.NewNopSettings(metadata.Type), other)
	require.NoError(t, err)
	err = second.Start(t.Context(), componenttest.NewNopHost())
	require.ErrorIs(t, err, archive.ErrLocked)
	require.ErrorContains(t, err, "directory: ")
	require.NoError(t, second.Shutdown(t.Context()))
	// An endpoint that nobody can listen on gives the directory back.
	other.Directory = t.TempDir()
	other.HTTP.Get().NetAddr.Endpoint = "127.0.0.1:nothing"
	third, err := NewFactory().CreateLogs(t.Context(), exportertest.NewNopSettings(metadata.Type), other)
	require.NoError(t, err)
	require.ErrorContains(t, third.Start(t.Context(), componenttest.NewNopHost()), "http::endpoint: ")
	require.NoError(t, third.Shutdown(t.Context()))
	require.NoError(t, archive.NewDirectory(other.Directory).Lock())
	require.NoError(t, e.Shutdown(t.Context()))
}

// TestABusyPortOnlyWarns: kernels are archived without a server, and closed at the end.
func TestABusyPortOnlyWarns(t *testing.T) {
	cfg := config(t)
	busy, err := net.Listen("tcp", cfg.HTTP.Get().NetAddr.Endpoint)
	require.NoError(t, err)
	core, logged := observer.New(zap.WarnLevel)
	set := exportertest.NewNopSettings(metadata.Type)
	set.Logger = zap.New(core)
	e := started(t, cfg, set)
	require.Equal(t, 1, logged.Len())
	require.ErrorContains(t, logged.All()[0].Context[0].Interface.(error), "http::endpoint: ")
	logs, _ := recordedLogs(t, 1)
	require.NoError(t, e.ConsumeLogs(t.Context(), logs))
	require.NoError(t, e.Shutdown(t.Context()))
	require.NoError(t, busy.Close())
	found, err := filepath.Glob(filepath.Join(cfg.Directory, "k-*.parquet"))
	require.NoError(t, err)
	require.Len(t, found, 1)
}

func TestShutdownWithoutStart(t *testing.T) {
	e, err := NewFactory().CreateLogs(t.Context(), exportertest.NewNopSettings(metadata.Type), config(t))
	require.NoError(t, err)
	require.NoError(t, e.Shutdown(t.Context()))
	require.Equal(t, component.MustNewType("kernparquet"), NewFactory().Type())
}
