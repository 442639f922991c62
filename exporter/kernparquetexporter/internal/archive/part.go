package archive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/parquet"
)

// A part is the tables that are written together, and their journal:
//
//	newPart ──▶ writing ──finish──▶ closed: tables under their names, no journal
//	              │ any error, kill, power loss
//	              ▼
//	        on disk only ──resume──▶ writing
//
// It has no locks: one goroutine at a time uses it. After an error it can only be abandoned; what it has taken is then
// on the disk for resume.
type part struct {
	name    Name
	disk    Disk
	journal *journal
	tables  []*table
	damaged int64 // bytes of its journal that were skipped
}

// A table is one file of a part.
type table struct {
	is     parquet.Table
	file   File // nil: the table has its name already, and is only counted
	at     int64
	writer *parquet.Writer
	before int64 // rows that it had when it was resumed
}

// Write appends. It fails if the file is shorter than what was written: somebody cut it, and a hole would be in its place.
func (t *table) Write(b []byte) (int, error) {
	if t.file == nil {
		return len(b), nil
	}
	if size, err := t.file.Size(); err != nil {
		return 0, err
	} else if size < t.at {
		return 0, fmt.Errorf("has %d bytes, %d were written: %w", size, t.at, errCut)
	}
	n, err := t.file.WriteAt(b, t.at)
	t.at += int64(n)
	return n, err
}

// errCut is of a file that another has made shorter.
var errCut = errors.New("it was cut short")

// rows are those taken, waiting ones included.
func (t *table) rows() int64 {
	taken, _ := t.writer.Rows()
	return t.before + taken
}

// unused reports whether the table gets no file: few engines say which requests are in their steps.
func (t *table) unused() bool { return t.is == parquet.Requests && t.file != nil && t.rows() == 0 }

// Rows are how many rows of tables k, s, c and r.
type Rows struct {
	Kernels  int64 `json:"k"`
	Steps    int64 `json:"s"`
	Copies   int64 `json:"c"`
	Requests int64 `json:"r"`
}

// of is the number of a table.
func (r *Rows) of(t parquet.Table) *int64 {
	switch t {
	case parquet.Kernels:
		return &r.Kernels
	case parquet.Steps:
		return &r.Steps
	case parquet.Requests:
		return &r.Requests
	default:
		return &r.Copies
	}
}

func (r *Rows) add(o Rows) {
	r.Kernels, r.Steps, r.Copies, r.Requests = r.Kernels+o.Kernels, r.Steps+o.Steps, r.Copies+o.Copies, r.Requests+o.Requests
}

// newPart opens a part that has nothing yet.
func newPart(disk Disk, name Name, o parquet.Options) (*part, error) {
	j, err := newJournal(disk, name.journal(), nil)
	if err != nil {
		_ = disk.Remove(name.journal()) // if it has its name already
		return nil, err
	}
	p := &part{name: name, disk: disk, journal: j}
	for _, is := range parquet.Tables {
		if err := p.open(is, nil, o); err != nil {
			return nil, errors.Join(err, p.discard())
		}
	}
	return p, nil
}

// open opens a table that holds groups, and cuts off what follows them.
func (p *part) open(is parquet.Table, groups []parquet.Group, o parquet.Options) (err error) {
	t := &table{is: is}
	o.Groups = groups
	if is != parquet.Kernels {
		o.RowGroupRows, o.MaxPending = 0, 0 // few rows come: the writer's defaults do
	}
	if t.writer, err = parquet.NewWriter(t, is, o); err != nil {
		return err
	}
	for i := range groups {
		t.before += groups[i].Rows
	}
	t.at = t.writer.Size()
	if len(groups) == 0 {
		t.file, err = p.disk.Create(p.name.open(is))
	} else if t.file, err = p.disk.Open(p.name.open(is)); err == nil {
		err = t.file.Truncate(t.at)
	}
	p.tables = append(p.tables, t)
	if err != nil {
		return fmt.Errorf("table %s: %w", p.name.open(is), err)
	}
	return nil
}

// add takes a chunk into the tables; it lies in the journal already.
func (p *part) add(c *chunk.Chunk) error {
	for _, t := range p.tables {
		if err := t.writer.WriteChunk(c); err != nil {
			return fmt.Errorf("table %s: %w", p.name.open(t.is), err)
		}
	}
	return nil
}

// empty reports whether the files would tell of nothing.
func (p *part) empty() bool {
	return !slices.ContainsFunc(p.tables, func(t *table) bool { return !t.writer.Empty() })
}

// groups is how many row groups there are.
func (p *part) groups() (n int) {
	for _, t := range p.tables {
		n = max(n, len(t.writer.Groups()))
	}
	return n
}

// checkpoint writes and syncs all rows, so that the journal needs none of its chunks any more, and begins it anew.
func (p *part) checkpoint() error {
	var groups []parquet.Group
	for _, t := range p.tables {
		if err := t.writer.Flush(); err != nil {
			return fmt.Errorf("table %s: %w", p.name.open(t.is), err)
		}
		if err := t.file.Sync(); err != nil {
			return fmt.Errorf("table %s: %w", p.name.open(t.is), err)
		}
		groups = append(groups, t.writer.Groups()...)
	}
	j, err := newJournal(p.disk, p.journal.name, groups)
	if err != nil {
		return err
	}
	_ = p.journal.file.Close() // it has no name any more
	p.journal = j
	return nil
}

// A Closed is a file that was closed.
type Closed struct {
	Name  string        `json:"name"`
	Table parquet.Table `json:"table"`
	Rows  int64         `json:"rows"`
	Bytes int64         `json:"bytes"`
}

