package archive

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// forgetful is a Disk that keeps through a power loss only what was synced, and of the rest what chance leaves. After
// budget operations the power is gone.
type forgetful struct {
	mu      sync.Mutex
	names   map[string]*inode
	lasting map[string]*inode // names as of the last Sync
	changes []change          // since
	ops     int
	budget  int // 0: the power never goes
	locked  bool
}

type inode struct{ data, synced []byte }

// A change makes to the name of file, and from no name.
type change struct {
	from, to string
	file     *inode
}

func (c change) apply(names map[string]*inode) {
	delete(names, c.from)
	if c.to != "" {
		names[c.to] = c.file
	}
}

var errPower = errors.New("no power")

func newForgetful() *forgetful {
	return &forgetful{names: map[string]*inode{}, lasting: map[string]*inode{}}
}

// power counts an operation. Who calls it has mu.
func (d *forgetful) power() error {
	d.ops++
	if d.budget > 0 && d.ops >= d.budget {
		return errPower
	}
	return nil
}

// killed is the disk after its process was killed: all is there.
func (d *forgetful) killed() *forgetful {
	d.mu.Lock()
	defer d.mu.Unlock()
	after := newForgetful()
	for name, f := range d.names {
		file := &inode{slices.Clone(f.data), slices.Clone(f.data)}
		after.names[name], after.lasting[name] = file, file
	}
	return after
}

// lost is the disk after the power was gone: of changes since the last sync each may have lasted or not, of a file some of
// what was written since its own, with anything behind.
func (d *forgetful) lost(chance *rand.Rand) *forgetful {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := maps.Clone(d.lasting)
	for _, c := range d.changes {
		if chance.IntN(2) == 0 {
			c.apply(names)
		}
	}
	after := newForgetful()
	for _, name := range slices.Sorted(maps.Keys(names)) {
		b := names[name].left(chance)
		file := &inode{b, slices.Clone(b)}
		after.names[name], after.lasting[name] = file, file
	}
	return after
}

func (f *inode) left(chance *rand.Rand) []byte {
	if chance.IntN(3) == 0 {
		return slices.Clone(f.synced)
	}
	same := 0
	for same < min(len(f.data), len(f.synced)) && f.data[same] == f.synced[same] {
		same++
	}
	b := slices.Clone(f.data[:same+chance.IntN(len(f.data)-same+1)])
	for n := chance.IntN(len(f.data) - len(b) + 1); n > 0; n-- {
		b = append(b, byte(chance.IntN(256)))
	}
	return b
}

func (d *forgetful) Lock() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.locked {
		return ErrLocked
	}
	d.locked = true
	return nil
}

func (d *forgetful) Unlock() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.locked = false
	return nil
}

func (d *forgetful) Locked() bool { return true }

func (d *forgetful) Create(name string) (File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.power(); err != nil {
		return nil, err
	}
	if f := d.names[name]; f != nil {
		f.data = nil
		return &handle{d, f}, nil
	}
	c := change{to: name, file: &inode{}}
	c.apply(d.names)
	d.changes = append(d.changes, c)
	return &handle{d, c.file}, nil
}

func (d *forgetful) Open(name string) (File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.names[name]; f != nil {
		return &handle{d, f}, nil
	}
	return nil, fs.ErrNotExist
}

func (d *forgetful) Holds(name string, f File) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.names[name] == f.(*handle).inode
}

func (d *forgetful) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[from] == nil {
		return fs.ErrNotExist
	}
	return d.change(change{from, to, d.names[from]})
}

func (d *forgetful) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[name] == nil {
		return fs.ErrNotExist
	}
	return d.change(change{from: name})
}

func (d *forgetful) change(c change) error {
	if err := d.power(); err != nil {
		return err
	}
	c.apply(d.names)
	d.changes = append(d.changes, c)
	return nil
}

func (d *forgetful) List() (entries []Entry, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, f := range d.names {
		entries = append(entries, Entry{name, int64(len(f.data))})
	}
	return entries, nil
}

