package archive

import (
	"time"

	"github.com/kernhes/kernhes/internal/parquet"
)

// A Status is what an Archive is at.
type Status struct {
	Open     *OpenPart `json:"open"`     // null: nothing was taken since the last files were closed
	Unclosed []Waiting `json:"unclosed"` // parts that are being closed
	Counts   Counts    `json:"counts"`
}

// An OpenPart is the part that takes chunks.
type OpenPart struct {
	Files        []OpenFile `json:"files"`
	Since        time.Time  `json:"since"`         // of its first chunk
	RollEnds     time.Time  `json:"roll_ends"`     // when it will be closed
	JournalBytes int64      `json:"journal_bytes"` // of chunks that a crash would have written anew
}

// An OpenFile is one table of it.
type OpenFile struct {
	Name    string        `json:"name"`
	Table   parquet.Table `json:"table"`
	Rows    int64         `json:"rows"`
	Waiting int64         `json:"waiting"` // of rows: not in a row group yet
	Bytes   int64         `json:"bytes"`   // of row groups
}

// A Waiting is a part that is not closed yet.
type Waiting struct {
	Part  string `json:"part"`
	Tries int    `json:"tries"` // attempts that failed
	Error string `json:"error,omitempty"`
}

// Status says what is open. It waits while an Add is under way.
func (a *Archive) Status() Status {
	s := Status{Unclosed: a.closer.waiting(), Counts: a.Counts()}
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.open
	if p == nil {
		return s
	}
	s.Open = &OpenPart{Since: a.since, RollEnds: p.name.Roll.Add(a.o.Roll), JournalBytes: p.journal.end - p.journal.base}
	for _, t := range p.tables {
		if t.unused() {
			continue
		}
		_, waiting := t.writer.Rows()
		s.Open.Files = append(s.Open.Files, OpenFile{p.name.open(t.is), t.is, t.rows(), waiting, t.writer.Size()})
	}
	return s
}

func (c *closer) waiting() []Waiting {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := []Waiting{}
	for _, s := range c.queue {
		w := Waiting{Part: s.name.String(), Tries: s.tries}
		if s.err != nil {
			w.Error = s.err.Error()
		}
		all = append(all, w)
	}
	return all
}

// Unclosed is how many parts are not closed yet.
func (a *Archive) Unclosed() int { return len(a.closer.waiting()) }
