package kernparquetencodingextension

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.uber.org/zap"

	"github.com/kernhes/kernhes/extension/kernparquetencodingextension/internal/metadata"
	"github.com/kernhes/kernhes/internal/parquet"
)

const (
	// maxFiles bounds the growing files that are remembered; others are read again when they grow.
	maxFiles = 128

	// maxSegment bounds what a resource attribute may add to a path, in bytes.
	maxSegment = 200

	// defaultPatience is how long a message waits for the one before to stand in the file. The file exporter writes between two
	// calls unless several call it at once, and then within milliseconds.
	defaultPatience = 2 * time.Second
)

// files are those that a file exporter grows.
type files struct {
	table     parquet.Table
	prefix    string // of paths, before the *
	suffix    string
	attribute string
	limit     int // messages a file
	log       *zap.Logger
	telemetry *metadata.Telemetry
	patience  time.Duration // see defaultPatience
	open      func(name string) (repaired, error)

	mutex sync.Mutex
	known map[string]*growing // by path; what stands there once the exporter has written the last message
}

func newFiles(c *Config, log *zap.Logger, telemetry *metadata.Telemetry) *files {
	prefix, suffix, _ := strings.Cut(c.Path, "*")
	return &files{
		table: parquet.Table(c.Table), prefix: prefix, suffix: suffix, attribute: c.ResourceAttribute,
		limit: c.MaxMessages, log: log, telemetry: telemetry, known: map[string]*growing{},
		patience: defaultPatience,
		open:     func(name string) (repaired, error) { return os.OpenFile(name, os.O_WRONLY, 0) },
	}
}

// mend cuts what is torn off the files that are there.
func (f *files) mend(ctx context.Context) error {
	return filepath.WalkDir(filepath.Dir(f.prefix+"x"), func(name string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		slashed := filepath.ToSlash(name)
		if !entry.Type().IsRegular() || !strings.HasPrefix(slashed, path.Clean(f.prefix)) || !strings.HasSuffix(slashed, f.suffix) {
			return nil
		}
		if _, _, err := f.whole(name); err != nil && !errors.Is(err, errForeign) {
			return err
		}
		return nil
	})
}

// place makes a message of pages for the file that a resource's rows go to. It expects that the message is written next.
func (f *files) place(resource pcommon.Resource, pages []byte, groups []parquet.Group) ([]byte, error) {
	name, err := f.path(resource)
	if err != nil {
		return nil, err
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	g, err := f.current(name)
	if err != nil {
		return nil, err
	}
	g, message, err := g.next(pages, groups)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if g.messages == f.limit+2 { // one is the file's own
		f.log.Warn("more messages than max_messages: batch more records, or for longer", field(name), zap.Int("max_messages", f.limit))
	}
	f.remember(name, g)
	return message, nil
}

// path is where the file exporter writes what a resource has.
func (f *files) path(resource pcommon.Resource) (string, error) {
	v, _ := resource.Attributes().Get(f.attribute)
	segment := v.AsString()
	if v.Type() != pcommon.ValueTypeStr || len(segment) > maxSegment || !filepath.IsLocal(segment) || path.Clean(segment) != segment {
		return "", fmt.Errorf("resource attribute %s: %.*q, want a plain name", f.attribute, maxSegment, segment)
	}
	return path.Clean(f.prefix + segment + f.suffix), nil
}

// current is how a file stands, once what was placed in it before was written.
func (f *files) current(name string) (*growing, error) {
	known := f.known[name]
	if known != nil && f.written(name, known.size) {
		return known, nil
	}
	g, torn, err := f.whole(name)
	if known != nil && (errors.Is(err, errForeign) || err == nil && !begun(torn, known.size-g.size-frameBytes)) {
		return nil, fmt.Errorf("%s: what was written is not what was placed: does the file exporter have `format: proto` and `append: true`, and no compression?", name)
	}
	if errors.Is(err, errForeign) {
		err = f.setAside(name)
	}
	if g == nil && (err == nil || errors.Is(err, fs.ErrNotExist)) {
		return f.create(name)
	}
	return g, err
}

// written waits until a file has a size. If it has not, what came before was not written, or torn.
func (f *files) written(name string, size int64) bool {
	for end := time.Now().Add(f.patience); ; time.Sleep(time.Millisecond) {
		info, err := os.Stat(name)
		if err != nil || info.Size() >= size || time.Now().After(end) {
			return err == nil && info.Size() == size
		}
	}
}

// begun says whether what is torn may be the beginning of a framed message of so many bytes.
func begun(torn rest, message int64) bool {
	return bytes.HasPrefix(binary.BigEndian.AppendUint32(nil, uint32(message)), torn.head)
}

// whole reads a file, cuts off what is torn, and says what that was.
func (f *files) whole(name string) (*growing, rest, error) {
	g, torn, err := load(name, f.table)
	if err != nil || torn.size == 0 {
		return g, torn, err
	}
	if err := f.truncate(name, g.size); err != nil {
		return nil, torn, err
	}
	f.telemetry.RepairedFiles.Add(context.Background(), 1)
	f.log.Warn("cut off a torn message", field(name), zap.Int64("bytes", torn.size), zap.Int64("size", g.size))
	return g, torn, nil
}

// A repaired file is one whose torn end is cut off.
type repaired interface {
	Truncate(size int64) error
	Sync() error
	Close() error
}

// truncate gives a file a size that it keeps through a power loss.
func (f *files) truncate(name string, size int64) error {
	file, err := f.open(name)
	if err != nil {
		return err
	}
	return errors.Join(file.Truncate(size), file.Sync(), file.Close())
}

// setAside gives another name to a file that stands where one is to grow.
func (f *files) setAside(name string) error {
	for n := 1; ; n++ {
		aside := fmt.Sprintf("%s.%d%s", strings.TrimSuffix(name, f.suffix), n, f.suffix)
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			f.log.Warn("another file stood here; it has a new name", field(name), zap.String("now", aside))
			return errors.Join(os.MkdirAll(filepath.Dir(aside), 0o750), os.Rename(name, aside))
		}
	}
}

// create makes a file, whole from the first moment that it has its name.
func (f *files) create(name string) (*growing, error) {
	g, b, err := made(f.table)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		return nil, err
	}
	temporary := name + ".new"
	if err := os.WriteFile(temporary, b, 0o640); err != nil {
		return nil, errors.Join(err, os.Remove(temporary))
	}
	return g, os.Rename(temporary, name)
}

// remember keeps how a file stands; of too many, any other is forgotten.
func (f *files) remember(name string, g *growing) {
	for other := range f.known {
		if len(f.known) < maxFiles {
			break
		}
		delete(f.known, other)
	}
	f.known[name] = g
}
