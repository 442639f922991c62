package parquet

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/parquet/pages"
)

// Options are a Writer's. The zero Options are the defaults.
type Options struct {
	// RowGroupRows is how many rows make a row group. Default: 131,072 in k, 8,192 in s and c.
	RowGroupRows int
	// MaxPending is how many rows, of all ranks, may wait for their row group; beyond that the rank with the most gets one
	// early. Default: 16 times RowGroupRows. A waiting row of k takes some 20 bytes where shapes repeat, 140 where none does,
	// one of s 300.
	MaxPending int
	// Compression is zstd (the default), snappy or none.
	Compression string
	// Profile says how much time the numbers of k are worth. Default: DefaultProfile.
	Profile Profile
	// Wrote is called for each row group after all its bytes were written, before anything else is. Its error is the
	// Writer's.
	Wrote func(Group) error
	// Groups are row groups that the file holds already: the Writer goes on where the last of them ends. Default: none.
	Groups []Group
}

// A Profile is how much time the numbers of k are worth: what it saves on the disk it takes in CPU time.
type Profile string

// Profiles. docs/performance.md has what each takes.
const (
	Fast Profile = "fast"
	// Small packs starts and durations in whole bytes, and codes these by frequency.
	Small Profile = "small"

	DefaultProfile = Fast
)

// Default rows of a row group. In k, selective queries read 2.7 times faster than with 8 times as many, for 3% more bytes.
// Few rows of s and c come, and those since the last row group are what a crash loses.
const (
	DefaultRowGroupRows = 1 << 17
	defaultFewRows      = 1 << 13
)

// A Writer writes one file of one table:
//
//	WriteChunk ──▶ rows wait, by run and rank ──▶ row group: buffers ──▶ pages ──▶ file
//
// It is not safe for concurrent use.
type Writer struct {
	table   Table
	o       Options
	to      io.Writer
	size    int64
	err     error
	groups  []Group
	waiting map[rankKey]*rankRows
	spare   []piece // memory for the next rank that begins to wait
	rows    struct{ taken, waiting int64 }
	origins int // of what waits
	// accounts are the latest of each source since the last Flush.
	accounts map[sourceKey]latest
	rest     []Source // that have an account and no group to go with

	places  []int // of the table's columns, those that the file has
	known   known
	kernels *kernelGroups // of k
	encoder *encoder      // of s and c
	buffers []buffer      // likewise
	pages   []byte
}

// A rankKey names whose rows share row groups.
type rankKey struct {
	run  string
	rank int64
}

// maxApart is how many ranks' rows wait for row groups of their own. A node has fewer; a session that claims a rank a step would make
// a row group, of some 5 KB, of each. Rows of further ranks share those of the crowd.
const maxApart = 256

var crowd = rankKey{"", math.MinInt64}

// rankRows are rows of one rank that wait for their row group, in the order in which they came.
type rankRows struct {
	rows    int
	origins int // chunks that they came in
	pieces  []piece
}

// maxOrigins bounds the chunks whose rows wait: what a chunk says of all its rows takes 1 to 2 KB, and it may be of one row.
const maxOrigins = 1 << 15

// A piece is rows of one chunk.
type piece struct {
	from   *origin
	step   chunk.Step
	copies []chunk.Copy
}

// A latest is the counts of a source's latest chunk.
type latest struct {
	*origin
	alone bool // it had no rows: the last word on a session
}

// An origin is what a chunk says of all its rows.
type origin struct {
	chunk.Identity
	counts []chunk.Count
}

// NewWriter returns a Writer of a file to w, which appends; nothing but o.Groups was written to it yet.
func NewWriter(w io.Writer, table Table, o Options) (*Writer, error) {
	if o.RowGroupRows <= 0 {
		o.RowGroupRows = defaultFewRows
		if table == Kernels {
			o.RowGroupRows = DefaultRowGroupRows
		}
	}
	if o.MaxPending <= 0 {
		o.MaxPending = 16 * o.RowGroupRows
	}
	switch o.Profile {
	case "":
		o.Profile = DefaultProfile
	case Fast, Small:
	default:
		return nil, fmt.Errorf("profile %q, want fast or small", o.Profile)
	}
	to, err := pages.NewCompressor(o.Compression)
	if err != nil {
		return nil, err
	}
	columns := Columns(table)
	if columns == nil {
		return nil, fmt.Errorf("table %q, want k, s, c or r", table)
	}
	inFile, places, err := columnsOf(table, o.Groups)
	if err != nil {
		return nil, err
	}
	var size int64
	if n := len(o.Groups); n > 0 {
		size = o.Groups[n-1].Offset + o.Groups[n-1].Length
	}
	out := &Writer{
		table: table, o: o, to: w, waiting: map[rankKey]*rankRows{}, accounts: map[sourceKey]latest{}, groups: slices.Clone(o.Groups), size: size,
		places: places, known: known{shapes: map[shapeKey]*chunk.Shape{}},
	}
	if table == Kernels {
		out.kernels = newKernelGroups(o.Profile, to)
	} else {
		for k, i := range places {
			columns[i] = inFile[k]
		}
		out.encoder, out.buffers = &encoder{to: to}, newBuffers(columns)
	}
	return out, nil
}

