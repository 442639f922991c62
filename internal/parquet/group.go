package parquet

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/parquet/pages"
)

// Magic stands at the beginning and at the end of a Parquet file.
const Magic = "PAR1"

// A Group is one row group that was written: what the footer says of it. It goes through JSON and back.
type Group struct {
	Table   Table    `json:"table"`
	Rows    int64    `json:"rows"`
	Offset  int64    `json:"offset"` // of its first byte in the file
	Length  int64    `json:"length"` // of its pages, bytes
	Sources []Source `json:"sources"`
	Meta    []byte   `json:"meta"` // Thrift: its RowGroup, offsets as in the file

	// Pages are the page indexes of its columns, offsets as in the file. Empty: an earlier version wrote the group, or it was
	// moved.
	Pages []pages.PageIndex `json:"pages,omitempty"`
}

// A Source is where rows of a group come from, or a session of which there are none, but the last word on its account.
type Source struct {
	Run     string `json:"run"`
	Rank    int64  `json:"rank"`
	Device  uint16 `json:"device"`
	Session uint64 `json:"session"`
	Host    string `json:"host"`
	Mode    string `json:"mode"`
	Rows    int64  `json:"rows"`
	From    uint64 `json:"from_ns"` // unix ns: earliest start
	To      uint64 `json:"to_ns"`   // unix ns: latest end
	account
}

// An account is what had become of a session's records when its latest chunk was cut; internal/books has the names.
type account struct {
	Counts   books.Counts      `json:"counts,omitempty"`
	Losses   map[string]uint64 `json:"losses,omitempty"`   // by reason
	Residues map[string]int64  `json:"residues,omitempty"` // of the identities that the counts are of: 0
}

// accountOf reads a chunk's counts.
func accountOf(counts []chunk.Count) account {
	a := account{Counts: books.Counts{}, Losses: map[string]uint64{}}
	for _, c := range counts {
		if reason, ok := strings.CutPrefix(c.Name, books.LostPrefix); ok {
			a.Losses[reason] = c.Value
		} else {
			a.Counts[c.Name] = c.Value
		}
	}
	a.Residues = books.Residues(a.Counts)
	return a
}

// Keys of a file's key-values. All values but the first two are JSON.
const (
	KeySchemaVersion = "kernhes.schema_version"
	KeyTable         = "kernhes.table"
	KeyRuns          = "kernhes.runs"
	KeyRanks         = "kernhes.ranks"
	KeyHosts         = "kernhes.hosts"
	KeyModes         = "kernhes.modes"
	KeyRoll          = "kernhes.roll"    // {"from_ns", "to_ns"} of the roll in which an archive opened the file; a caller's
	KeyWindow        = "kernhes.window"  // {"from_ns", "to_ns"}: earliest start and latest end
	KeySources       = "kernhes.sources" // by run, rank, device and session: rows in the file, window, counts
)

var physical = map[Type]format.Type{Text: format.ByteArray, Int64: format.Int64, Bool: format.Boolean}

// Footer is what stands after the pages of groups, the last Magic included. keyValues are added to those that the groups
// give. shift is added to each offset: what a file holds before the Magic that Group.Offset counts from. rest are sources
// that no group has.
func Footer(table Table, groups []Group, keyValues map[string]string, shift int64, rest ...Source) ([]byte, error) {
	return footerAt(0, table, groups, keyValues, shift, rest)
}

// footerAt is Footer of a file whose pages end at an offset, with the page indexes before it. They stand together, and all or
// none are there: parquet-go reads them in one piece. at is 0 where they are to be left out.
func footerAt(at int64, table Table, groups []Group, keyValues map[string]string, shift int64, rest []Source) ([]byte, error) {
	columns, _, err := columnsOf(table, groups)
	if err != nil {
		return nil, err
	}
	meta := format.FileMetaData{Version: 2, CreatedBy: fmt.Sprintf("kernhes version %d (build 0)", SchemaVersion)}
	meta.Schema = append(meta.Schema, format.SchemaElement{Name: string(table), NumChildren: thrift.New(int32(len(columns)))})
	for _, c := range columns {
		meta.Schema = append(meta.Schema, element(c))
		meta.ColumnOrders = append(meta.ColumnOrders, format.ColumnOrder{Value: &format.TypeDefinedOrder{}})
	}
	for i := range groups {
		var rg format.RowGroup
		if err := thrift.Unmarshal(&compact, groups[i].Meta, &rg); err != nil {
			return nil, fmt.Errorf("row group %d: %w", i, err)
		}
		if groups[i].Table != table || len(rg.Columns) != len(columns) {
			return nil, fmt.Errorf("row group %d: of table %s with %d columns, want %s with %d", i, groups[i].Table, len(rg.Columns), table, len(columns))
		}
		move(&rg, shift)
		rg.Ordinal = int16(min(i, math.MaxInt16)) // only encrypted files need it
		meta.NumRows += rg.NumRows
		meta.RowGroups = append(meta.RowGroups, rg)
	}
	var indexes []byte
	if at > 0 {
		indexes = placeIndexes(meta.RowGroups, groups, at)
	}
	values, err := describe(table, groups, rest)
	if err != nil {
		return nil, err
	}
	maps.Copy(values, keyValues)
	for _, k := range slices.Sorted(maps.Keys(values)) {
		meta.KeyValueMetadata = append(meta.KeyValueMetadata, format.KeyValue{Key: k, Value: values[k]})
	}
	b, err := thrift.Marshal(&compact, &meta)
	if err != nil {
		return nil, fmt.Errorf("footer: %w", err)
	}
	b = le.AppendUint32(b, uint32(len(b)))
	return append(append(indexes, b...), Magic...), nil
}

