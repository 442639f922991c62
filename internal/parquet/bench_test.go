package parquet

import (
	"io"
	"reflect"
	"runtime"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	arrowparquet "github.com/apache/arrow-go/v18/parquet"
	arrowcompress "github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/klauspost/compress/zstd"
	other "github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/parquet/parquettest"
)

// benchRows is how many rows each writer is given: the recordings' chunks again and again, at later times.
const benchRows = 5 << 20

// repeated calls f with chunks of the recording until there are benchRows rows; their times ascend, their seqs too.
func repeated(chunks []*chunk.Chunk, f func(*chunk.Chunk)) (rows int) {
	for lap := uint64(0); rows < benchRows; lap++ {
		for _, c := range chunks {
			again := *c
			again.Steps = append([]chunk.Step(nil), c.Steps...)
			for i := range again.Steps {
				s := &again.Steps[i]
				s.Seq += int64(lap) * 256
				s.Start, s.End = s.Start+lap*5e9, s.End+lap*5e9
				starts := make([]uint64, len(s.Starts))
				for k, v := range s.Starts {
					starts[k] = v + lap*5e9
				}
				s.Starts = starts
			}
			rows += again.Rows()
			f(&again)
		}
	}
	return rows
}

// counted counts what is written.
type counted struct{ n int64 }

func (c *counted) Write(b []byte) (int, error) { c.n += int64(len(b)); return len(b), nil }

// cpu is the CPU time of the process, user and system.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A rival writes rows: take takes a chunk, end ends the file, and made is the CPU time that went into making rows or batches
// of chunks, as the library wants them, which is not counted.
type rival struct {
	take func(*chunk.Chunk)
	end  func()
	made time.Duration
}

// measure reports what a writer does with the rows.
func measure(b *testing.B, open func(io.Writer) *rival) {
	r := record(b, "tp2.rank0", 0)
	var rows int
	var out counted
	var spent, making time.Duration
	var peak, before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		base := before.HeapAlloc
		start := cpu()
		w := open(&out)
		chunks := 0
		rows += repeated(r.chunks, func(c *chunk.Chunk) {
			if w.take(c); chunks%16 == 0 {
				runtime.ReadMemStats(&after)
				peak.HeapAlloc = max(peak.HeapAlloc, after.HeapAlloc-base)
			}
			chunks++
		})
		w.end()
		spent += cpu() - start - w.made
		runtime.ReadMemStats(&after)
		start = cpu()
		repeated(r.chunks, func(*chunk.Chunk) {})
		making += cpu() - start
	}
	b.ReportMetric(float64(rows)/(spent-making).Seconds()/1e6, "Mrows/cpu-s")
	b.ReportMetric(float64(out.n)/float64(rows), "B/row")
	b.ReportMetric(float64(peak.HeapAlloc)/1e6, "peak-MB")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(rows)*float64(b.N), "allocs/row")
}

func BenchmarkKernhes(b *testing.B) {
	for _, profile := range []Profile{Fast, Small} {
		b.Run(string(profile), func(b *testing.B) {
			measure(b, func(to io.Writer) *rival { return ours(b, to, profile) })
		})
	}
}

func ours(b testing.TB, to io.Writer, profile Profile) *rival {
	w, err := NewWriter(to, Kernels, Options{Profile: profile})
	require.NoError(b, err)
	return &rival{take: func(c *chunk.Chunk) {
		if err := w.WriteChunk(c); err != nil {
			b.Fatal(err)
		}
	}, end: func() { require.NoError(b, w.Close(nil)) }}
}

// BenchmarkMemcpy and BenchmarkZstd do to 16 bytes a row, start and duration as they lie in memory, what nothing that writes
// them can do without, and what most do.
func BenchmarkMemcpy(b *testing.B) {
	times(b, func(to, from []byte) []byte { return append(to[:0], from...) })
}

func BenchmarkZstd(b *testing.B) {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	require.NoError(b, err)
	times(b, func(to, from []byte) []byte { return z.EncodeAll(from, to[:0]) })
}

func times(b *testing.B, f func(to, from []byte) []byte) {
	var from, to []byte
	rows := 0
	for _, c := range record(b, "tp2.rank0", 0).chunks {
		for i := range c.Steps {
			s := &c.Steps[i]
			rows += len(s.Starts)
			for k := range s.Starts {
				from = le.AppendUint64(le.AppendUint64(from, s.Starts[k]), s.Durs[k])
			}
		}
	}
	to = f(to, from)
	begin, n := cpu(), 0
	for b.Loop() {
		for range 20 {
			to = f(to, from)
			n += rows
		}
	}
	b.ReportMetric(float64(n)/(cpu()-begin).Seconds()/1e6, "Mrows/cpu-s")
	b.ReportMetric(float64(len(to))/float64(rows), "B/row")
}

