package parquet

import (
	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/parquet/pages"
)

// A bank keeps, over the row groups of one run, what columns of k that depend on a shape have in them: dictionaries, and
// each shape's indexes into them. A shape's values are looked up once, and encoded once for each width of a dictionary;
// each step of that shape copies bytes.
//
// Each row group has all of its bank's dictionaries, used or not, so a bank is let go after some time, and with it texts
// that nobody uses any more.
type bank struct {
	dictionaries []*pages.Dictionary // by column of k; nil where ofShape is not, or values are bits
	shapes       map[*chunk.Shape]*placed
	positions    int // of shapes
	groups       int // that were written
}

// Bounds of a bank.
const (
	bankGroups    = 64      // row groups that it serves: 8 million rows, against which looking up 20 shapes anew is nothing
	bankBytes     = 1 << 20 // of dictionaries: a tenth of that in each row group, compressed
	bankPositions = 1 << 17 // of shapes: some 12 MB
	banks         = 8       // runs at a time
	// ownRows is how many rows a row group must have to share a bank's dictionaries; those of fewer, as a flush makes
	// them, would be smaller than dictionaries of values that they don't have.
	ownRows = 1 << 13
)

func newBank() *bank {
	b := &bank{dictionaries: make([]*pages.Dictionary, len(kernelColumns)), shapes: map[*chunk.Shape]*placed{}}
	for i := range kernelColumns {
		if c := &kernelColumns[i]; c.ofShape != nil && c.Type != Bool {
			b.dictionaries[i] = pages.NewDictionary(physical[c.Type])
		}
	}
	return b
}

// worn says that the bank is to be replaced.
func (b *bank) worn() bool {
	size := 0
	for _, d := range b.dictionaries {
		if d != nil {
			size += d.Size()
		}
	}
	return b.groups >= bankGroups || size > bankBytes || b.positions > bankPositions
}

// A placed shape is what k's columns have of a shape, by column; nothing where ofShape is not.
type placed struct {
	columns  []placedColumn
	fused    pages.Bits
	launches []launchKernels
	uses     int
	group    int // the last that it was in
}

type placedColumn struct {
	indexes     []int32
	encoded     []byte // at that width; nil: not yet
	width       int
	least, most value
}

// launchKernels are a shape's kernels of one launch, and by how much each one's node id is above the one before.
type launchKernels struct {
	kernels int
	step    int64   // where that is the same for all
	steps   []int64 // where it is not
}

// place returns what a shape gives.
func (b *bank) place(s *chunk.Shape, names demangler) *placed {
	p := b.shapes[s]
	if p == nil {
		p = b.lookUp(s.Positions, names.demangled)
		b.shapes[s] = p
		b.positions += len(s.Positions)
	}
	p.uses++
	return p
}

func (b *bank) lookUp(positions []chunk.Position, demangled func(string) string) *placed {
	p := &placed{columns: make([]placedColumn, len(kernelColumns)), launches: launchesOf(positions)}
	all := make([]int32, 0, len(kernelColumns)*len(positions))
	for i := range kernelColumns {
		of, c := kernelColumns[i].ofShape, &p.columns[i]
		if of == nil {
			continue
		}
		for k := range positions {
			v := of(&positions[k], demangled)
			if k == 0 {
				c.least, c.most = v, v
			} else if pages.Compare(v, c.least) < 0 {
				c.least = v
			} else if pages.Compare(v, c.most) > 0 {
				c.most = v
			}
			if b.dictionaries[i] == nil {
				p.fused.Add(v.Num != 0)
			} else {
				all = append(all, b.dictionaries[i].Index(v))
			}
		}
		c.indexes = all[len(all)-len(positions)*int(bit(b.dictionaries[i] != nil)):]
	}
	return p
}

// launchesOf are the launches of a shape.
func launchesOf(positions []chunk.Position) (launches []launchKernels) {
	for len(positions) > 0 {
		n, even := 1, true
		var steps []int64
		for n < len(positions) && positions[n].Launch == positions[0].Launch {
			steps = append(steps, int64(positions[n].Node)-int64(positions[n-1].Node))
			even = even && steps[n-1] == steps[0]
			n++
		}
		l := launchKernels{kernels: n}
		if !even {
			l.steps = steps
		} else if n > 1 {
			l.step = steps[0]
		}
		launches = append(launches, l)
		positions = positions[n:]
	}
	return launches
}

// copyFrom is how many kernels a shape must have for its bytes to be worth copying: each copy may end in up to seven runs
// of one index, which take two bytes each.
const copyFrom = 64

// put adds a column of the shape to a page.
func (p *placed) put(x *pages.Indexes, i, width int) {
	c := &p.columns[i]
	if p.uses < 2 || len(c.indexes) < copyFrom {
		x.Add(c.indexes)
		return
	}
	if c.encoded == nil || c.width != width {
		c.encoded, c.width = pages.Encode(nil, c.indexes, width), width
	}
	x.Copy(c.encoded, len(c.indexes))
}
