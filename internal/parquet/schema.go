// Package parquet turns chunks of packed steps into Parquet: a row a kernel (table k), a row a step (s), a row a copy (c), a row
// a request in a step (r).
//
// A Writer keeps the rows of each rank until they make a row group, encodes that whole, and writes it; a Group is what the
// footer must know of it, and can be kept elsewhere (a journal), so that a file whose writer died gets its footer from
// Footer. The columns stand in columns.go, once; docs/schema.md is tested against them.
package parquet

// SchemaVersion grows when a column changes its meaning or goes; new columns leave it as it is.
const SchemaVersion = 1

// A Table names one of the tables.
type Table string

// The tables.
const (
	Kernels Table = "k"
	Steps   Table = "s"
	Copies  Table = "c"

	Requests Table = "r" // it has rows only where an engine's hooks say what is in its steps
)

// Tables are all of them.
var Tables = []Table{Kernels, Steps, Copies, Requests}
