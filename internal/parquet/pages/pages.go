// Package pages encodes the columns of one row group into the bytes of Parquet pages.
//
// It gives the writer what a library's column writers cannot: bytes that were encoded before and are copied. A step
// repeats its shape, so a column that depends on shape and position only is encoded once:
//
//	indexes of a shape ──Append──▶ bytes ──copied once a step──▶ page ──zstd──▶ file
//
// The thrift structures, the run-length encoding and its AVX2 packers are parquet-go's. Only DELTA_BINARY_PACKED is
// written here (delta.go says why).
package pages

import (
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Rows is how many rows share a page, at least, where a column has more: a million bytes of a number column.
const Rows = 1 << 17

var (
	le      = binary.LittleEndian
	compact thrift.CompactProtocol
)

// A Level is how hard a page is compressed.
type Level int

// Levels, by what pages of the recordings take. Quick finds what repeats byte for byte, which is all that indexes of
// shapes need; Coded codes by frequency (coder says what for); Dense does both, slowly.
const (
	Quick Level = 0
	Coded Level = 1
	Dense Level = 2
)

// A Compressor compresses pages.
type Compressor struct {
	codec        format.CompressionCodec
	quick, dense *zstd.Encoder
	coder        coder
	packed       []byte
}

// NewCompressor returns one of a compression: zstd (also ""), snappy or none.
func NewCompressor(compression string) (*Compressor, error) {
	switch compression {
	case "", "zstd":
		return &Compressor{codec: format.Zstd, quick: newZstd(zstd.SpeedFastest), dense: newZstd(zstd.SpeedDefault)}, nil
	case "snappy":
		return &Compressor{codec: format.Snappy}, nil
	case "none":
		return &Compressor{codec: format.Uncompressed}, nil
	}
	return nil, fmt.Errorf("compression %q, want zstd, snappy or none", compression)
}

func newZstd(level zstd.EncoderLevel) *zstd.Encoder {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20), zstd.WithEncoderCRC(false))
	if err != nil {
		panic(err) // options are constant
	}
	return z
}

// compress returns from, compressed; it is valid until the next call.
func (c *Compressor) compress(from []byte, level Level) []byte {
	switch {
	case c.codec == format.Uncompressed:
		return from
	case c.codec == format.Snappy:
		c.packed = snappy.Encode(c.packed[:cap(c.packed)], from)
	case level == Coded:
		c.packed = c.coder.frame(c.packed[:0], from)
	case level == Dense:
		c.packed = c.dense.EncodeAll(from, c.packed[:0])
	default:
		c.packed = c.quick.EncodeAll(from, c.packed[:0])
	}
	return c.packed
}

// A Column appends the pages of one column of a row group to a file's bytes, and gathers what the footer says of them.
type Column struct {
	c    *Compressor
	b    []byte
	from int
	meta format.ColumnMetaData
	data map[format.Encoding]int32 // pages of values

	offsets format.OffsetIndex
	bounds  format.ColumnIndex
	rows    int64 // of pages so far
}

// A PageIndex is what a file says of a column's pages, in Thrift: where they are, and what they hold at least and at most.
type PageIndex struct {
	Offsets []byte `json:"offsets"`
	Bounds  []byte `json:"bounds"` // nil: of some page that is not said
}

// Begin begins a column behind b; offsets count from b's beginning.
func (c *Compressor) Begin(b []byte, name string, of format.Type, rows int) *Column {
	return &Column{c: c, b: b, from: len(b), data: map[format.Encoding]int32{}, meta: format.ColumnMetaData{
		Type: of, PathInSchema: []string{name}, Codec: c.codec, NumValues: int64(rows),
	}}
}

// A made page is as it lies in a file, header and all.
type made struct {
	bytes []byte
	plain int // how long it would be uncompressed, header included
}

func dictionaryPage(n int) format.PageHeader {
	return format.PageHeader{Type: format.DictionaryPage, DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{
		NumValues: int32(n), Encoding: format.Plain,
	})}
}

// page appends a page of a header, whose sizes it fills in, and what the page holds.
func (o *Column) page(plain []byte, level Level, h format.PageHeader) error {
	packed := o.c.compress(plain, level)
	h.UncompressedPageSize, h.CompressedPageSize = int32(len(plain)), int32(len(packed))
	header, err := thrift.Marshal(&compact, &h)
	if err != nil {
		return fmt.Errorf("page header: %w", err)
	}
	o.meta.TotalUncompressedSize += int64(len(header) + len(plain))
	o.b = append(append(o.b, header...), packed...)
	return nil
}

