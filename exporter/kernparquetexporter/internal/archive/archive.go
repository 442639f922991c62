// Package archive keeps chunks as Parquet files of a folder, so that a chunk that was taken is in one of them, once,
// whatever ends the process.
//
//	Add ──▶ journal, synced ──▶ tables k, s, c ──▶ row groups ──▶ open files
//	            taken                                                │ the roll ends, Flush, Close
//	                                                                 ▼
//	                              next start ──▶ resume ──▶ finish: synced, renamed, no journal
//
// A part (part.go) is the three open files and their journal (journal.go). The closer (closer.go) finishes parts, those
// that an earlier process left too, one after the other, apart from Add. Time comes in as an argument.
package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/parquet"
)

// Options are an Archive's.
type Options struct {
	Disk   Disk
	Host   string        // of the collector, as HostName gives it
	Roll   time.Duration // how long a part takes chunks; rolls begin at multiples of it, in UTC
	MaxAge time.Duration // closed files older than this go; 0: none
	// MaxBytes is how much the closed files may take; the oldest go. 0: any.
	MaxBytes int64
	// JournalBytes is how much of chunks a journal holds before all rows are written and it begins anew. Default: 256 MiB,
	// some 50 million kernels, which take half a minute to be written anew after a crash.
	JournalBytes int64
	Tables       parquet.Options
	Logger       *zap.Logger
}

const (
	defaultJournalBytes = 256 << 20
	// maxGroups ends a part early: a reader of a file reads its whole footer, some kilobytes a row group.
	maxGroups = 1 << 14
	// maxUnclosed is how many parts that are still in memory may wait to be closed before Add waits too.
	maxUnclosed = 2
)

// Counts are what an Archive has done since it was opened.
type Counts struct {
	Chunks     int64 `json:"chunks"`     // taken
	Rows       Rows  `json:"rows"`       // of them
	Duplicates int64 `json:"duplicates"` // chunks that had been taken before
	Files      int64 `json:"files"`      // closed
	Bytes      int64 `json:"bytes"`      // of them
	Recovered  int64 `json:"recovered"`  // parts that were finished from what was on the disk
	Damaged    int64 `json:"damaged"`    // bytes of journals that were skipped, since they are no records and whole ones follow
	Failures   int64 `json:"failures"`   // attempts to write, close or remove that failed
	Removed    int64 `json:"removed"`    // files, for their age or for space
	Lost       Rows  `json:"lost"`       // taken, but their files were removed or damaged before they were closed
}

// An Archive is a folder into which one process writes. It is safe for concurrent use.
type Archive struct {
	o      Options
	begun  time.Time
	closer closer
	recent *recent

	mu     sync.Mutex // of what follows, through all of Add
	locked bool
	closed bool
	open   *part // nil: nothing was taken since the last was sealed
	since  time.Time
	rows   Rows // of open

	counted sync.Mutex
	counts  Counts
}

// What Add may say besides errors of the Disk.
var (
	ErrClosed = errors.New("archive is closed")
	// ErrBehind comes when the disk does not keep up; it is worth to try again.
	ErrBehind = errors.New("files of earlier rolls are not closed yet")
)

// Open takes the folder and begins to finish what another process left there. The folder is given back by Close.
func Open(o Options) (*Archive, error) {
	if o.JournalBytes <= 0 {
		o.JournalBytes = defaultJournalBytes
	}
	a := &Archive{o: o, begun: time.Now(), recent: newRecent()}
	if err := o.Disk.Lock(); err != nil {
		return nil, err
	}
	a.locked = true
	left, err := a.left()
	if err != nil {
		return nil, errors.Join(err, o.Disk.Unlock())
	}
	a.closer.start(a)
	a.closer.add(left...)
	return a, nil
}

