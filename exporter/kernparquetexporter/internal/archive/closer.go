package archive

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/kernhes/kernhes/internal/chunk"
)

// A sealed part takes no more chunks; it is to be closed.
type sealed struct {
	name  Name
	limit int64 // how much of its journal counts
	rows  Rows  // that were taken by this process

	// Of the closer's mu:
	part  *part // nil: it is on the disk only
	tried chan struct{}
	files []Closed // of the last attempt
	err   error
	tries int
	pause int // ticks before the next attempt
}

func newSealed(name Name, p *part, limit int64, rows Rows) *sealed {
	return &sealed{name: name, part: p, limit: limit, rows: rows, tried: make(chan struct{})}
}

// A closer finishes sealed parts, one after the other, in a goroutine of its own, until each is closed:
//
//	in memory ──finish──▶ closed
//	    │ error              ▲
//	    ▼                    │
//	on the disk ──pause, resume, finish
type closer struct {
	a      *Archive
	mu     sync.Mutex
	queue  []*sealed
	memory int // parts that are in memory
	ticks  int
	now    time.Time
	retain bool // old files are to go
	wake   chan struct{}
	stop   chan struct{}
	done   chan struct{}
}

const (
	maxPause   = 60 // ticks between attempts, at most
	retainEach = 60 // ticks between looks for old files
)

func (c *closer) start(a *Archive) {
	c.a, c.wake, c.stop, c.done = a, make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go c.run()
}

// add takes parts that it does not have.
func (c *closer) add(parts ...*sealed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range parts {
		if slices.ContainsFunc(c.queue, func(o *sealed) bool { return o.name == s.name }) {
			continue
		}
		c.queue = append(c.queue, s)
		if s.part != nil {
			c.memory++
		}
	}
	c.poke()
}

// poke wakes run. Who calls it has mu.
func (c *closer) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// inMemory is how many parts wait with all their rows in memory.
func (c *closer) inMemory() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.memory
}

// names are those of parts that are not closed.
func (c *closer) names() (names []Name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.queue {
		names = append(names, s.name)
	}
	return names
}

// hurry ends all pauses. It returns what is not closed, and what tells that each was tried.
func (c *closer) hurry() (parts []*sealed, tried []chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.queue {
		s.pause = 0
		tried = append(tried, s.tried)
	}
	c.poke()
	return slices.Clone(c.queue), tried
}

// wait waits for an attempt at each.
func wait(ctx context.Context, tried []chan struct{}) error {
	for _, t := range tried {
		select {
		case <-t:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// outcome is what became of parts that were waited for.
func (c *closer) outcome(parts []*sealed) (files []Closed, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	files = []Closed{}
	for _, s := range parts {
		files = append(files, s.files...)
		err = errors.Join(err, s.err)
	}
	return files, err
}

func (c *closer) tick(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
	for _, s := range c.queue {
		s.pause = max(s.pause-1, 0)
	}
	if c.ticks%retainEach == 0 {
		c.retain = true
	}
	c.ticks++
	c.poke()
}

// end stops the goroutine after what it is at.
func (c *closer) end(ctx context.Context) error {
	close(c.stop)
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *closer) run() {
	defer close(c.done)
	defer func() {
		if err := c.a.o.Disk.Unlock(); err != nil {
			c.a.o.Logger.Warn("The lock of the directory could not be released", zap.Error(err))
		}
	}()
	for {
		select {
		case <-c.stop:
			return
		default:
		}
		switch s, retain, now := c.next(); {
		case s != nil:
			c.attempt(s)
		case retain:
			c.a.retain(now)
		default:
			select {
			case <-c.wake:
			case <-c.stop:
				return
			}
		}
	}
}

// next is what to do next, if anything is.
func (c *closer) next() (s *sealed, retain bool, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.queue {
		if s.pause == 0 {
			return s, false, c.now
		}
	}
	retain, c.retain = c.retain, false
	return nil, retain, c.now
}

// attempt tries to close a part.
func (c *closer) attempt(s *sealed) {
	c.mu.Lock()
	p := s.part
	c.mu.Unlock()
	files, err := c.finish(s, p)

	c.mu.Lock()
	defer c.mu.Unlock()
	s.files, s.err = files, err
	if p != nil {
		s.part = nil
		c.memory--
	}
	close(s.tried)
	if err == nil {
		c.queue = slices.DeleteFunc(c.queue, func(o *sealed) bool { return o == s })
		c.retain = !c.now.IsZero()
		return
	}
	s.tried = make(chan struct{})
	s.pause = min(1<<min(s.tries, 6), maxPause)
	if s.tries++; s.tries == 1 {
		c.a.o.Logger.Error("Files could not be closed; the exporter tries again", zap.Stringer("part", s.name), zap.Error(err))
	}
	c.a.count(func(n *Counts) { n.Failures++ })
}

// finish closes a part, which it reads from the disk if p is nil. No files and no error: there is nothing to close.
func (c *closer) finish(s *sealed, p *part) (files []Closed, err error) {
	disk, log := c.a.o.Disk, c.a.o.Logger.With(zap.Stringer("part", s.name))
	var lost Rows
	recovered := p == nil
	if recovered {
		p, lost, err = resume(disk, s.name, s.limit, c.a.o.Tables)
		switch {
		case errors.Is(err, errGone):
			log.Error("An open part was removed with all its rows", zap.Any("rows", s.rows))
			c.a.count(func(n *Counts) { n.Lost.add(s.rows) })
			return nil, nil
		case errors.Is(err, errJournal), errors.Is(err, chunk.ErrVersion), errors.Is(err, chunk.ErrCorrupt):
			log.Error("A journal is set aside as ….journal.bad: its part stays unfinished", zap.Error(err))
			if err := disk.Rename(s.name.journal(), s.name.journal()+".bad"); err != nil {
				return nil, err
			}
			c.a.count(func(n *Counts) { n.Lost.add(s.rows) })
			return nil, nil
		case err != nil:
			return nil, err
		}
		if p.empty() {
			return nil, p.discard()
		}
	}
	files, err = p.finish(c.a.o.Roll, func() error { return c.a.recent.save(disk) })
	if err != nil {
		return nil, err
	}
	if lost != (Rows{}) {
		log.Error("Rows are lost: an open file was removed or cut", zap.Any("rows", lost))
	}
	if recovered {
		log.Info("A part that was left open is closed", zap.Any("files", files))
	}
	if p.damaged > 0 {
		log.Error("A journal was damaged: its whole chunks were read, and it is kept as ….journal.bad", zap.Int64("skipped_bytes", p.damaged))
	}
	c.a.count(func(n *Counts) {
		n.Lost.add(lost)
		n.Damaged += p.damaged
		n.Files += int64(len(files))
		for _, f := range files {
			n.Bytes += f.Bytes
		}
		if recovered {
			n.Recovered++
		}
	})
	return files, nil
}

// errGone is why a part cannot be resumed: its journal was removed.
var errGone = errors.New("is gone")

// gone makes errGone of what is not there.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errGone
	}
	return err
}