func (d *forgetful) Sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.power(); err != nil {
		return err
	}
	d.lasting, d.changes = maps.Clone(d.names), nil
	return nil
}

type handle struct {
	disk *forgetful
	*inode
}

func (h *handle) ReadAt(b []byte, at int64) (int, error) {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	if at >= int64(len(h.data)) {
		return 0, io.EOF
	}
	n := copy(b, h.data[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt leaves the first half when the power goes.
func (h *handle) WriteAt(b []byte, at int64) (int, error) {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	err := h.disk.power()
	if err != nil && h.disk.ops == h.disk.budget {
		b = b[:len(b)/2]
	} else if err != nil {
		return 0, err
	}
	data := slices.Clone(h.data)
	if grow := at + int64(len(b)) - int64(len(data)); grow > 0 {
		data = append(data, make([]byte, grow)...)
	}
	copy(data[at:], b)
	h.data = data
	return len(b), err
}

func (h *handle) Size() (int64, error) {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	return int64(len(h.data)), nil
}

func (h *handle) Truncate(size int64) error {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	if err := h.disk.power(); err != nil {
		return err
	}
	h.data = append(slices.Clone(h.data), make([]byte, max(size-int64(len(h.data)), 0))...)[:size]
	return nil
}

func (h *handle) Sync() error {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	if err := h.disk.power(); err != nil {
		return err
	}
	h.synced = slices.Clone(h.data)
	return nil
}

func (h *handle) Close() error { return nil }

// storyChunks is how many chunks the story takes.
const storyChunks = 14

// story takes chunks through checkpoints, a flush, the end of a roll and the archive's; taken are those that it was told were.
func story(t *testing.T, d *forgetful) (taken []int64) {
	o := options(d)
	o.JournalBytes = 1500 // three chunks
	a, err := Open(o)
	if err != nil {
		return nil
	}
	now := noon
	for seq := int64(1); seq <= storyChunks; seq++ {
		switch seq {
		case 4, 6, 9:
			_, _ = a.Flush(t.Context())
		case 11:
			now = now.Add(time.Hour)
			a.Tick(now)
		}
		if err := a.Add([]Chunk{chunkOf(seq)}, now); err == nil {
			taken = append(taken, seq)
		}
	}
	_ = a.Close(t.Context())
	return taken
}

// TestNothingIsLostWhereverThePowerGoes ends the story at each of its operations on the disk, by a power loss and by a kill;
// then another archive is given what a persistent queue would give again. Every chunk is then there, once.
func TestNothingIsLostWhereverThePowerGoes(t *testing.T) {
	whole := newForgetful()
	require.Len(t, story(t, whole), storyChunks)
	requireOnce(t, whole, storyChunks)
	require.Greater(t, whole.ops, 100)

	step := 1
	if testing.Short() {
		step = 7
	}
	budget := 1
	defer func() {
		if t.Failed() {
			t.Logf("the power went at operation %d of %d", budget, whole.ops)
		}
	}()
	for ; budget <= whole.ops; budget += step {
		d := newForgetful()
		d.budget = budget
		taken := story(t, d)
		after := d.killed()
		if budget%4 != 0 {
			after = d.lost(rand.New(rand.NewPCG(1, uint64(budget))))
		}
		a, err := Open(options(after))
		require.NoError(t, err)
		for seq := int64(1); seq <= storyChunks; seq++ {
			// The queue may not have forgotten the last one that was taken.
			if !slices.Contains(taken, seq) || seq == taken[len(taken)-1] {
				require.NoError(t, a.Add([]Chunk{chunkOf(seq)}, noon.Add(2*time.Hour)))
			}
		}
		require.NoError(t, a.Close(t.Context()))
		requireOnce(t, after, storyChunks)
		require.Equal(t, Rows{}, a.Counts().Lost)
		entries, err := after.List()
		require.NoError(t, err)
		require.Empty(t, journals(entries))
	}
}