// WriteChunk takes a chunk's rows. It keeps parts of c, which must not change. After an error of the underlying writer, or
// of Wrote, the Writer writes nothing more, and each call returns that error.
func (w *Writer) WriteChunk(c *chunk.Chunk) error {
	if w.err != nil {
		return w.err
	}
	key, from := rankKey{c.Run, c.Rank}, &origin{c.Identity, c.Counts}
	source := sourceKey{cutText(c.Run), c.Rank, c.Device, c.Session}
	if _, known := w.accounts[source]; w.table != Requests && len(c.Counts) > 0 && (known || len(w.accounts) < maxAccounts) {
		w.accounts[source] = latest{from, len(c.Steps)+len(c.Copies) == 0}
	}
	if w.table == Copies {
		return w.wait(key, piece{from: from, copies: c.Copies}, len(c.Copies))
	}
	for _, s := range c.Steps {
		rows := len(s.Starts)
		switch w.table {
		case Steps:
			rows = int(bit(s.Last && !s.Outside))
			s.Shape, s.Launches, s.Starts, s.Durs, s.Requests = nil, nil, nil, nil, nil
		case Requests:
			rows = len(s.Requests)
			s.Shape, s.Launches, s.Starts, s.Durs = nil, nil, nil, nil
		default:
			if s.Requests = nil; rows > 0 {
				s.Shape = w.known.intern(s.Shape)
			}
		}
		if err := w.wait(key, piece{from: from, step: s}, rows); err != nil {
			return err
		}
	}
	return nil
}

// wait keeps a piece of so many rows until its rank has a row group full.
func (w *Writer) wait(key rankKey, p piece, rows int) error {
	if rows == 0 {
		return nil
	}
	r := w.waiting[key]
	if r == nil && len(w.waiting) >= maxApart {
		key = crowd
		r = w.waiting[key]
	}
	if r == nil {
		r = &rankRows{pieces: w.spare}
		w.spare = nil
		w.waiting[key] = r
	}
	if n := len(r.pieces); n == 0 || r.pieces[n-1].from != p.from {
		r.origins++
		w.origins++
	}
	r.pieces = append(r.pieces, p)
	r.rows += rows
	w.rows.taken += int64(rows)
	w.rows.waiting += int64(rows)
	if r.rows >= w.o.RowGroupRows {
		return w.group(key)
	}
	most := func(r *rankRows) int { return r.rows }
	if w.origins > maxOrigins {
		most = func(r *rankRows) int { return r.origins }
	}
	if w.rows.waiting > int64(w.o.MaxPending) || w.origins > maxOrigins {
		// Of ranks with as many, the one at hand, else the first in order: the same chunks make the same file.
		for _, k := range ranksInOrder(w.waiting) {
			if most(w.waiting[k]) > most(w.waiting[key]) {
				key = k
			}
		}
		return w.group(key)
	}
	return nil
}

// group makes and writes the row group of a rank.
func (w *Writer) group(key rankKey) error {
	r := w.waiting[key]
	delete(w.waiting, key)
	for i := range w.buffers {
		w.buffers[i].reset()
	}
	var sources sources
	for i := range r.pieces {
		p := &r.pieces[i]
		id, source := &p.from.Identity, sources.of(p.from)
		switch w.table {
		case Kernels:
			source.add(len(p.step.Starts), p.step.Start, p.step.End)
		case Steps:
			addRow(w.buffers, stepColumns, id, &p.step)
			source.add(1, p.step.Start, p.step.End)
		case Requests:
			for k := range p.step.Requests {
				addRow(w.buffers, requestColumns, id, &requestRow{&p.step, &p.step.Requests[k]})
			}
			source.add(len(p.step.Requests), p.step.Start, p.step.End)
		case Copies:
			for k := range p.copies {
				c := &p.copies[k]
				addRow(w.buffers, copyColumns, id, c)
				source.add(1, c.Start, c.Start+c.Dur)
			}
		}
	}
	w.rows.waiting -= int64(r.rows)
	w.origins -= r.origins
	defer func() {
		clear(r.pieces)
		w.spare = r.pieces[:0]
	}()
	column := func(b []byte, i int) ([]byte, format.ColumnChunk, *pages.Column, error) {
		return w.encoder.column(b, &w.buffers[i], r.rows)
	}
	if w.table == Kernels {
		w.kernels.begin(r.pieces, r.rows)
		defer w.kernels.end()
		column = w.kernels.column
	}
	return w.fail(w.write(r.rows, sources.all, column))
}