// finish closes the tables: footers, sync; then keep; then names, which the folder's sync makes last; then the journal goes. All that
// needs space on the disk comes before the names: whoever moves closed files away must not meet a part that is closed again.
func (p *part) finish(roll time.Duration, keep func() error) (files []Closed, err error) {
	defer func() {
		if err != nil {
			p.abandon()
		}
	}()
	values := map[string]string{
		parquet.KeyRoll: fmt.Sprintf(`{"from_ns":%d,"to_ns":%d}`, p.name.Roll.UnixNano(), p.name.Roll.Add(roll).UnixNano()),
	}
	for _, t := range p.tables {
		if t.unused() {
			continue
		}
		if err := t.writer.Close(values); err != nil {
			return nil, fmt.Errorf("table %s: %w", p.name.open(t.is), err)
		}
		if t.file != nil {
			if err := t.file.Sync(); err != nil {
				return nil, fmt.Errorf("table %s: %w", p.name.open(t.is), err)
			}
		}
		files = append(files, Closed{p.name.closed(t.is), t.is, t.rows(), t.writer.Size()})
	}
	if err := keep(); err != nil {
		return nil, err
	}
	for _, t := range p.tables {
		if t.unused() {
			if err := p.disk.Remove(p.name.open(t.is)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		} else if t.file != nil {
			if err := p.disk.Rename(p.name.open(t.is), p.name.closed(t.is)); err != nil {
				return nil, err
			}
		}
	}
	if err := p.disk.Sync(); err != nil {
		return nil, err
	}
	if err := p.removeJournal(); err != nil {
		return nil, fmt.Errorf("journal %s: %w", p.journal.name, err)
	}
	p.abandon()
	// The part is closed, synced or not: a journal that comes back is of files that have their names.
	_ = p.disk.Sync()
	return files, nil
}

// removeJournal removes the journal of a closed part, but keeps a damaged one.
func (p *part) removeJournal() error {
	if p.damaged > 0 {
		return p.disk.Rename(p.journal.name, p.journal.name+".bad")
	}
	return p.disk.Remove(p.journal.name)
}

// discard removes a part that has nothing.
func (p *part) discard() error {
	p.abandon()
	for _, t := range p.tables {
		if err := p.disk.Remove(p.name.open(t.is)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return p.disk.Remove(p.journal.name)
}

// abandon closes what is open, and leaves all else.
func (p *part) abandon() {
	if p.journal != nil && p.journal.file != nil {
		_ = p.journal.file.Close()
	}
	for _, t := range p.tables {
		if t.file != nil {
			_ = t.file.Close()
		}
	}
}

// resume opens a part that is on the disk only: tables as the journal's groups have them, and the journal's chunks, of
// which those beyond limit bytes of the journal do not count. lost are rows of tables that are gone.
func resume(disk Disk, name Name, limit int64, o parquet.Options) (p *part, lost Rows, err error) {
	file, err := disk.Open(name.journal())
	if err != nil {
		return nil, lost, fmt.Errorf("journal %s: %w", name.journal(), gone(err))
	}
	p = &part{name: name, disk: disk, journal: &journal{name: name.journal(), file: file}}
	if lost, err = p.load(limit, o); err != nil {
		p.abandon()
		return nil, lost, fmt.Errorf("journal %s: %w", p.journal.name, err)
	}
	return p, lost, nil
}

// load reads the journal: it opens the tables where the groups end, and adds the chunks.
func (p *part) load(limit int64, o parquet.Options) (lost Rows, err error) {
	groups := map[parquet.Table][]parquet.Group{}
	open := func() error {
		if len(p.tables) > 0 {
			return nil
		}
		for _, is := range parquet.Tables {
			n, err := p.reopen(is, groups[is], o)
			if err != nil {
				return err
			}
			*lost.of(is) = n
		}
		return nil
	}
	_, err = readJournal(p.journal.file, limit, reading{
		group: func(g parquet.Group) error {
			groups[g.Table] = append(groups[g.Table], g)
			return nil
		},
		chunk: func(body []byte) error {
			if err := open(); err != nil {
				return err
			}
			c, err := chunk.Unpack(body)
			if err != nil {
				return err
			}
			return p.add(c)
		},
		skip: func(bytes int64) { p.damaged += bytes },
	})
	if err != nil {
		return lost, err
	}
	return lost, open()
}

// reopen opens a table as the journal knows it; lost are rows of groups that the file no longer has.
func (p *part) reopen(is parquet.Table, groups []parquet.Group, o parquet.Options) (lost int64, err error) {
	file, err := p.disk.Open(p.name.open(is))
	if errors.Is(err, fs.ErrNotExist) {
		if file, err = p.disk.Open(p.name.closed(is)); err == nil {
			// It was closed with all that the journal has.
			t := &table{is: is}
			p.tables = append(p.tables, t)
			o.Groups = groups
			for i := range groups {
				t.before += groups[i].Rows
			}
			t.writer, err = parquet.NewWriter(t, is, o)
			return 0, errors.Join(err, file.Close())
		}
	}
	var size int64
	if err == nil {
		size, err = file.Size()
		err = errors.Join(err, file.Close())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("table %s: %w", p.name.open(is), err)
	}
	if n := len(groups); n > 0 && size < groups[n-1].Offset+groups[n-1].Length {
		for i := range groups {
			lost += groups[i].Rows
		}
		groups = nil
	}
	return lost, p.open(is, groups, o)
}

var _ io.Writer = (*table)(nil)
