package archive

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/cespare/xxhash/v2"
)

// recent knows the chunks that were taken last, so that one is not taken twice: a persistent queue hands over again, at
// the next start, what it had not yet forgotten when the process died.
//
// They are in the journals; what a journal no longer has is in a file. Chunks carry times and sequence numbers, so
// equal ones are the same one.
type recent struct {
	mu   sync.Mutex
	sums map[uint64]struct{}
	ring []uint64
	at   int
}

// recentChunks is many times what a queue has under way: some 16 batches of the smallest chunks.
const recentChunks = 1 << 12

const recentName = ".kernparquet.recent"

func newRecent() *recent { return &recent{sums: map[uint64]struct{}{}} }

func sumOf(body []byte) uint64 { return xxhash.Sum64(body) }

func (r *recent) has(sum uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.sums[sum]
	return ok
}

func (r *recent) add(sum uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.sums[sum]; ok {
		return
	}
	if len(r.ring) < recentChunks {
		r.ring = append(r.ring, sum)
	} else {
		delete(r.sums, r.ring[r.at])
		r.ring[r.at] = sum
		r.at = (r.at + 1) % recentChunks
	}
	r.sums[sum] = struct{}{}
}

// bytes are the sums, the oldest first, and a sum of them.
func (r *recent) bytes() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := make([]byte, 0, 8*len(r.ring)+8)
	for i := range r.ring {
		b = le.AppendUint64(b, r.ring[(r.at+i)%len(r.ring)])
	}
	return le.AppendUint64(b, sumOf(b))
}

// save writes the file anew, and syncs it and the folder.
func (r *recent) save(disk Disk) error {
	f, err := disk.Create(recentName + ".new")
	if err != nil {
		return err
	}
	_, err = f.WriteAt(r.bytes(), 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", recentName, err), disk.Remove(recentName+".new"))
	}
	if err := disk.Rename(recentName+".new", recentName); err != nil {
		return err
	}
	return disk.Sync()
}

// load reads the file; one that is damaged counts as none.
func (r *recent) load(disk Disk) error {
	f, err := disk.Open(recentName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	size, err := f.Size()
	b := make([]byte, min(size, 8*recentChunks+8))
	if err == nil {
		_, err = f.ReadAt(b, 0)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("%s: %w", recentName, err)
	}
	n := len(b) - 8
	if n < 0 || n%8 != 0 || le.Uint64(b[n:]) != sumOf(b[:n]) {
		return nil
	}
	for ; n > 0; b, n = b[8:], n-8 {
		r.add(le.Uint64(b))
	}
	return nil
}
