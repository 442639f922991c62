package parquet

import (
	"io"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	arrowparquet "github.com/apache/arrow-go/v18/parquet"
	arrowcompress "github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	other "github.com/parquet-go/parquet-go"

	"github.com/kernhes/kernhes/internal/chunk"
)

// benchRows is how many rows each writer is given: the recordings' chunks again and again, at later times.
const benchRows = 5 << 20

// repeated calls f with chunks of the recording until there are benchRows rows; their times ascend, their seqs too.
func repeated(b *testing.B, chunks []*chunk.Chunk, f func(*chunk.Chunk)) (rows int) {
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

// measure reports what a writer does with the rows: a function that takes a chunk, and one that ends the file.
func measure(b *testing.B, open func(io.Writer) (take func(*chunk.Chunk), end func())) {
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
		take, end := open(&out)
		chunks := 0
		rows += repeated(b, r.chunks, func(c *chunk.Chunk) {
			if take(c); chunks%16 == 0 {
				runtime.ReadMemStats(&after)
				peak.HeapAlloc = max(peak.HeapAlloc, after.HeapAlloc-base)
			}
			chunks++
		})
		end()
		spent += cpu() - start
		runtime.ReadMemStats(&after)
		start = cpu()
		repeated(b, r.chunks, func(*chunk.Chunk) {})
		making += cpu() - start
	}
	b.ReportMetric(float64(rows)/(spent-making).Seconds()/1e6, "Mrows/cpu-s")
	b.ReportMetric(float64(out.n)/float64(rows), "B/row")
	b.ReportMetric(float64(peak.HeapAlloc)/1e6, "peak-MB")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(rows)*float64(b.N), "allocs/row")
}

func BenchmarkKernhes(b *testing.B) {
	measure(b, func(to io.Writer) (func(*chunk.Chunk), func()) {
		w, err := NewWriter(to, Kernels, Options{})
		if err != nil {
			b.Fatal(err)
		}
		return func(c *chunk.Chunk) {
			if err := w.WriteChunk(c); err != nil {
				b.Fatal(err)
			}
		}, func() { _ = w.Close(nil) }
	})
}

// A goRow is a row of k as parquet-go's GenericWriter takes it, with the encodings of our own.
type goRow struct {
	Run           string `parquet:"run,dict,zstd"`
	Rank          int64  `parquet:"rank,dict,zstd"`
	Device        int64  `parquet:"device,dict,zstd"`
	Seq           *int64 `parquet:"seq,dict,optional,zstd"`
	Program       string `parquet:"program,dict,zstd"`
	Call          string `parquet:"call,dict,zstd"`
	Op            string `parquet:"op,dict,zstd"`
	Kernel        string `parquet:"kernel,dict,zstd"`
	Symbol        string `parquet:"symbol,dict,zstd"`
	Class         string `parquet:"class,dict,zstd"`
	Fused         bool   `parquet:"fused,zstd"`
	StartNS       int64  `parquet:"start_ns,delta,zstd"`
	DurNS         int64  `parquet:"dur_ns,dict,zstd"`
	Stream        int64  `parquet:"stream,dict,zstd"`
	GraphNodeID   int64  `parquet:"graph_node_id,delta,zstd"`
	CorrelationID int64  `parquet:"correlation_id,delta,zstd"`
	GridX         int64  `parquet:"grid_x,dict,zstd"`
	GridY         int64  `parquet:"grid_y,dict,zstd"`
	GridZ         int64  `parquet:"grid_z,dict,zstd"`
	BlockX        int64  `parquet:"block_x,dict,zstd"`
	BlockY        int64  `parquet:"block_y,dict,zstd"`
	BlockZ        int64  `parquet:"block_z,dict,zstd"`
	Pos           int64  `parquet:"pos,delta,zstd"`
}

// goRows are a step's rows; names are demangled once each, as in our own writer.
func goRows(rows []goRow, c *chunk.Chunk, s *chunk.Step, names demangler) []goRow {
	var seq *int64
	if !s.Outside {
		seq = &s.Seq
	}
	i := 0
	eachLaunch(s, func(l chunk.Launch, positions []chunk.Position) {
		for k := range positions {
			p := &positions[k]
			rows = append(rows, goRow{c.Run, c.Rank, int64(c.Device), seq, s.Program, p.Call, p.Op, names.demangled(p.Name), p.Name,
				chunk.ClassNames[p.Class&3], p.Fused, int64(s.Starts[i]), int64(s.Durs[i]), int64(p.Stream), int64(l.NodeID(p)), int64(l.Correlation),
				int64(p.Grid[0]), int64(p.Grid[1]), int64(p.Grid[2]), int64(p.Block[0]), int64(p.Block[1]), int64(p.Block[2]), int64(s.Offset + i)})
			i++
		}
	})
	return rows
}