// Dictionary appends the dictionary page, which comes first. It is compressed anew only when values have come since.
func (o *Column) Dictionary(d *Dictionary) (err error) {
	at := len(o.b)
	o.meta.DictionaryPageOffset = int64(at)
	if d.page.bytes != nil && d.pageOf == len(d.values) {
		o.b = append(o.b, d.page.bytes...)
		o.meta.TotalUncompressedSize += int64(d.page.plain)
		return nil
	}
	before := o.meta.TotalUncompressedSize
	err = o.page(d.plain(), Quick, dictionaryPage(len(d.values)))
	d.page = made{append(d.page.bytes[:0], o.b[at:]...), int(o.meta.TotalUncompressedSize - before)}
	d.pageOf = len(d.values)
	return err
}

// Numbers appends the dictionary page of repeated numbers.
func (o *Column) Numbers(r *Repeats, level Level) error {
	o.meta.DictionaryPageOffset = int64(len(o.b))
	return o.page(r.Plain(), level, dictionaryPage(len(r.Values)))
}

// Page appends a page of rows: the levels, if the column has some, then the values in an encoding.
func (o *Column) Page(plain []byte, encoding format.Encoding, rows int, level Level) error {
	if len(o.data) == 0 {
		o.meta.DataPageOffset = int64(len(o.b))
	}
	o.data[encoding]++
	at := len(o.b)
	defer func() {
		o.offsets.PageLocations = append(o.offsets.PageLocations, format.PageLocation{
			Offset: int64(at), CompressedPageSize: int32(len(o.b) - at), FirstRowIndex: o.rows,
		})
		o.rows += int64(rows)
	}()
	return o.page(plain, level, format.PageHeader{Type: format.DataPage, DataPageHeader: thrift.New(format.DataPageHeader{
		NumValues: int32(rows), Encoding: encoding, DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE,
	})})
}

// Bounds says what the page that came last holds: statistics of its rows alone.
func (o *Column) Bounds(s format.Statistics) {
	o.bounds.NullPages = append(o.bounds.NullPages, s.MinValue == nil)
	o.bounds.MinValues = append(o.bounds.MinValues, s.MinValue)
	o.bounds.MaxValues = append(o.bounds.MaxValues, s.MaxValue)
	o.bounds.NullCounts = append(o.bounds.NullCounts, s.NullCount)
}

// Index is the page index once the column has ended; offsets count from by bytes before the file's bytes.
func (o *Column) Index(by int64) (index PageIndex, err error) {
	for i := range o.offsets.PageLocations {
		o.offsets.PageLocations[i].Offset += by
	}
	if index.Offsets, err = thrift.Marshal(&compact, &o.offsets); err != nil {
		return index, fmt.Errorf("offset index: %w", err)
	}
	n := len(o.offsets.PageLocations)
	known := len(o.bounds.MinValues) == n
	for i := range o.bounds.MinValues {
		// Of a page without bounds that is not all nulls, its texts are too long.
		first, next := o.offsets.PageLocations[i].FirstRowIndex, o.rows
		if i+1 < n {
			next = o.offsets.PageLocations[i+1].FirstRowIndex
		}
		known = known && (!o.bounds.NullPages[i] || o.bounds.NullCounts[i] == next-first)
	}
	if known {
		if index.Bounds, err = thrift.Marshal(&compact, &o.bounds); err != nil {
			return index, fmt.Errorf("column index: %w", err)
		}
	}
	return index, nil
}

// End returns the bytes with the column's pages behind, and what the footer says of them.
func (o *Column) End(s format.Statistics) ([]byte, format.ColumnChunk) {
	if len(o.offsets.PageLocations) == 1 && len(o.bounds.MinValues) == 0 {
		o.Bounds(s)
	}
	o.meta.Statistics = s
	o.meta.TotalCompressedSize = int64(len(o.b) - o.from)
	stats := func(of format.PageType, encoding format.Encoding, n int32) {
		o.meta.EncodingStats = append(o.meta.EncodingStats, format.PageEncodingStats{PageType: of, Encoding: encoding, Count: n})
	}
	if o.meta.DictionaryPageOffset != 0 || o.data[format.RLEDictionary] > 0 {
		stats(format.DictionaryPage, format.Plain, 1)
	}
	for _, encoding := range [...]format.Encoding{format.Plain, format.DeltaBinaryPacked, format.RLEDictionary} {
		if n := o.data[encoding]; n > 0 {
			o.meta.Encoding = append(o.meta.Encoding, encoding)
			stats(format.DataPage, encoding, n)
		}
	}
	if o.data[format.RLEDictionary] > 0 {
		o.meta.Encoding = append(o.meta.Encoding, format.Plain) // of its dictionary
	}
	o.meta.Encoding = append(o.meta.Encoding, format.RLE) // of levels
	return o.b, format.ColumnChunk{MetaData: o.meta}
}
