package kernparquetencodingextension

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter"
	parquetgo "github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/kernhes/kernhes/extension/kernparquetencodingextension/internal/metadata"
	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/chunk/chunktest"
	"github.com/kernhes/kernhes/internal/chunklog"
	"github.com/kernhes/kernhes/internal/krec"
)

// A portion is a chunk and what a reader should find of it in table k.
type portion struct {
	body []byte
	rows int64
	dur  int64 // ns, sum
}

var recordings = map[string][]portion{}

// recorded are the chunks of a recording's first device, by which each test writes.
func recorded(t testing.TB, name string) []portion {
	t.Helper()
	if recordings[name] == nil {
		recordings[name] = portionsOf(t, name)
	}
	return recordings[name]
}

func portionsOf(t testing.TB, name string) (portions []portion) {
	t.Helper()
	r, err := krec.Read(filepath.Join("..", "..", "testdata", "recordings", name+".krec.zst"))
	require.NoError(t, err)
	rank := chunktest.Ranks(r, "run", 0)[0]
	var dur int64
	p := chunk.NewPacker(rank.Identity, func(s *chunk.Sealed) {
		portions = append(portions, portion{bytes.Clone(s.Body), int64(s.Kernels), dur})
		dur = 0
	})
	for i := range rank.Steps {
		require.NoError(t, p.Add(&rank.Steps[i]))
		for _, d := range rank.Steps[i].Durs {
			dur += int64(d)
		}
		if i%10 == 9 {
			p.Cut()
		}
	}
	p.Cut()
	return portions
}

// found is what a reader finds in a file of table k.
type found struct{ rows, dur int64 }

func (f *found) add(p portion) {
	f.rows += p.rows
	f.dur += p.dur
}

// logs are chunks for one file.
func logs(window string, portions ...portion) plog.Logs {
	l := plog.NewLogs()
	for _, p := range portions {
		resource := l.ResourceLogs().AppendEmpty()
		resource.Resource().Attributes().PutStr("kern.window", window)
		s := chunk.Sealed{Body: p.body}
		chunklog.Put(&s, resource.ScopeLogs().AppendEmpty().LogRecords().AppendEmpty(), "run")
	}
	return l
}

// readers are libraries that read a file whole. They share no code.
var readers = map[string]func(testing.TB, []byte) found{
	"arrow-go": func(t testing.TB, b []byte) (is found) {
		f, err := file.NewParquetReader(bytes.NewReader(b))
		require.NoError(t, err)
		r, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
		require.NoError(t, err)
		table, err := r.ReadTable(context.Background())
		require.NoError(t, err)
		defer table.Release()
		is.rows = table.NumRows()
		dur := table.Column(table.Schema().FieldIndices("dur_ns")[0])
		for _, part := range dur.Data().Chunks() {
			for _, v := range part.(*array.Int64).Int64Values() {
				is.dur += v
			}
		}
		return is
	},
	"parquet-go": func(t testing.TB, b []byte) (is found) {
		f, err := parquetgo.OpenFile(bytes.NewReader(b), int64(len(b)))
		require.NoError(t, err)
		column, ok := f.Schema().Lookup("dur_ns")
		require.True(t, ok)
		for _, rg := range f.RowGroups() {
			is.rows += rg.NumRows()
			values := make([]parquetgo.Value, rg.NumRows())
			pages := parquetgo.NewColumnChunkValueReader(rg.ColumnChunks()[column.ColumnIndex])
			for n := 0; n < len(values); {
				some, err := pages.ReadValues(values[n:])
				n += some
				require.True(t, err == nil || n == len(values), "%v", err)
			}
			require.NoError(t, pages.Close())
			for _, v := range values {
				is.dur += v.Int64()
			}
		}
		return is
	},
}

func read(t testing.TB, path string, want found) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	for name, reader := range readers {
		require.Equal(t, want, reader(t, b), name)
	}
}

// host has the encoding as an extension.
type host struct {
	extensions map[component.ID]component.Component
}

func (h host) GetExtensions() map[component.ID]component.Component { return h.extensions }

// A life is a collector's: the encoding and the real file exporter.
type life struct {
	*encoding
	exporter exporter.Logs
}

// begin starts a life that writes table k below dir; changes are of the exporter's configuration.
func begin(dir string, changes map[string]any) (*life, error) {
	ctx := context.Background()
	path := filepath.Join(dir, "*.k.parquet")
	c := createDefaultConfig().(*Config)
	c.Table, c.Path = "k", path
	if err := c.Validate(); err != nil {
		return nil, err
	}
	e, err := newEncoding(c, componenttest.NewNopTelemetrySettings())
	if err != nil {
		return nil, err
	}
	if err := e.Start(ctx, nil); err != nil {
		return nil, err
	}
	settings := map[string]any{
		"path": path, "format": "proto", "append": true, "encoding": "kernparquet_encoding",
		"group_by": map[string]any{"enabled": true, "resource_attribute": "kern.window"},
	}
	for k, v := range changes {
		settings[k] = v
	}
	factory := fileexporter.NewFactory()
	config := factory.CreateDefaultConfig()
	if err := confmap.NewFromStringMap(settings).Unmarshal(config); err != nil {
		return nil, err
	}
	out, err := factory.CreateLogs(ctx, exportertest.NewNopSettings(factory.Type()), config)
	if err != nil {
		return nil, err
	}
	h := host{map[component.ID]component.Component{component.NewID(metadata.Type): e}}
	return &life{e, out}, out.Start(ctx, h)
}

func newLife(t testing.TB, dir string, changes map[string]any) *life {
	t.Helper()
	l, err := begin(dir, changes)
	require.NoError(t, err)
	return l
}

func (l *life) write(t testing.TB, window string, portions ...portion) {
	t.Helper()
	require.NoError(t, l.exporter.ConsumeLogs(context.Background(), logs(window, portions...)))
}

func (l *life) end(t testing.TB) {
	t.Helper()
	require.NoError(t, l.exporter.Shutdown(context.Background()))
	require.NoError(t, l.Shutdown(context.Background()))
}

// sum is what a reader should find of some portions.
func sum(portions ...portion) (f found) {
	for p := range slices.Values(portions) {
		f.add(p)
	}
	return f
}
