package parquet

import (
	"fmt"

	"github.com/parquet-go/parquet-go/format"

	"github.com/kernhes/kernhes/internal/parquet/pages"
)

// kernelGroups makes the row groups of k, column by column.
type kernelGroups struct {
	profile Profile
	to      *pages.Compressor
	names   demangler
	banks   map[string]*bank // by run
	groups  int              // made so far

	// Of the row group that is being made:
	bank   *bank
	pieces []piece
	placed []*placed // by piece
	shapes []*placed // each once
	rows   int

	indexes pages.Indexes
	levels  pages.Indexes
	bits    pages.Bits
	delta   pages.Delta
	repeats *pages.Repeats
	own     *pages.Dictionary // by turns of each column that no shape gives
	numbers *pages.Dictionary
	places  []int32 // by piece, of a column; -1: null
	plain   []byte
}

func newKernelGroups(profile Profile, to *pages.Compressor) *kernelGroups {
	return &kernelGroups{
		profile: profile, to: to, names: demangler{}, banks: map[string]*bank{}, repeats: pages.NewRepeats(),
		own: pages.NewDictionary(format.ByteArray), numbers: pages.NewDictionary(format.Int64),
	}
}

// begin takes the pieces of a row group: all of one run.
func (k *kernelGroups) begin(pieces []piece, rows int) {
	k.groups++
	k.pieces, k.rows, k.placed, k.shapes = pieces, rows, k.placed[:0], k.shapes[:0]
	if k.bank = nil; rows >= ownRows {
		k.bank = k.banks[pieces[0].from.Run]
	}
	if k.bank == nil || k.bank.worn() {
		k.bank = newBank()
		if rows >= ownRows {
			k.keep(pieces[0].from.Run)
		}
	}
	k.bank.groups++
	for i := range pieces {
		p := k.bank.place(pieces[i].step.Shape, k.names)
		k.placed = append(k.placed, p)
		if p.group != k.groups {
			p.group = k.groups
			k.shapes = append(k.shapes, p)
		}
	}
}

// keep keeps the bank for later row groups of its run.
func (k *kernelGroups) keep(run string) {
	if _, again := k.banks[run]; !again && len(k.banks) == banks {
		clear(k.banks)
	}
	k.banks[run] = k.bank
}

// end lets the pieces go.
func (k *kernelGroups) end() {
	clear(k.placed)
	clear(k.shapes)
	k.pieces, k.bank = nil, nil
}

// column appends the pages of column i to b, and says what the footer says of them.
func (k *kernelGroups) column(b []byte, i int) ([]byte, format.ColumnChunk, *pages.Column, error) {
	c := &kernelColumns[i]
	to := k.to.Begin(b, c.Name, physical[c.Type], k.rows)
	var err error
	var s format.Statistics
	switch {
	case c.ofShape != nil:
		s = shapeStatistics(k.shapes, i)
		if c.Type == Bool {
			err = k.shapeBits(to)
		} else {
			err = k.shapeIndexes(to, i)
		}
	case c.ofChunk != nil || c.ofStep != nil:
		s, err = k.stepIndexes(to, c)
	case c.Encoding == Repeats:
		s, err = k.repeated(to, c)
	default:
		s, err = k.deltas(to, c)
	}
	if err != nil {
		return nil, format.ColumnChunk{}, nil, fmt.Errorf("column %s: %w", c.Name, err)
	}
	b, chunk := to.End(s)
	return b, chunk, to, nil
}

// shapeIndexes writes a column of texts or numbers that shapes give.
func (k *kernelGroups) shapeIndexes(to *pages.Column, i int) error {
	d := k.bank.dictionaries[i]
	if err := to.Dictionary(d); err != nil {
		return err
	}
	x, width := &k.indexes, pages.Width(d.Len())
	x.Reset(width)
	from := 0
	for at, p := range k.placed {
		p.put(x, i, width)
		if x.Rows() < pages.Rows && at < len(k.placed)-1 {
			continue
		}
		k.plain = x.Append(k.plain[:0])
		if err := to.Page(k.plain, format.RLEDictionary, x.Rows(), pages.Quick); err != nil {
			return err
		}
		to.Bounds(shapeStatistics(k.placed[from:at+1], i))
		from = at + 1
		x.Reset(width)
	}
	return nil
}

func (k *kernelGroups) shapeBits(to *pages.Column) error {
	k.bits.Reset()
	for _, p := range k.placed {
		k.bits.Copy(&p.fused)
	}
	k.plain = k.bits.Append(k.plain[:0])
	return to.Page(k.plain, format.Plain, k.rows, pages.Quick)
}

