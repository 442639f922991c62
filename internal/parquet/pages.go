package parquet

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// pageRows is how many rows share a page: a million bytes of a number column.
const pageRows = 1 << 17

var (
	le      = binary.LittleEndian
	compact thrift.CompactProtocol
)

var encodings = map[Encoding]format.Encoding{Dictionary: format.RLEDictionary, Delta: format.DeltaBinaryPacked, Bits: format.Plain}

// An encoder makes pages of buffers. It is where pages that were encoded before can come in: a column's pages are bytes,
// and need not agree with other columns' on where they are cut.
type encoder struct {
	codec        format.CompressionCodec
	quick, dense *zstd.Encoder

	plain  []byte // of one page
	packed []byte
	levels []byte
	narrow []byte
}

func newEncoder(compression string) (*encoder, error) {
	e := &encoder{}
	switch compression {
	case "", "zstd":
		e.codec = format.Zstd
		// Number columns: klauspost's levels below "better" swing with where pages are cut, and take 1.5 times the bytes of dur.
		e.quick = newZstd(zstd.SpeedFastest)
		e.dense = newZstd(zstd.SpeedBetterCompression)
	case "snappy":
		e.codec = format.Snappy
	case "none":
		e.codec = format.Uncompressed
	default:
		return nil, fmt.Errorf("compression %q, want zstd, snappy or none", compression)
	}
	return e, nil
}

func newZstd(level zstd.EncoderLevel) *zstd.Encoder {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20), zstd.WithEncoderCRC(false))
	if err != nil {
		panic(err) // options are constant
	}
	return z
}

func (e *encoder) compress(to, from []byte, dense bool) []byte {
	switch {
	case e.codec == format.Uncompressed:
		return append(to, from...)
	case e.codec == format.Snappy:
		return append(to, snappy.Encode(nil, from)...)
	case dense:
		return e.dense.EncodeAll(from, to)
	}
	return e.quick.EncodeAll(from, to)
}

// chunk appends the pages of a column to b and says what the footer says of them; offsets count from b's beginning.
func (e *encoder) chunk(b []byte, buf *buffer, rows int) ([]byte, format.ColumnChunk, error) {
	c := &buf.column
	from := len(b)
	meta := format.ColumnMetaData{
		Type: physical[c.Type], PathInSchema: []string{c.Name}, Codec: e.codec, NumValues: int64(rows), Statistics: statistics(buf, rows),
	}
	how := c.Encoding
	if how == Repeats {
		if how = Delta; buf.repeats() {
			how = Dictionary
		}
	}
	encoding := encodings[how]
	dense := c.Encoding == Delta || c.Encoding == Repeats
	meta.Encoding = append(meta.Encoding, encoding, format.RLE)
	if how == Dictionary {
		meta.Encoding = append(meta.Encoding, format.Plain)
		meta.DictionaryPageOffset = int64(len(b))
		e.plain = appendDictionary(e.plain[:0], buf)
		var err error
		if b, err = e.page(b, &meta, format.PageHeader{Type: format.DictionaryPage, DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{
			NumValues: int32(len(buf.values)), Encoding: format.Plain,
		})}, false); err != nil {
			return nil, format.ColumnChunk{}, err
		}
	}
	meta.DataPageOffset = int64(len(b))
	for row, at := 0, 0; row < rows || row == 0; row += pageRows {
		n := min(pageRows, rows-row)
		size := n
		e.plain = e.plain[:0]
		if c.Null != "" {
			present := buf.present[row : row+n]
			size = 0
			for _, p := range present {
				size += int(p)
			}
			if err := e.definitions(present); err != nil {
				return nil, format.ColumnChunk{}, err
			}
		}
		if err := e.values(buf, how, at, at+size); err != nil {
			return nil, format.ColumnChunk{}, fmt.Errorf("column %s: %w", c.Name, err)
		}
		at += size
		var err error
		if b, err = e.page(b, &meta, format.PageHeader{Type: format.DataPage, DataPageHeader: thrift.New(format.DataPageHeader{
			NumValues: int32(n), Encoding: encoding, DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE,
		})}, dense); err != nil {
			return nil, format.ColumnChunk{}, err
		}
	}
	meta.TotalCompressedSize = int64(len(b) - from)
	return b, format.ColumnChunk{MetaData: meta}, nil
}

// page appends e.plain as a page with its header.
func (e *encoder) page(b []byte, meta *format.ColumnMetaData, h format.PageHeader, dense bool) ([]byte, error) {
	e.packed = e.compress(e.packed[:0], e.plain, dense)
	h.UncompressedPageSize, h.CompressedPageSize = int32(len(e.plain)), int32(len(e.packed))
	header, err := thrift.Marshal(&compact, &h)
	if err != nil {
		return nil, fmt.Errorf("page header: %w", err)
	}
	meta.TotalUncompressedSize += int64(len(header) + len(e.plain))
	return append(append(b, header...), e.packed...), nil
}

// definitions appends which values of a page are not null.
func (e *encoder) definitions(present []uint8) (err error) {
	levels := rle.Encoding{BitWidth: 1}
	if e.levels, err = levels.EncodeLevels(e.levels[:0], present); err != nil {
		return fmt.Errorf("levels: %w", err)
	}
	e.plain = le.AppendUint32(e.plain, uint32(len(e.levels)))
	e.plain = append(e.plain, e.levels...)
	return nil
}

// values appends the values from lo to hi of a column as its encoding wants them.
func (e *encoder) values(buf *buffer, how Encoding, lo, hi int) (err error) {
	switch how {
	case Dictionary:
		var d rle.DictionaryEncoding
		e.narrow, err = d.EncodeInt32(e.narrow[:0], buf.indexes[lo:hi])
	case Delta:
		var d delta.BinaryPackedEncoding
		e.narrow, err = d.EncodeInt64(e.narrow[:0], buf.numbers[lo:hi])
	case Bits:
		e.narrow = appendBits(e.narrow[:0], buf.indexes[lo:hi])
	}
	e.plain = append(e.plain, e.narrow...)
	return err
}

func appendBits(b []byte, bits []int32) []byte {
	for some := range slices.Chunk(bits, 8) {
		var v byte
		for i, bit := range some {
			v |= byte(bit) << i
		}
		b = append(b, v)
	}
	return b
}

func appendDictionary(b []byte, buf *buffer) []byte {
	for _, v := range buf.values {
		if buf.column.Type == Text {
			b = le.AppendUint32(b, uint32(len(v.text)))
		}
		b = appendPlain(b, buf.column.Type, v)
	}
	return b
}

// appendPlain appends a value as statistics have it.
func appendPlain(b []byte, t Type, v value) []byte {
	switch t {
	case Text:
		return append(b, v.text...)
	case Bool:
		return append(b, byte(v.num))
	}
	return le.AppendUint64(b, uint64(v.num))
}