// placeIndexes returns the page indexes of groups, which will stand at an offset, and says in the row groups where.
func placeIndexes(to []format.RowGroup, groups []Group, at int64) (b []byte) {
	for i := range groups {
		if len(groups[i].Pages) != len(to[i].Columns) {
			return nil
		}
	}
	for i := range groups {
		for k, index := range groups[i].Pages {
			if c := &to[i].Columns[k]; index.Bounds != nil {
				c.ColumnIndexOffset, c.ColumnIndexLength = at+int64(len(b)), int32(len(index.Bounds))
				b = append(b, index.Bounds...)
			}
		}
	}
	for i := range groups {
		for k, index := range groups[i].Pages {
			c := &to[i].Columns[k]
			c.OffsetIndexOffset, c.OffsetIndexLength = at+int64(len(b)), int32(len(index.Offsets))
			b = append(b, index.Offsets...)
		}
	}
	return b
}

// columnsOf are the columns of a file of a table, and their places among all that the table has. A file that an earlier
// version began lacks those that came since, and goes on without them.
func columnsOf(table Table, groups []Group) (columns []Column, places []int, err error) {
	all := Columns(table)
	if len(groups) == 0 {
		for i := range all {
			places = append(places, i)
		}
		return all, places, nil
	}
	var rg format.RowGroup
	if err := thrift.Unmarshal(&compact, groups[0].Meta, &rg); err != nil {
		return nil, nil, fmt.Errorf("row group 0: %w", err)
	}
	for i := range rg.Columns {
		path := rg.Columns[i].MetaData.PathInSchema
		at := slices.IndexFunc(all, func(c Column) bool { return slices.Equal(path, []string{c.Name}) })
		if at < 0 || len(places) > 0 && at <= places[len(places)-1] {
			return nil, nil, fmt.Errorf("row group 0: column %q is none of table %s, or out of order", path, table)
		}
		columns, places = append(columns, all[at]), append(places, at)
	}
	if table == Steps && !slices.ContainsFunc(columns, func(c Column) bool { return c.Name == "traced" }) {
		for i := range columns {
			if slices.Contains(alwaysThere, columns[i].Name) {
				columns[i].Null = ""
			}
		}
	}
	return columns, places, nil
}

func element(c Column) format.SchemaElement {
	e := format.SchemaElement{Name: c.Name, Type: thrift.New(physical[c.Type]), RepetitionType: thrift.New(format.Required)}
	if c.Null != "" {
		e.RepetitionType = thrift.New(format.Optional)
	}
	if c.Type == Text {
		e.ConvertedType = thrift.New(deprecated.UTF8)
		e.LogicalType = format.LogicalType{Value: &format.StringType{}}
	}
	return e
}

// move adds to the offsets of a row group.
func move(rg *format.RowGroup, by int64) {
	rg.FileOffset += by
	for i := range rg.Columns {
		m := &rg.Columns[i].MetaData
		m.DataPageOffset += by
		if m.DictionaryPageOffset != 0 || slices.Contains(m.Encoding, format.RLEDictionary) {
			m.DictionaryPageOffset += by
		}
	}
}

// A sourceKey tells sources apart.
type sourceKey struct {
	run     string
	rank    int64
	device  uint16
	session uint64
}

func (s *Source) key() sourceKey { return sourceKey{s.Run, s.Rank, s.Device, s.Session} }

// take adds another's rows; its counts are the later ones.
func (s *Source) take(o *Source) {
	if o.Rows > 0 {
		if s.Rows == 0 {
			s.From = o.From
		}
		s.Rows += o.Rows
		s.From, s.To = min(s.From, o.From), max(s.To, o.To)
	}
	if len(o.Counts) > 0 {
		s.account = o.account
	}
}

// describe is what groups and sources beside them say of a file, as key-values.
func describe(table Table, groups []Group, rest []Source) (map[string]string, error) {
	at := map[sourceKey]int{}
	all := []Source{}
	runs, ranks, hosts, modes := map[string]bool{}, map[int64]bool{}, map[string]bool{}, map[string]bool{}
	var window struct {
		From uint64 `json:"from_ns"`
		To   uint64 `json:"to_ns"`
	}
	take := func(sources []Source) {
		for _, s := range sources {
			if s.Rows > 0 {
				list(runs, s.Run)
				list(ranks, s.Rank)
				list(hosts, s.Host)
				list(modes, s.Mode)
				if window.From == 0 || s.From < window.From {
					window.From = s.From
				}
				window.To = max(window.To, s.To)
			}
			if _, known := at[s.key()]; !known && len(all) >= maxFileSources-1 {
				other := otherSource()
				other.Rows, other.From, other.To = s.Rows, s.From, s.To
				s = other
			}
			if k, ok := at[s.key()]; ok {
				all[k].take(&s)
				continue
			}
			at[s.key()] = len(all)
			all = append(all, s)
		}
	}
	for i := range groups {
		take(groups[i].Sources)
	}
	take(rest)
	values := map[string]string{KeySchemaVersion: fmt.Sprint(SchemaVersion), KeyTable: string(table)}
	for k, v := range map[string]any{
		KeyRuns: sorted(runs), KeyRanks: sorted(ranks), KeyHosts: sorted(hosts), KeyModes: sorted(modes), KeyWindow: window, KeySources: all,
	} {
		b, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("key-value %s: %w", k, err)
		}
		values[k] = string(b)
	}
	return values, nil
}

// list adds a value to those that a file lists.
func list[T string | int64](set map[T]bool, v T) {
	if len(set) < maxFileValues {
		set[v] = true
	}
}

// sorted is never nil, so that it is [] in JSON.
func sorted[T string | int64](set map[T]bool) []T {
	return slices.AppendSeq(make([]T, 0, len(set)), slices.Values(slices.Sorted(maps.Keys(set))))
}
