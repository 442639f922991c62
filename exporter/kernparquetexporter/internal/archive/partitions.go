package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

// A Store keeps chunks: an Archive, or Partitions.
type Store interface {
	Add(chunks []Chunk, now time.Time) error
	Tick(now time.Time)
	Flush(ctx context.Context) ([]Closed, error)
	Close(ctx context.Context) error
	Counts() Counts
	Status() Status
	Unclosed() int
}

// Bounds of Partitions.
const (
	maxPartitions  = 64              // that are open; beyond, that which was used longest ago is closed
	idlePartitions = 5 * time.Minute // after the end of its roll, one that nothing comes for is closed
	partShare      = 8               // each may hold this part of the kernels that wait in memory
	maxPartition   = 200             // bytes of a run in a path: file systems take 255 with what stands before
)

// Partitions keep chunks as an Archive for each date and run, in paths as Hive has them:
//
//	DIRECTORY/k/date=2026-12-01/run=RUN/k-….parquet          closed; likewise s and c
//	DIRECTORY/.kernparquet/date=2026-12-01/run=RUN/….journal  what is not closed
//
// The date is that of the arrival, in UTC. They are safe for concurrent use.
type Partitions struct {
	o    Options
	root *Directory

	mu    sync.Mutex
	open  map[string]*partition // by path below the root
	ended Counts                // of those that were closed
	stop  bool
	ticks int
}

// A partition is an Archive that is open.
type partition struct {
	*Archive
	used time.Time
}

// OpenPartitions takes a folder, and begins to finish what another process left there. o.Disk is not used.
func OpenPartitions(o Options, root *Directory, now time.Time) (*Partitions, error) {
	p := &Partitions{o: o, root: root, open: map[string]*partition{}}
	if err := root.Lock(); err != nil {
		return nil, err
	}
	left, err := filepath.Glob(filepath.Join(root.path, staging, "date=*", "run=*", "*.journal"))
	for _, journal := range left {
		var path string
		if path, err = filepath.Rel(filepath.Join(root.path, staging), filepath.Dir(journal)); err == nil {
			_, err = p.of(path, now)
		}
		if err != nil {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, p.Close(context.Background()))
	}
	return p, nil
}

// PartitionPath is where the chunks of a run lie that come at a time, below the folder.
func PartitionPath(run string, now time.Time) string {
	return filepath.Join("date="+now.UTC().Format(time.DateOnly), "run="+escape(run))
}