// left are the parts that are in the folder and not closed. Their chunks are recent.
func (a *Archive) left() (parts []*sealed, err error) {
	entries, err := a.o.Disk.List()
	if err != nil {
		return nil, err
	}
	if err := a.recent.load(a.o.Disk); err != nil {
		return nil, err
	}
	for _, name := range journals(entries) {
		f, err := a.o.Disk.Open(name.journal())
		if err != nil {
			return nil, err
		}
		_, err = readJournal(f, all, reading{
			group: func(parquet.Group) error { return nil },
			chunk: func(body []byte) error { a.recent.add(sumOf(body)); return nil },
		})
		// One that is no journal is set aside when its part's turn comes.
		if err = errors.Join(err, f.Close()); err != nil && !errors.Is(err, errJournal) {
			return nil, err
		}
		parts = append(parts, newSealed(name, nil, all, Rows{}))
	}
	return parts, nil
}

// A Chunk is a chunk and the body that it was read from.
type Chunk struct {
	Body []byte
	*chunk.Chunk
}

// rows are those that the chunk gives.
func (c *Chunk) rows() Rows {
	r := Rows{Kernels: int64(c.Rows()), Copies: int64(len(c.Copies))}
	for i := range c.Steps {
		if s := &c.Steps[i]; s.Last && !s.Outside {
			r.Steps++
		}
		r.Requests += int64(len(c.Steps[i].Requests))
	}
	return r
}

// Add takes chunks, all or none. When it returns nil they outlive a crash and a power loss. It keeps parts of chunks.
func (a *Archive) Add(chunks []Chunk, now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return ErrClosed
	}
	fresh := make([]Chunk, 0, len(chunks))
	sums := map[uint64]bool{}
	for _, c := range chunks {
		if sum := sumOf(c.Body); !sums[sum] && !a.recent.has(sum) {
			sums[sum] = true
			fresh = append(fresh, c)
		}
	}
	err := a.ready(now)
	if err == nil && len(fresh) > 0 {
		err = a.take(fresh, now)
	}
	a.count(func(c *Counts) {
		if err != nil {
			c.Failures++
			return
		}
		c.Duplicates += int64(len(chunks) - len(fresh))
		c.Chunks += int64(len(fresh))
		for i := range fresh {
			c.Rows.add(fresh[i].rows())
		}
	})
	return err
}

// take puts chunks into the open part, or a new one.
func (a *Archive) take(chunks []Chunk, now time.Time) error {
	if a.open == nil {
		if err := a.begin(now); err != nil {
			return err
		}
	}
	p := a.open
	bodies := make([][]byte, len(chunks))
	for i := range chunks {
		bodies[i] = chunks[i].Body
	}
	if err := p.journal.append(bodies); err != nil {
		if errors.Is(err, errUnsure) {
			a.giveUp(err)
		}
		return err
	}
	// From here on the chunks are taken: what fails now is mended from the journal, by the closer.
	for i := range chunks {
		a.recent.add(sumOf(bodies[i]))
		a.rows.add(chunks[i].rows())
	}
	if err := a.fill(p, chunks); err != nil {
		a.giveUp(err)
	} else if p.groups() >= maxGroups {
		a.seal()
	}
	return nil
}

// fill puts chunks into a part's tables, and begins its journal anew when that is long.
func (a *Archive) fill(p *part, chunks []Chunk) error {
	for i := range chunks {
		if err := p.add(chunks[i].Chunk); err != nil {
			return err
		}
	}
	if p.journal.end-p.journal.base < a.o.JournalBytes {
		return nil
	}
	if err := a.recent.save(a.o.Disk); err != nil {
		return err
	}
	return p.checkpoint()
}

// begin opens a part.
func (a *Archive) begin(now time.Time) error {
	if a.closer.inMemory() >= maxUnclosed {
		return ErrBehind
	}
	entries, err := a.o.Disk.List()
	if err != nil {
		return err
	}
	// A part that waits to be resumed may have lost its files, but not its name.
	p, err := newPart(a.o.Disk, next(entries, a.closer.names(), now, a.o.Roll, a.o.Host), a.o.Tables)
	if err != nil {
		return err
	}
	a.open, a.since, a.rows = p, now, Rows{}
	return nil
}

