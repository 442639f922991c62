package parquet

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/kernhes/kernhes/internal/parquet/pages"
)

var (
	le      = binary.LittleEndian
	compact thrift.CompactProtocol
)

var formats = map[Encoding]format.Encoding{Dictionary: format.RLEDictionary, Delta: format.DeltaBinaryPacked, Bits: format.Plain}

// An encoder makes pages of buffers: of tables whose rows stand for themselves.
type encoder struct {
	to     *pages.Compressor
	plain  []byte // of one page
	levels []byte
	narrow []byte
}

// column appends the pages of a column to b and says what the footer says of them; offsets count from b's beginning.
func (e *encoder) column(b []byte, buf *buffer, rows int) ([]byte, format.ColumnChunk, *pages.Column, error) {
	c := &buf.column
	how := c.Encoding
	if how == Repeats {
		if how = Delta; buf.repeats() {
			how = Dictionary
		}
	}
	to := e.to.Begin(b, c.Name, physical[c.Type], rows)
	if how == Dictionary {
		d := pages.NewDictionary(physical[c.Type])
		for _, v := range buf.values {
			d.Index(v)
		}
		if err := to.Dictionary(d); err != nil {
			return nil, format.ColumnChunk{}, nil, err
		}
	}
	level := pages.Quick
	if c.Encoding == Delta || c.Encoding == Repeats {
		level = pages.Dense
	}
	for row, at := 0, 0; row < rows; row += pages.Rows {
		n := min(pages.Rows, rows-row)
		size := n
		e.plain = e.plain[:0]
		if c.Null != "" {
			present := buf.present[row : row+n]
			size = 0
			for _, p := range present {
				size += int(p)
			}
			if err := e.definitions(present); err != nil {
				return nil, format.ColumnChunk{}, nil, err
			}
		}
		if err := e.values(buf, how, at, at+size); err != nil {
			return nil, format.ColumnChunk{}, nil, fmt.Errorf("column %s: %w", c.Name, err)
		}
		at += size
		if err := to.Page(e.plain, formats[how], n, level); err != nil {
			return nil, format.ColumnChunk{}, nil, err
		}
	}
	b, chunk := to.End(statistics(buf, rows))
	return b, chunk, to, nil
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
