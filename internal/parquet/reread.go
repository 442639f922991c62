package parquet

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// ErrFooter is why a footer is not taken: it is none, or another writer's.
var ErrFooter = errors.New("not a footer of this schema")

// TailBytes is how long the end of a file is that says how long its footer is.
const TailBytes = 8

// FooterLength reads the last TailBytes of a file: how long its footer is, Magic included. 0: there is none.
func FooterLength(tail []byte) int64 {
	if len(tail) != TailBytes || string(tail[4:]) != Magic {
		return 0
	}
	return int64(le.Uint32(tail)) + TailBytes
}

// ReadFooter is the inverse of Footer without a shift: of which table a file is, and its row groups. What a Writer knew of
// each group's sources, a footer has only for the file: the first group has all of them.
func ReadFooter(footer []byte) (Table, []Group, error) {
	n := FooterLength(footer[max(0, len(footer)-TailBytes):])
	if n == 0 || n != int64(len(footer)) {
		return "", nil, fmt.Errorf("footer of %d bytes: its tail says %d: %w", len(footer), n, ErrFooter)
	}
	var meta format.FileMetaData
	if err := thrift.Unmarshal(&compact, footer[:n-TailBytes], &meta); err != nil {
		return "", nil, fmt.Errorf("footer: %w: %w", err, ErrFooter)
	}
	values := map[string]string{}
	for _, kv := range meta.KeyValueMetadata {
		values[kv.Key] = kv.Value
	}
	table := Table(values[KeyTable])
	if version := values[KeySchemaVersion]; version != fmt.Sprint(SchemaVersion) || !fits(table, meta.Schema) {
		return "", nil, fmt.Errorf("footer of table %q, schema version %q: %w", table, version, ErrFooter)
	}
	var sources []Source
	if err := json.Unmarshal([]byte(values[KeySources]), &sources); err != nil {
		return "", nil, fmt.Errorf("footer: key-value %s: %w: %w", KeySources, err, ErrFooter)
	}
	groups := make([]Group, len(meta.RowGroups))
	for i := range meta.RowGroups {
		g, err := groupOf(table, &meta.RowGroups[i])
		if err != nil {
			return "", nil, err
		}
		groups[i] = g
	}
	if len(groups) > 0 {
		groups[0].Sources = sources
	}
	return table, groups, nil
}

// fits says whether a file's columns are those that Footer writes.
func fits(table Table, schema []format.SchemaElement) bool {
	columns := Columns(table)
	if columns == nil || len(schema) != len(columns)+1 {
		return false
	}
	for i, c := range columns {
		got, want := schema[i+1], element(c)
		if got.Name != want.Name || got.Type != want.Type || got.RepetitionType != want.RepetitionType {
			return false
		}
	}
	return true
}

// groupOf is what a footer says of a row group.
func groupOf(table Table, rg *format.RowGroup) (Group, error) {
	for i := range rg.Columns { // page indexes stay where they are; another footer has none
		c := &rg.Columns[i]
		c.ColumnIndexOffset, c.ColumnIndexLength, c.OffsetIndexOffset, c.OffsetIndexLength = 0, 0, 0, 0
	}
	meta, err := thrift.Marshal(&compact, rg)
	if err != nil {
		return Group{}, fmt.Errorf("row group: %w", err)
	}
	return Group{Table: table, Rows: rg.NumRows, Offset: rg.FileOffset, Length: rg.TotalCompressedSize, Meta: meta}, nil
}

// Moved is the group as it is when its pages lie by bytes further on in the file.
func (g *Group) Moved(by int64) (Group, error) {
	var rg format.RowGroup
	if err := thrift.Unmarshal(&compact, g.Meta, &rg); err != nil {
		return Group{}, fmt.Errorf("row group: %w", err)
	}
	move(&rg, by)
	moved, err := groupOf(g.Table, &rg)
	moved.Sources = g.Sources
	return moved, err
}