// ready sees to the folder and the lock, and ends the open part if its roll is over.
func (a *Archive) ready(now time.Time) error {
	if p := a.open; p != nil && !a.o.Disk.Holds(p.journal.name, p.journal.file) {
		a.giveUp(fmt.Errorf("journal %s: %w", p.journal.name, fs.ErrNotExist)) // its resumption finds it gone
	}
	if !a.locked || !a.o.Disk.Locked() {
		if a.locked {
			a.o.Logger.Warn("The directory was removed, and is made again")
			a.locked = false
			if err := a.o.Disk.Unlock(); err != nil {
				return err
			}
		}
		if err := a.o.Disk.Lock(); err != nil {
			return err
		}
		a.locked = true
		left, err := a.left() // another file system may have come in its place
		if err != nil {
			return err
		}
		a.closer.add(left...)
	}
	// A clock that was set back by less than a roll goes on with the part; by more, another roll begins.
	if p := a.open; p != nil && (!now.Before(p.name.Roll.Add(a.o.Roll)) || now.Before(p.name.Roll.Add(-a.o.Roll))) {
		a.seal()
	}
	return nil
}

// seal hands the open part to the closer.
func (a *Archive) seal() {
	if p := a.open; p != nil {
		a.closer.add(newSealed(p.name, p, p.journal.end, a.rows))
		a.open = nil
	}
}

// giveUp leaves the open part, which cannot be written to any more, to be resumed from what is on the disk.
func (a *Archive) giveUp(why error) {
	p := a.open
	a.o.Logger.Warn("A part is given up and will be resumed", zap.Stringer("part", p.name), zap.Error(why))
	p.abandon()
	a.closer.add(newSealed(p.name, nil, p.journal.end, a.rows))
	a.open = nil
}

// Tick is to be called every second: rolls end without Add, failed attempts are repeated, old files go.
func (a *Archive) Tick(now time.Time) {
	a.mu.Lock()
	if !a.closed {
		if err := a.ready(now); err != nil {
			a.count(func(c *Counts) { c.Failures++ })
		}
	}
	a.mu.Unlock()
	a.closer.tick(now)
}

// Flush closes the open files. When it returns nil all that was taken before is in closed files, among them those that it
// names.
func (a *Archive) Flush(ctx context.Context) ([]Closed, error) {
	var waited []*sealed
	for {
		a.mu.Lock()
		waiting, tried := a.closer.hurry()
		last := a.open == nil
		if !last && a.closer.inMemory() == 0 {
			// One at a time: the next roll's end must find room.
			a.seal()
			waiting, tried = a.closer.hurry()
			last = true
		}
		a.mu.Unlock()
		for _, s := range waiting {
			if !slices.Contains(waited, s) {
				waited = append(waited, s)
			}
		}
		if err := wait(ctx, tried); err != nil {
			return nil, err
		}
		if last {
			return a.closer.outcome(waited)
		}
	}
}

// Close flushes, and gives the folder back. What cannot be closed, or not before ctx ends, is left to the next Open.
func (a *Archive) Close(ctx context.Context) error {
	a.mu.Lock()
	first := !a.closed
	a.closed = true
	a.seal()
	a.mu.Unlock()
	if !first {
		return nil
	}
	waiting, tried := a.closer.hurry()
	if err := wait(ctx, tried); err != nil {
		return errors.Join(err, a.closer.end(ctx))
	}
	_, err := a.closer.outcome(waiting)
	return errors.Join(err, a.closer.end(ctx))
}

// Counts are what was done so far.
func (a *Archive) Counts() Counts {
	a.counted.Lock()
	defer a.counted.Unlock()
	return a.counts
}

func (a *Archive) count(f func(*Counts)) {
	a.counted.Lock()
	defer a.counted.Unlock()
	f(&a.counts)
}