func BenchmarkParquetGoGenericWriter(b *testing.B) {
	measure(b, func(to io.Writer) *rival { return parquetGo(b, to) })
}

func parquetGo(b testing.TB, to io.Writer) *rival {
	w := other.NewGenericWriter[parquettest.Row](to, other.MaxRowsPerRowGroup(DefaultRowGroupRows))
	names := parquettest.Names{}
	var rows []parquettest.Row
	out := &rival{end: func() { require.NoError(b, w.Close()) }}
	out.take = func(c *chunk.Chunk) {
		for i := range c.Steps {
			at := cpu()
			rows = parquettest.Rows(rows[:0], c, &c.Steps[i], names)
			out.made += cpu() - at
			if _, err := w.Write(rows); err != nil {
				b.Fatal(err)
			}
		}
	}
	return out
}

func BenchmarkArrowGoPqarrow(b *testing.B) {
	measure(b, func(to io.Writer) *rival { return pqarrowWriter(b, to) })
}

// pqarrowWriter writes batches whose texts are dictionary arrays.
func pqarrowWriter(b testing.TB, to io.Writer) *rival {
	text := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}
	var fields []arrow.Field
	properties := []arrowparquet.WriterProperty{arrowparquet.WithCompression(arrowcompress.Codecs.Zstd), arrowparquet.WithMaxRowGroupLength(DefaultRowGroupRows)}
	for _, c := range Columns(Kernels) {
		f := arrow.Field{Name: c.Name, Type: arrow.PrimitiveTypes.Int64, Nullable: c.Null != ""}
		switch {
		case c.Type == Text:
			f.Type = text
		case c.Type == Bool:
			f.Type = arrow.FixedWidthTypes.Boolean
		case c.Encoding == Delta:
			properties = append(properties, arrowparquet.WithDictionaryFor(c.Name, false), arrowparquet.WithEncodingFor(c.Name, arrowparquet.Encodings.DeltaBinaryPacked))
		}
		fields = append(fields, f)
	}
	schema := arrow.NewSchema(fields, nil)
	w, err := pqarrow.NewFileWriter(schema, to, arrowparquet.NewWriterProperties(properties...), pqarrow.DefaultWriterProps())
	require.NoError(b, err)
	builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	names := parquettest.Names{}
	var rows []parquettest.Row
	waiting := 0
	out := &rival{}
	flush := func() {
		at := cpu()
		batch := builder.NewRecordBatch()
		out.made += cpu() - at
		require.NoError(b, w.Write(batch))
		batch.Release()
		waiting = 0
	}
	out.take = func(c *chunk.Chunk) {
		at := cpu()
		for i := range c.Steps {
			rows = parquettest.Rows(rows[:0], c, &c.Steps[i], names)
			appendArrow(b, builder, rows)
			waiting += len(rows)
		}
		if out.made += cpu() - at; waiting >= DefaultRowGroupRows {
			flush()
		}
	}
	out.end = func() { flush(); require.NoError(b, w.Close()) }
	return out
}

// appendArrow appends rows to the columns of a batch, each by the field of the row that has its place.
func appendArrow(b testing.TB, builder *array.RecordBuilder, rows []parquettest.Row) {
	for i, field := range builder.Fields() {
		switch to := field.(type) {
		case *array.BinaryDictionaryBuilder:
			for k := range rows {
				if err := to.AppendString(*fieldOf[string](&rows[k], i)); err != nil {
					b.Fatal(err)
				}
			}
		case *array.BooleanBuilder:
			for k := range rows {
				to.Append(*fieldOf[bool](&rows[k], i))
			}
		case *array.Int64Builder:
			to.Reserve(len(rows))
			for k := range rows {
				if i == seqColumn {
					if rows[k].Seq == nil {
						to.AppendNull()
						continue
					}
					to.UnsafeAppend(*rows[k].Seq)
					continue
				}
				to.UnsafeAppend(*fieldOf[int64](&rows[k], i))
			}
		}
	}
}

const seqColumn = 4

var offsets = func() (all []uintptr) {
	row := reflect.TypeFor[parquettest.Row]()
	for i := range row.NumField() {
		all = append(all, row.Field(i).Offset)
	}
	return all
}()

// fieldOf is a field of a row by its number: reflection would be the rival's most costly part.
func fieldOf[T any](r *parquettest.Row, i int) *T {
	return (*T)(unsafe.Add(unsafe.Pointer(r), offsets[i]))
}
