package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// An archive is Parquet files of the tables k and s.
type archive []string

// openArchive is the files that paths name: files, or folders with all that is in them.
func openArchive(paths []string) (a archive, err error) {
	for _, path := range paths {
		err := filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && (file == path || strings.HasSuffix(file, ".parquet")) {
				a = append(a, file)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if len(a) == 0 {
		return nil, fmt.Errorf("%s: holds no *.parquet file of kernhes", strings.Join(paths, ", "))
	}
	return a, nil
}

// An archived row is one row of a table by its columns' names.
type archived map[string]parquet.Value

func (r archived) text(name string) string { return string(r[name].ByteArray()) }
func (r archived) uint(name string) uint64 { return uint64(r[name].Int64()) }

// Numbers of steps whose seq the session had before: 2^61 + occurrence × 2^48 + seq. From 2^62 on a step pairs with no other.
const (
	repeatedSeq = 1 << 61
	unpairedSeq = 1 << 62
	plainBits   = 1<<48 - 1
)

// plainSeq is the seq that the engine gave.
func plainSeq(seq int64) int64 {
	if seq >= repeatedSeq && seq < unpairedSeq {
		return seq & plainBits
	}
	return seq
}

// isStep says whether a row's seq is the one asked for: as it stands in the tables, or as the engine gave it.
func isStep(seq, asked int64) bool { return seq == asked || plainSeq(seq) == asked }

// rows gives do each row of a seq in the table that has a column.
func (a archive) rows(having string, seq int64, do func(archived)) error {
	for _, path := range a {
		if err := fileRows(path, having, seq, do); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

func fileRows(path, having string, seq int64, do func(archived)) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	p, err := parquet.OpenFile(file, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return err
	}
	seqs, ok := p.Schema().Lookup("seq")
	if _, other := p.Schema().Lookup(having); !ok || !other {
		return nil // another table
	}
	for _, group := range p.RowGroups() {
		if err := groupRows(group, seqs.ColumnIndex, seq, do); err != nil {
			return err
		}
	}
	return nil
}

// groupRows reads of a row group the rows from the first of a seq to its last.
func groupRows(group parquet.RowGroup, seqs int, seq int64, do func(archived)) (err error) {
	first, last, err := extent(group.ColumnChunks()[seqs], seq)
	if err != nil || last < first {
		return err
	}
	rows := group.Rows()
	defer func() { err = cmp.Or(err, rows.Close()) }()
	if err := rows.SeekToRow(first); err != nil {
		return err
	}
	columns := group.Schema().Columns()
	buffer := make([]parquet.Row, 256)
	for at := first; at <= last; {
		n, err := rows.ReadRows(buffer[:min(int64(len(buffer)), last-at+1)])
		for _, values := range buffer[:n] {
			if v := values[seqs]; v.IsNull() || !isStep(v.Int64(), seq) {
				continue
			}
			r := archived{}
			for _, v := range values {
				r[columns[v.Column()][0]] = v.Clone()
			}
			do(r)
		}
		at += int64(n)
		if err != nil && !errors.Is(err, io.EOF) || n == 0 {
			return cmp.Or(err, io.ErrUnexpectedEOF)
		}
	}
	return nil
}

// extent is the first and the last row of a seq; the last is before the first if there is none.
func extent(chunk parquet.ColumnChunk, seq int64) (first, last int64, err error) {
	first, last = 0, -1
	if c, ok := chunk.(*parquet.FileColumnChunk); ok {
		if least, most, ok := c.Bounds(); ok && (seq > most.Int64() || seq < least.Int64() && most.Int64() < repeatedSeq) {
			return first, last, nil
		}
	}
	pages := chunk.Pages()
	defer func() { err = cmp.Or(err, pages.Close()) }()
	values := make([]parquet.Value, 4096)
	at := int64(0)
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return first, last, nil
		}
		if err != nil {
			return first, last, err
		}
		reader := page.Values()
		for {
			n, err := reader.ReadValues(values)
			for _, v := range values[:n] {
				if !v.IsNull() && isStep(v.Int64(), seq) {
					if last < 0 {
						first = at
					}
					last = at
				}
				at++
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return first, last, err
			}
		}
		parquet.Release(page)
	}
}
