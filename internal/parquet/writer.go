package parquet

import (
	"io"

	"github.com/kernhes/kernhes/internal/chunk"
)

// Options are a Writer's. The zero Options are the defaults.
type Options struct {
	// RowGroupRows is how many rows make a row group. Default: 131,072.
	RowGroupRows int
	// MaxPending is how many rows, of all ranks, may wait for their row group; beyond that the rank with the most gets one
	// early. Default: 16 times RowGroupRows. A waiting row of k takes some 20 bytes.
	MaxPending int
	// Compression is zstd (the default), snappy or none.
	Compression string
	// Wrote is called for each row group after all its bytes were written, before Write goes on. Its error is Write's.
	Wrote func(Group) error
}

// A Writer writes one file of one table. It is not safe for concurrent use.
type Writer struct{}

// NewWriter returns a Writer of a new file to w, to which it has written nothing yet.
func NewWriter(w io.Writer, table Table, o Options) (*Writer, error) { return &Writer{}, nil }

// WriteChunk takes a chunk's rows. It keeps parts of c, which must not change. After an error of the underlying writer the
// Writer writes nothing more, and returns that error.
func (w *Writer) WriteChunk(c *chunk.Chunk) error { return nil }

// Flush writes a row group for each rank that has rows waiting.
func (w *Writer) Flush() error { return nil }

// Close flushes and writes the footer; it does not close the underlying writer.
func (w *Writer) Close(keyValues map[string]string) error { return nil }

// Groups are the row groups that were written.
func (w *Writer) Groups() []Group { return nil }

// Size is how many bytes were written.
func (w *Writer) Size() int64 { return 0 }

// Rows are how many rows were taken, and how many of them wait for their row group.
func (w *Writer) Rows() (taken, waiting int64) { return 0, 0 }
