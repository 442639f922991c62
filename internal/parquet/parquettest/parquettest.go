// Package parquettest writes table k by a library, a row at a time: what internal/parquet is held to, and its rivals.
package parquettest

import (
	"fmt"
	"io"

	"github.com/ianlancetaylor/demangle"
	parquetgo "github.com/parquet-go/parquet-go"

	"github.com/kernhes/kernhes/internal/chunk"
)

// A Row is a row of k, with encodings for parquet-go like those of internal/parquet.
type Row struct {
	Run           string `parquet:"run,dict,zstd"`
	Rank          int64  `parquet:"rank,dict,zstd"`
	Device        int64  `parquet:"device,dict,zstd"`
	Session       string `parquet:"session,dict,zstd"`
	Seq           *int64 `parquet:"seq,dict,optional,zstd"`
	Occurrence    int64  `parquet:"occurrence,dict,zstd"`
	Program       string `parquet:"program,dict,zstd"`
	Call          string `parquet:"call,dict,zstd"`
	Op            string `parquet:"op,dict,zstd"`
	Group         string `parquet:"group,dict,zstd"`
	GroupSource   string `parquet:"group_source,dict,zstd"`
	Bytes         int64  `parquet:"bytes,dict,zstd"`
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

// Names are the names of kernels, demangled, by symbol.
type Names map[string]string

func (n Names) of(symbol string) string {
	name, ok := n[symbol]
	if !ok {
		name = demangle.Filter(symbol, demangle.MaxLength(13))
		n[symbol] = name
	}
	return name
}

// Rows appends the rows of a step.
func Rows(rows []Row, c *chunk.Chunk, s *chunk.Step, names Names) []Row {
	var seq *int64
	if !s.Outside {
		seq = &s.Seq
	}
	session := fmt.Sprintf("%016x", c.Session)
	launch := -1
	for i := range s.Starts {
		p := &s.Shape.Positions[i]
		if i == 0 || p.Launch != s.Shape.Positions[i-1].Launch {
			launch++
		}
		l := s.Launches[launch]
		rows = append(rows, Row{c.Run, c.Rank, int64(c.Device), session, seq, int64(s.Occurrence), s.Program, p.Call, p.Op, p.Group,
			chunk.GroupSources[p.GroupBy&3], int64(p.Bytes), names.of(p.Name), p.Name, chunk.ClassNames[p.Class&3], p.Fused, int64(s.Starts[i]),
			int64(s.Durs[i]), int64(p.Stream), int64(l.NodeID(p)), int64(l.Correlation), int64(p.Grid[0]), int64(p.Grid[1]), int64(p.Grid[2]),
			int64(p.Block[0]), int64(p.Block[1]), int64(p.Block[2]), int64(s.Offset + i)})
	}
	return rows
}

// A Writer writes table k by parquet-go's GenericWriter.
type Writer struct {
	w     *parquetgo.GenericWriter[Row]
	names Names
	rows  []Row
}

// NewWriter returns a Writer whose row groups have at most so many rows.
func NewWriter(to io.Writer, rows int64) *Writer {
	return &Writer{w: parquetgo.NewGenericWriter[Row](to, parquetgo.MaxRowsPerRowGroup(rows)), names: Names{}}
}

// WriteChunk writes the rows of a chunk.
func (w *Writer) WriteChunk(c *chunk.Chunk) error {
	for i := range c.Steps {
		w.rows = Rows(w.rows[:0], c, &c.Steps[i], w.names)
		if _, err := w.w.Write(w.rows); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the file.
func (w *Writer) Close() error { return w.w.Close() }