// write writes a row group, whose columns column appends to bytes.
func (w *Writer) write(rows int, from []Source, column func([]byte, int) ([]byte, format.ColumnChunk, *pages.Column, error)) error {
	b := w.pages[:0]
	if w.size == 0 {
		b = append(b, Magic...)
	}
	head := int64(len(b))
	rg := format.RowGroup{NumRows: int64(rows), FileOffset: head}
	indexes := make([]pages.PageIndex, 0, len(w.places))
	for _, i := range w.places {
		var c format.ColumnChunk
		var of *pages.Column
		var err error
		if b, c, of, err = column(b, i); err != nil {
			return err
		}
		index, err := of.Index(w.size)
		if err != nil {
			return err
		}
		indexes = append(indexes, index)
		rg.TotalByteSize += c.MetaData.TotalUncompressedSize
		rg.TotalCompressedSize += c.MetaData.TotalCompressedSize
		rg.Columns = append(rg.Columns, c)
	}
	w.pages = b
	move(&rg, w.size)
	meta, err := thrift.Marshal(&compact, &rg)
	if err != nil {
		return fmt.Errorf("row group: %w", err)
	}
	g := Group{Table: w.table, Rows: int64(rows), Offset: w.size + head, Length: int64(len(b)) - head, Sources: from, Meta: meta, Pages: indexes}
	if err := w.put(b); err != nil {
		return err
	}
	w.groups = append(w.groups, g)
	if w.o.Wrote != nil {
		return w.o.Wrote(g)
	}
	return nil
}

func (w *Writer) put(b []byte) error {
	n, err := w.to.Write(b)
	w.size += int64(n)
	if err != nil {
		return fmt.Errorf("table %s at byte %d: %w", w.table, w.size, err)
	}
	return nil
}

func (w *Writer) fail(err error) error {
	if w.err == nil {
		w.err = err
	}
	return w.err
}

// Flush writes a row group for each rank that has rows waiting.
func (w *Writer) Flush() error {
	for _, key := range ranksInOrder(w.waiting) {
		if w.err == nil {
			_ = w.group(key) // w.err has it
		}
	}
	w.settle()
	return w.err
}

// settle gives the last group of each source its latest account: a chunk may have that and no rows of this table. The last
// word on a session that has no rows here goes with the last group of all.
func (w *Writer) settle() {
	for i := len(w.groups) - 1; i >= 0 && len(w.accounts) > 0; i-- {
		for k := range w.groups[i].Sources {
			s := &w.groups[i].Sources[k]
			if a, ok := w.accounts[s.key()]; ok {
				s.account = accountOf(a.counts)
				delete(w.accounts, s.key())
			}
		}
	}
	to := &w.rest
	if n := len(w.groups); n > 0 {
		to = &w.groups[n-1].Sources
	}
	for _, key := range sourcesInOrder(w.accounts) {
		if a := w.accounts[key]; a.alone {
			s := a.source()
			s.account = accountOf(a.counts)
			*to = append(*to, s)
		}
	}
	clear(w.accounts)
}

// Empty reports whether the file would tell of nothing.
func (w *Writer) Empty() bool {
	for _, a := range w.accounts {
		if a.alone {
			return false
		}
	}
	return w.rows.taken == 0 && len(w.groups)+len(w.rest) == 0
}

// Close flushes and writes the footer, with keyValues besides those of its rows; it does not close the underlying writer.
func (w *Writer) Close(keyValues map[string]string) error {
	if err := w.Flush(); err != nil {
		return err
	}
	footer, err := footerAt(w.size, w.table, w.groups, keyValues, 0, w.rest)
	if err != nil {
		return w.fail(err)
	}
	if w.size == 0 {
		footer = append([]byte(Magic), footer...)
	}
	return w.fail(w.put(footer))
}

// Groups are the row groups that were written.
func (w *Writer) Groups() []Group { return w.groups }

// Size is how many bytes the file has.
func (w *Writer) Size() int64 { return w.size }

// Rows are how many rows were taken, and how many of them wait for their row group.
func (w *Writer) Rows() (taken, waiting int64) { return w.rows.taken, w.rows.waiting }