func BenchmarkParquetGoGenericWriter(b *testing.B) {
	measure(b, func(to io.Writer) (func(*chunk.Chunk), func()) {
		w := other.NewGenericWriter[goRow](to, other.MaxRowsPerRowGroup(DefaultRowGroupRows))
		names := demangler{}
		var rows []goRow
		return func(c *chunk.Chunk) {
			for i := range c.Steps {
				rows = goRows(rows[:0], c, &c.Steps[i], names)
				if _, err := w.Write(rows); err != nil {
					b.Fatal(err)
				}
			}
		}, func() { _ = w.Close() }
	})
}

func BenchmarkArrowGoPqarrow(b *testing.B) {
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
	measure(b, func(to io.Writer) (func(*chunk.Chunk), func()) {
		w, err := pqarrow.NewFileWriter(schema, to, arrowparquet.NewWriterProperties(properties...), pqarrow.DefaultWriterProps())
		if err != nil {
			b.Fatal(err)
		}
		builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		names := demangler{}
		var rows []goRow
		waiting := 0
		flush := func() {
			batch := builder.NewRecordBatch()
			if err := w.Write(batch); err != nil {
				b.Fatal(err)
			}
			batch.Release()
			waiting = 0
		}
		return func(c *chunk.Chunk) {
			for i := range c.Steps {
				rows = goRows(rows[:0], c, &c.Steps[i], names)
				appendArrow(b, builder, rows)
				if waiting += len(rows); waiting >= DefaultRowGroupRows {
					flush()
				}
			}
		}, func() { flush(); _ = w.Close() }
	})
}

func appendArrow(b *testing.B, builder *array.RecordBuilder, rows []goRow) {
	texts := func(column int, get func(*goRow) string) {
		d := builder.Field(column).(*array.BinaryDictionaryBuilder)
		for i := range rows {
			if err := d.AppendString(get(&rows[i])); err != nil {
				b.Fatal(err)
			}
		}
	}
	ints := func(column int, get func(*goRow) int64) {
		d := builder.Field(column).(*array.Int64Builder)
		d.Reserve(len(rows))
		for i := range rows {
			d.UnsafeAppend(get(&rows[i]))
		}
	}
	texts(0, func(r *goRow) string { return r.Run })
	ints(1, func(r *goRow) int64 { return r.Rank })
	ints(2, func(r *goRow) int64 { return r.Device })
	seq := builder.Field(3).(*array.Int64Builder)
	fused := builder.Field(10).(*array.BooleanBuilder)
	for i := range rows {
		if rows[i].Seq == nil {
			seq.AppendNull()
		} else {
			seq.Append(*rows[i].Seq)
		}
		fused.Append(rows[i].Fused)
	}
	texts(4, func(r *goRow) string { return r.Program })
	texts(5, func(r *goRow) string { return r.Call })
	texts(6, func(r *goRow) string { return r.Op })
	texts(7, func(r *goRow) string { return r.Kernel })
	texts(8, func(r *goRow) string { return r.Symbol })
	texts(9, func(r *goRow) string { return r.Class })
	ints(11, func(r *goRow) int64 { return r.StartNS })
	ints(12, func(r *goRow) int64 { return r.DurNS })
	ints(13, func(r *goRow) int64 { return r.Stream })
	ints(14, func(r *goRow) int64 { return r.GraphNodeID })
	ints(15, func(r *goRow) int64 { return r.CorrelationID })
	ints(16, func(r *goRow) int64 { return r.GridX })
	ints(17, func(r *goRow) int64 { return r.GridY })
	ints(18, func(r *goRow) int64 { return r.GridZ })
	ints(19, func(r *goRow) int64 { return r.BlockX })
	ints(20, func(r *goRow) int64 { return r.BlockY })
	ints(21, func(r *goRow) int64 { return r.BlockZ })
	ints(22, func(r *goRow) int64 { return r.Pos })
}