// shapeStatistics are of shapes that a page or row group has: its dictionary may have more.
func shapeStatistics(shapes []*placed, i int) format.Statistics {
	least, most := shapes[0].columns[i].least, shapes[0].columns[i].most
	for _, p := range shapes[1:] {
		if c := &p.columns[i]; pages.Compare(c.least, least) < 0 {
			least = c.least
		}
		if c := &p.columns[i]; pages.Compare(c.most, most) > 0 {
			most = c.most
		}
	}
	return bounds(physical[kernelColumns[i].Type], least, most)
}

// stepIndexes writes a column that has one value for all kernels of a step.
func (k *kernelGroups) stepIndexes(to *pages.Column, c *kernelColumn) (s format.Statistics, err error) {
	d := k.numbers
	if c.Type == Text {
		d = k.own
	}
	d.Reset()
	k.places = k.places[:0]
	var from *origin
	for i := range k.pieces {
		p := &k.pieces[i]
		if c.ofChunk != nil {
			if p.from == from {
				k.places = append(k.places, k.places[i-1])
				continue
			}
			from = p.from
			k.places = append(k.places, d.Index(c.ofChunk(&p.from.Identity)))
			continue
		}
		v := c.ofStep(&p.step)
		if v.Null {
			s.NullCount += int64(len(p.step.Starts))
			k.places = append(k.places, -1)
			continue
		}
		k.places = append(k.places, d.Index(v))
	}
	if err = to.Dictionary(d); err != nil {
		return s, err
	}
	x, levels := &k.indexes, &k.levels
	x.Reset(pages.Width(d.Len()))
	levels.Reset(1)
	for i, at := range k.places {
		n := len(k.pieces[i].step.Starts)
		if at >= 0 {
			x.Run(at, n)
		}
		levels.Run(min(at+1, 1), n)
	}
	k.plain = k.plain[:0]
	if c.Null != "" {
		k.plain = levels.AppendLevels(k.plain)
	}
	k.plain = x.Append(k.plain)
	if d.Len() > 0 {
		least, most := d.Bounds()
		nulls := s.NullCount
		s = bounds(physical[c.Type], least, most)
		s.NullCount = nulls
	}
	return s, to.Page(k.plain, format.RLEDictionary, k.rows, pages.Quick)
}

// level is how hard starts and durations are compressed.
func (k *kernelGroups) level() pages.Level {
	if k.profile == Small {
		return pages.Dense
	}
	return pages.Coded
}

func (k *kernelGroups) deltas(to *pages.Column, c *kernelColumn) (s format.Statistics, err error) {
	d := &k.delta
	level := pages.Quick
	if d.Grain = 1; c.times != nil {
		d.Grain, level = 8, k.level()
	}
	d.Reset()
	var least, most int64
	for i := range k.pieces {
		if c.times != nil {
			d.Add(c.times(&k.pieces[i].step))
		} else {
			c.ofKernel(d, &k.pieces[i].step, k.placed[i])
		}
		if d.Rows() < pages.Rows && i < len(k.pieces)-1 {
			continue
		}
		l, m := d.Bounds()
		page := bounds(format.Int64, num(l), num(m))
		if s.MinValue != nil {
			l, m = min(l, least), max(m, most)
		}
		least, most = l, m
		s = bounds(format.Int64, num(least), num(most))
		k.plain = d.Append(k.plain[:0])
		if err = to.Page(k.plain, format.DeltaBinaryPacked, d.Rows(), level); err != nil {
			return s, err
		}
		to.Bounds(page)
		d.Reset()
	}
	return s, nil
}

// repeated writes a column of numbers that repeat, or of differences where too many differ: an entry of a dictionary
// takes 8 bytes, what it saves is half a byte a row.
func (k *kernelGroups) repeated(to *pages.Column, c *kernelColumn) (s format.Statistics, err error) {
	r := k.repeats
	r.Reset()
	for i := range k.pieces {
		if !r.Add(c.times(&k.pieces[i].step), max(256, k.rows/16)) {
			return k.deltas(to, c)
		}
	}
	r.Order()
	width := (pages.Width(len(r.Values)) + 7) &^ 7
	if err := to.Numbers(r, k.level()); err != nil {
		return s, err
	}
	least, most := r.Bounds()
	s = bounds(format.Int64, num(least), num(most))
	for at := 0; at < len(r.Indexes); at += pages.Rows {
		x := &k.indexes
		x.Reset(width)
		x.Add(r.Indexes[at:min(at+pages.Rows, len(r.Indexes))])
		k.plain = x.Append(k.plain[:0])
		if err = to.Page(k.plain, format.RLEDictionary, x.Rows(), k.level()); err != nil {
			return s, err
		}
		if rows := x.Rows(); rows < len(r.Indexes) {
			l, m := r.BoundsOf(at, at+rows)
			to.Bounds(bounds(format.Int64, num(l), num(m)))
		}
	}
	return s, nil
}