// escape writes a value as Hive does: what has a meaning in paths becomes % and two hexadecimal digits.
func escape(value string) string {
	if value == "" {
		return "__HIVE_DEFAULT_PARTITION__"
	}
	var b strings.Builder
	for i := range len(value) {
		switch c := value[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-_.", c) >= 0 && (c != '.' || i > 0):
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if b.Len() > maxPartition { // two runs must not share a folder by chance
		sum := sumOf([]byte(value))
		return fmt.Sprintf("%s-%016x", strings.TrimRight(b.String()[:maxPartition-17], "%0123456789ABCDEF"), sum)
	}
	return b.String()
}

// of is the partition of a path, opened if need be. The caller holds mu, or is alone.
func (p *Partitions) of(path string, now time.Time) (*partition, error) {
	if at := p.open[path]; at != nil {
		at.used = now
		return at, nil
	}
	if len(p.open) >= maxPartitions {
		if err := p.end(context.Background(), p.oldest()); err != nil {
			return nil, err
		}
	}
	o := p.o
	o.Disk, o.MaxAge, o.MaxBytes = newPartitionDisk(p.root, path), 0, 0
	o.Tables.MaxPending = max(o.Tables.MaxPending/partShare, o.Tables.RowGroupRows)
	a, err := Open(o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	at := &partition{a, now}
	p.open[path] = at
	return at, nil
}

// oldest is the path of the partition that was used longest ago.
func (p *Partitions) oldest() (path string) {
	for one, at := range p.open {
		if path == "" || at.used.Before(p.open[path].used) {
			path = one
		}
	}
	return path
}

// end closes a partition.
func (p *Partitions) end(ctx context.Context, path string) error {
	at := p.open[path]
	delete(p.open, path)
	err := at.Close(ctx)
	p.ended.add(at.Counts())
	return err
}

// add adds counts.
func (c *Counts) add(o Counts) {
	c.Chunks, c.Duplicates, c.Files, c.Bytes = c.Chunks+o.Chunks, c.Duplicates+o.Duplicates, c.Files+o.Files, c.Bytes+o.Bytes
	c.Recovered, c.Failures, c.Removed = c.Recovered+o.Recovered, c.Failures+o.Failures, c.Removed+o.Removed
	c.Rows.add(o.Rows)
	c.Lost.add(o.Lost)
}

// Add takes chunks. After an error those of some runs may be taken; they are known when all come again.
func (p *Partitions) Add(chunks []Chunk, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stop {
		return ErrClosed
	}
	byPath := map[string][]Chunk{}
	var paths []string
	for _, c := range chunks {
		path := PartitionPath(c.Run, now)
		if byPath[path] == nil {
			paths = append(paths, path)
		}
		byPath[path] = append(byPath[path], c)
	}
	for _, path := range paths {
		at, err := p.of(path, now)
		if err == nil {
			err = at.Add(byPath[path], now)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Tick is to be called every second.
func (p *Partitions) Tick(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for path, at := range p.open {
		if at.Tick(now); now.Sub(at.used) > p.o.Roll+idlePartitions && at.Unclosed() == 0 {
			if err := p.end(context.Background(), path); err != nil {
				p.o.Logger.Warn("A partition is not closed; the next start does it", zap.String("path", path), zap.Error(err))
			}
		}
	}
	if p.ticks++; p.ticks%retainEach == 1 && (p.o.MaxAge > 0 || p.o.MaxBytes > 0) {
		if err := p.removeOld(now); err != nil {
			p.o.Logger.Warn("retention: old files could not be removed", zap.Error(err))
			p.ended.Failures++
		}
	}
}

// paths are those of the open partitions, in order.
func (p *Partitions) paths() (all []string) {
	for path := range p.open {
		all = append(all, path)
	}
	slices.Sort(all)
	return all
}

// Flush closes the open files of all partitions.
func (p *Partitions) Flush(ctx context.Context) (files []Closed, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	files = []Closed{}
	for _, path := range p.paths() {
		some, one := p.open[path].Flush(ctx)
		for _, f := range some {
			f.Name = filepath.Join(string(f.Table), path, f.Name)
			files = append(files, f)
		}
		err = errors.Join(err, one)
	}
	return files, err
}

// Close flushes, and gives the folder back.
func (p *Partitions) Close(ctx context.Context) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stop {
		return nil
	}
	p.stop = true
	for _, path := range p.paths() {
		err = errors.Join(err, p.end(ctx, path))
	}
	return errors.Join(err, p.root.Unlock())
}

// Counts are what was done so far.
func (p *Partitions) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.ended
	for _, at := range p.open {
		all.add(at.Counts())
	}
	return all
}

// Unclosed is how many parts are not closed yet.
func (p *Partitions) Unclosed() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.open {
		n += at.Unclosed()
	}
	return n
}

// Status says what is open: the files of all partitions.
func (p *Partitions) Status() Status {
	s := Status{Unclosed: []Waiting{}, Counts: p.Counts()}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, path := range p.paths() {
		one := p.open[path].Status()
		for _, w := range one.Unclosed {
			w.Part = filepath.Join(path, w.Part)
			s.Unclosed = append(s.Unclosed, w)
		}
		if one.Open == nil {
			continue
		}
		if s.Open == nil {
			s.Open = &OpenPart{Since: one.Open.Since, RollEnds: one.Open.RollEnds}
		}
		s.Open.JournalBytes += one.Open.JournalBytes
		for _, f := range one.Open.Files {
			f.Name = filepath.Join(staging, path, f.Name)
			s.Open.Files = append(s.Open.Files, f)
		}
	}
	return s
}

// A dated file is one of a closed part.
type dated struct {
	path string
	name Name
	size int64
}

// removeOld removes closed parts that are too old, and the oldest while all take too much; then folders in which nothing is left.
func (p *Partitions) removeOld(now time.Time) error {
	var files []dated
	total := int64(0)
	folders, err := filepath.Glob(filepath.Join(p.root.path, "[ksc]", "date=*", "run=*"))
	if err != nil {
		return err
	}
	unclosed := map[string][]Name{} // by path
	for _, folder := range folders {
		path := p.pathOf(folder)
		if _, ok := unclosed[path]; !ok {
			entries, err := (&Directory{path: filepath.Join(p.root.path, staging, path)}).List()
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			unclosed[path] = journals(entries)
		}
		entries, err := (&Directory{path: folder}).List()
		if err != nil {
			return err
		}
		for _, e := range entries {
			if n, ok := parse(tablePattern, e.Name); ok && !slices.Contains(unclosed[path], n) {
				files = append(files, dated{filepath.Join(folder, e.Name), n, e.Size})
				total += e.Size
			}
		}
	}
	slices.SortStableFunc(files, func(a, b dated) int { return a.name.compare(b.name) })
	var last Name
	for _, f := range files {
		old := p.o.MaxAge > 0 && now.Sub(f.name.Roll.Add(p.o.Roll)) > p.o.MaxAge
		big := p.o.MaxBytes > 0 && total > p.o.MaxBytes
		if !old && !big && f.name != last {
			continue
		}
		last = f.name // the files of a part go together
		if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		total -= f.size
		p.ended.Removed++
	}
	for _, folder := range folders {
		p.removeEmpty(folder, unclosed[p.pathOf(folder)])
	}
	return nil
}

// pathOf is the path of a partition, of the folder of one of its tables.
func (p *Partitions) pathOf(folder string) string {
	return filepath.Join(filepath.Base(filepath.Dir(folder)), filepath.Base(folder))
}

// removeEmpty removes a table's folder in which nothing is left, what the exporter has beside it, and the folders of its date.
func (p *Partitions) removeEmpty(folder string, unclosed []Name) {
	path := p.pathOf(folder)
	if p.open[path] != nil || len(unclosed) > 0 || os.Remove(folder) != nil { // which fails while it has files
		return
	}
	_ = os.Remove(filepath.Dir(folder))
	beside := filepath.Join(p.root.path, staging, path)
	for _, name := range []string{lockName, recentName} {
		_ = os.Remove(filepath.Join(beside, name))
	}
	_ = os.Remove(beside)
	_ = os.Remove(filepath.Dir(beside))
}

var (
	_ Store = (*Archive)(nil)
	_ Store = (*Partitions)(nil)
)
