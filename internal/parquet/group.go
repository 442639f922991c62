package parquet

import (
	"github.com/kernhes/kernhes/internal/chunk"
)

// A Group is one row group that was written: what the footer says of it. It goes through JSON and back.
type Group struct {
	Table   Table    `json:"table"`
	Rows    int64    `json:"rows"`
	Offset  int64    `json:"offset"` // of its first byte in the file
	Length  int64    `json:"length"` // bytes of its pages
	Sources []Source `json:"sources"`
	Meta    []byte   `json:"meta"` // Thrift: its RowGroup, offsets as in the file
}

// A Source is where rows of a group come from.
type Source struct {
	Run     string            `json:"run"`
	Rank    int64             `json:"rank"`
	Device  uint16            `json:"device"`
	Session uint64            `json:"session"`
	Host    string            `json:"host"`
	Mode    string            `json:"mode"`
	Rows    int64             `json:"rows"`
	From    uint64            `json:"from_ns"` // unix ns: earliest start
	To      uint64            `json:"to_ns"`   // unix ns: latest end
	Counts  map[string]uint64 `json:"counts"`  // of the latest chunk
}

// Magic stands at the beginning and at the end of a Parquet file.
const Magic = "PAR1"

// Footer is what stands after the pages of groups, the last Magic included. KeyValues are added to those that the groups
// give. shift is added to each offset: what a file holds before the Magic that Group.Offset counts from.
func Footer(table Table, groups []Group, keyValues map[string]string, shift int64) ([]byte, error) {
	return nil, nil
}

var _ = chunk.Version
