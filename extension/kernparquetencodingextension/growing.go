package kernparquetencodingextension

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/kernhes/kernhes/internal/parquet"
)

// errForeign is why a file is not grown: this encoding did not make it, or made it with other columns.
var errForeign = errors.New("not a file that grew by this encoding")

const (
	// frameBytes is what the file exporter writes before each message: its length, big-endian.
	frameBytes = 4

	// leastMessage is the shortest message. The file exporter's buffer has 4,096 bytes: what is longer it writes at once,
	// with what is shorter it lets the file be torn until its next flush, up to a second later.
	leastMessage = 4096

	// mostGroups is how many row groups a file can number.
	mostGroups = math.MaxInt16
)

// A growing file is what stands, or is about to stand, in a file:
//
//	made: one message without rows ──next──▶ grown by a message, as the exporter is about to write it ──next──▶ …
type growing struct {
	table    parquet.Table
	size     int64 // bytes
	messages int   // the one that this encoding made itself included
	groups   []parquet.Group
}

// made is how a file begins: whole without a row, so that no reader ever finds it otherwise.
func made(table parquet.Table) (*growing, []byte, error) {
	footer, err := parquet.Footer(table, nil, nil, 0)
	if err != nil {
		return nil, nil, err
	}
	b := binary.BigEndian.AppendUint32([]byte(parquet.Magic), uint32(len(footer)))
	b = append(b, footer...)
	return &growing{table: table, size: int64(len(b)), messages: 1}, b, nil
}

// next returns the message with pages, which begin with Magic if there are any, and the file as it is with that message.
func (g *growing) next(pages []byte, groups []parquet.Group) (*growing, []byte, error) {
	all := g.groups[:len(g.groups):len(g.groups)]
	for i := range groups {
		// In pages, Magic stands where the frame stands in the file.
		moved, err := groups[i].Moved(g.size)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, moved)
	}
	if len(all) > mostGroups {
		return nil, nil, fmt.Errorf("file of %d row groups, want at most %d", len(all), mostGroups)
	}
	footer, err := parquet.Footer(g.table, all, nil, 0)
	if err != nil {
		return nil, nil, err
	}
	message := pages[min(len(parquet.Magic), len(pages)):]
	if short := leastMessage - len(message) - len(footer); short > 0 {
		message = append(message, make([]byte, short)...)
	}
	message = append(message, footer...)
	if int64(len(message)) > math.MaxUint32 {
		return nil, nil, fmt.Errorf("message of %d bytes, want at most %d", len(message), uint32(math.MaxUint32))
	}
	return &growing{g.table, g.size + frameBytes + int64(len(message)), g.messages + 1, all}, message, nil
}

// A rest is what stands in a file after what is whole.
type rest struct {
	size int64  // bytes
	head []byte // its first bytes: the frame of a message that was written in part
}

// load reads a file of a table as far as it is whole.
func load(path string, table parquet.Table) (*growing, rest, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, rest{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, rest{}, err
	}
	size := info.Size()
	bounds, err := frames(f, size)
	if err != nil {
		return nil, rest{}, fmt.Errorf("%s: %w", path, err)
	}
	// Of a message whose write the power's end cut short, the length may have been written and the footer not.
	for n := len(bounds) - 1; n > 0; n-- {
		from, to := bounds[n-1]+frameBytes, bounds[n]
		groups, err := footerOf(f, from, to, table)
		if errors.Is(err, parquet.ErrFooter) {
			continue
		}
		if err != nil {
			return nil, rest{}, fmt.Errorf("%s: %w", path, err)
		}
		torn := rest{size - to, make([]byte, min(frameBytes, size-to))}
		_, err = f.ReadAt(torn.head, to)
		return &growing{table, to, n, groups}, torn, err
	}
	return nil, rest{}, fmt.Errorf("%s: %d bytes without a whole message of table %s: %w", path, size, table, errForeign)
}

// frames returns where whole frames begin, and the end of the last.
func frames(f io.ReaderAt, size int64) ([]int64, error) {
	magic := make([]byte, len(parquet.Magic))
	if size < int64(len(magic)) {
		return nil, nil
	}
	if _, err := f.ReadAt(magic, 0); err != nil {
		return nil, err
	}
	if string(magic) != parquet.Magic {
		return nil, nil
	}
	at := int64(len(magic))
	bounds := []int64{at}
	var head [frameBytes]byte
	for at+frameBytes <= size {
		if _, err := f.ReadAt(head[:], at); err != nil {
			return nil, err
		}
		n := int64(binary.BigEndian.Uint32(head[:]))
		if n < parquet.TailBytes || n > size-at-frameBytes {
			break
		}
		at += frameBytes + n
		bounds = append(bounds, at)
	}
	return bounds, nil
}

// footerOf reads the footer at the end of the message that lies between from and to.
func footerOf(f io.ReaderAt, from, to int64, table parquet.Table) ([]parquet.Group, error) {
	tail := make([]byte, parquet.TailBytes)
	if _, err := f.ReadAt(tail, to-int64(len(tail))); err != nil {
		return nil, err
	}
	n := parquet.FooterLength(tail)
	if n == 0 || n > to-from {
		return nil, fmt.Errorf("message at byte %d: footer of %d bytes, message of %d: %w", from, n, to-from, parquet.ErrFooter)
	}
	footer := make([]byte, n)
	if _, err := f.ReadAt(footer, to-n); err != nil {
		return nil, err
	}
	of, groups, err := parquet.ReadFooter(footer)
	if err != nil {
		return nil, err
	}
	if of != table {
		return nil, fmt.Errorf("message at byte %d: of table %s, want %s: %w", from, of, table, parquet.ErrFooter)
	}
	for i := range groups {
		if g := &groups[i]; g.Offset < 0 || g.Length < 0 || g.Length > to-g.Offset {
			return nil, fmt.Errorf("message at byte %d: row group %d lies outside the file: %w", from, i, parquet.ErrFooter)
		}
	}
	return groups, nil
}
