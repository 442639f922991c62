package kernparquetencodingextension

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/parquet"
)

func TestAFileIsValidAfterEachMessage(t *testing.T) {
	dir := t.TempDir()
	portions := recorded(t, "tp2.rank0")
	if testing.Short() {
		portions = portions[:8]
	}
	first, second := filepath.Join(dir, "w1.k.parquet"), filepath.Join(dir, "w2.k.parquet")
	var one, two found
	l := newLife(t, dir, nil)
	for i, p := range portions {
		if i == len(portions)/2 { // a second life goes on with the same files
			l.end(t)
			l = newLife(t, dir, nil)
		}
		l.write(t, "w1", p)
		one.add(p)
		if i%4 == 0 {
			read(t, first, one)
		}
		if i%8 == 0 {
			l.write(t, "w2", p, p)
			two.add(p)
			two.add(p)
			read(t, second, two)
		}
	}
	l.end(t)
	read(t, first, one)
	read(t, second, two)
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 2)
}

// TestManyMessages is the whole of a half hour, and what its footers cost.
func TestManyMessages(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and in one goroutine: the race detector has nothing to see")
	}
	dir := t.TempDir()
	portions := recorded(t, "solo.rank0")
	l := newLife(t, dir, nil)
	var all found
	for i := range 64 {
		l.write(t, "w", portions[i%len(portions)])
		all.add(portions[i%len(portions)])
	}
	l.end(t)
	path := filepath.Join(dir, "w.k.parquet")
	read(t, path, all)
	g, torn, err := load(path, "k")
	require.NoError(t, err)
	require.Zero(t, torn.size)
	require.Equal(t, 65, g.messages)
	require.Len(t, g.groups, 64)
	_, footer, err := g.next(nil, nil)
	require.NoError(t, err)
	t.Logf("%d bytes, of which the last of 64 footers is %d", g.size, len(footer))
}

func TestTornWritesAreCutOff(t *testing.T) {
	portions := recorded(t, "solo.rank0")[:4]
	dir := t.TempDir()
	path := filepath.Join(dir, "w.k.parquet")
	l := newLife(t, dir, nil)
	l.write(t, "w", portions[0])
	l.write(t, "w", portions[1])
	l.end(t)
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	l = newLife(t, dir, nil)
	l.write(t, "w", portions[2])
	l.end(t)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)

	check := func(name string, torn []byte) {
		t.Helper()
		dir := t.TempDir()
		path := filepath.Join(dir, "w.k.parquet")
		require.NoError(t, os.WriteFile(path, torn, 0o600))
		l := newLife(t, dir, nil)
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, bytes.Equal(before, b), name)
		l.write(t, "w", portions[3])
		l.end(t)
		read(t, path, sum(portions[0], portions[1], portions[3]))
	}
	for _, n := range []int{1, 3, 4, 5, 100, 4096, len(whole) - len(before) - 9, len(whole) - len(before) - 1} {
		check(fmt.Sprint("cut after ", n), whole[:len(before)+n])
	}
	zeros := bytes.Clone(whole)
	clear(zeros[len(before)+5:]) // the power's end: length and size are on disk, the bytes are not
	check("zeros", zeros)
}

// A recorder is a repaired file that says what was done with it.
type recorder struct {
	*os.File
	did *[]string
}

func (r recorder) Truncate(size int64) error {
	*r.did = append(*r.did, fmt.Sprint("truncate to ", size))
	return r.File.Truncate(size)
}

func (r recorder) Sync() error {
	*r.did = append(*r.did, "sync")
	return r.File.Sync()
}

func (r recorder) Close() error {
	*r.did = append(*r.did, "close")
	return r.File.Close()
}

// TestARepairedFileSurvivesAPowerLoss: its new size is on the disk before anything is written behind it.
func TestARepairedFileSurvivesAPowerLoss(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "w.k.parquet")
	l := newLife(t, dir, nil)
	l.write(t, "w", recorded(t, "solo.rank0")[0])
	l.end(t)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(bytes.Clone(whole), 0, 0, 1), 0o600))
	var did []string
	l.files.open = func(name string) (repaired, error) {
		file, err := os.OpenFile(name, os.O_WRONLY, 0)
		return recorder{file, &did}, err
	}
	g, torn, err := l.files.whole(path)
	require.NoError(t, err)
	require.Equal(t, rest{3, []byte{0, 0, 1}}, torn)
	require.EqualValues(t, len(whole), g.size)
	require.Equal(t, []string{fmt.Sprint("truncate to ", len(whole)), "sync", "close"}, did)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(whole, after))

	// What the disk says is passed on, and the file is not taken for whole.
	require.NoError(t, os.WriteFile(path, append(bytes.Clone(whole), 0, 0, 1), 0o600))
	l.files.open = func(string) (repaired, error) { return nil, os.ErrPermission }
	_, _, err = l.files.whole(path)
	require.ErrorIs(t, err, os.ErrPermission)
}

// TestForeignGroupsAreBounded: row groups that a footer places outside of the file are not carried on.
func TestForeignGroupsAreBounded(t *testing.T) {
	dir := t.TempDir()
	l := newLife(t, dir, nil)
	l.write(t, "w", recorded(t, "solo.rank0")[0])
	l.end(t)
	path := filepath.Join(dir, "w.k.parquet")
	g, _, err := load(path, "k")
	require.NoError(t, err)
	require.Len(t, g.groups, 1)
	group := g.groups[0]
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	// A file of the same pages, whose footer lays the group elsewhere. Offsets of other lengths change the footer's by under 200 bytes.
	moved := func(by int64) error {
		footer, err := parquet.Footer("k", g.groups, nil, by)
		require.NoError(t, err)
		pages := b[len(parquet.Magic)+frameBytes : group.Offset+group.Length]
		message := append(bytes.Clone(pages), footer...)
		file := binary.BigEndian.AppendUint32([]byte(parquet.Magic), uint32(len(message)))
		file = append(file, message...)
		other := filepath.Join(t.TempDir(), "w.k.parquet")
		require.NoError(t, os.WriteFile(other, file, 0o600))
		end := int64(len(file))
		if by == 0 {
			require.Equal(t, group.Offset+group.Length+int64(len(footer)), end)
		}
		_, _, err = load(other, "k")
		return err
	}
	room := func() int64 { // between the group's end and the file's: the footer
		footer, err := parquet.Footer("k", g.groups, nil, 1<<20)
		require.NoError(t, err)
		return int64(len(footer))
	}()
	require.NoError(t, moved(0))
	require.NoError(t, moved(-group.Offset))
	require.ErrorIs(t, moved(-group.Offset-1), errForeign, "before the file")
	require.NoError(t, moved(room-200))
	require.ErrorIs(t, moved(room+200), errForeign, "behind the file")
	require.ErrorIs(t, moved(1<<62), errForeign, "where offset and length overflow")
}

// TestRememberedFilesAreBounded: how 128 files stand is remembered, the last one among them; others are read again.
func TestRememberedFilesAreBounded(t *testing.T) {
	l := newLife(t, t.TempDir(), nil)
	defer l.end(t)
	for i := range 200 {
		l.files.remember(fmt.Sprint(i), &growing{messages: i})
		require.Contains(t, l.files.known, fmt.Sprint(i))
	}
	require.Len(t, l.files.known, 128)
	p := recorded(t, "solo.rank0")[0]
	l.write(t, "w", p)
	clear(l.files.known)
	l.write(t, "w", p)
	read(t, l.files.prefix+"w.k.parquet", sum(p, p))
}

// TestMendingStops: a collector that is told to end while it starts does not read on.
func TestMendingStops(t *testing.T) {
	l := newLife(t, t.TempDir(), nil)
	defer l.end(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, l.Start(ctx, nil), context.Canceled)
}

// TestFilesInTheWayGetNamesOfTheirOwn: a second one does not take the first one's.
func TestFilesInTheWayGetNamesOfTheirOwn(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "w.k.parquet")
	l := newLife(t, dir, nil)
	defer l.end(t)
	for _, text := range []string{"one", "two"} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		require.NoError(t, l.files.setAside(path))
	}
	for name, want := range map[string]string{"w.1.k.parquet": "one", "w.2.k.parquet": "two"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, want, string(b))
	}
	require.NoFileExists(t, path)
}

// TestAFileOfTooManyGroupsSaysSo: a file can number 32,767.
func TestAFileOfTooManyGroupsSaysSo(t *testing.T) {
	g, _, err := made("k")
	require.NoError(t, err)
	g.groups = make([]parquet.Group, 1<<15)
	_, _, err = g.next(nil, nil)
	require.EqualError(t, err, "file of 32768 row groups, want at most 32767")
}

func TestALostMessageLeavesNoHole(t *testing.T) {
	dir := t.TempDir()
	portions := recorded(t, "solo.rank0")[:3]
	path := filepath.Join(dir, "w.k.parquet")
	l := newLife(t, dir, nil)
	l.files.patience = 0
	l.write(t, "w", portions[0])
	_, err := l.MarshalLogs(logs("w", portions[1])) // the exporter's write failed
	require.NoError(t, err)
	l.write(t, "w", portions[2])
	read(t, path, sum(portions[0], portions[2]))

	message, err := l.MarshalLogs(logs("w", portions[1])) // or ended early
	require.NoError(t, err)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = f.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message[:10]...))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	l.write(t, "w", portions[1])
	l.end(t)
	read(t, path, sum(portions...))
}

func TestManyWritersWaitForEachOther(t *testing.T) {
	dir := t.TempDir()
	portions := recorded(t, "solo.rank0")
	l := newLife(t, dir, nil)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for n := range 4 {
				if err := l.exporter.ConsumeLogs(context.Background(), logs("w", portions[i+n])); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	l.end(t)
	var all found
	for i := range 8 {
		for _, p := range portions[i : i+4] {
			all.add(p)
		}
	}
	read(t, filepath.Join(dir, "w.k.parquet"), all)
}

func TestFilesOfOthersAreKept(t *testing.T) {
	dir := t.TempDir()
	portions := recorded(t, "solo.rank0")[:2]
	other := []byte("PAR1 something else PAR1")
	path := filepath.Join(dir, "w.k.parquet")
	require.NoError(t, os.WriteFile(path, other, 0o600))
	l := newLife(t, dir, nil)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, other, b) // nothing is done to it before it is in the way
	l.write(t, "w", portions[0])
	l.end(t)
	read(t, path, sum(portions[0]))
	b, err = os.ReadFile(filepath.Join(dir, "w.1.k.parquet"))
	require.NoError(t, err)
	require.Equal(t, other, b)
}

func TestWrongExporterSettingsAreNamed(t *testing.T) {
	portions := recorded(t, "solo.rank0")[:2]
	for name, changes := range map[string]map[string]any{
		"truncates": {"append": false},
		"lines":     {"format": "json"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, t.TempDir(), changes)
			l.files.patience = 0
			l.write(t, "w", portions[0])
			err := l.exporter.ConsumeLogs(context.Background(), logs("w", portions[1]))
			require.ErrorContains(t, err, "does the file exporter have `format: proto` and `append: true`, and no compression?")
			l.end(t)
		})
	}
}

func TestPathsStayBelowTheFolder(t *testing.T) {
	dir := t.TempDir()
	p := recorded(t, "solo.rank0")[0]
	l := newLife(t, dir, nil)
	defer l.end(t)
	for _, window := range []string{"", "..", "../x", "a/../b", "/etc/x", "./x", string(make([]byte, 1000))} {
		err := l.exporter.ConsumeLogs(context.Background(), logs(window, p))
		require.ErrorContains(t, err, "want a plain name", "%q", window)
	}
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, files)
	l.write(t, "2026/11", p)
	read(t, filepath.Join(dir, "2026", "11.k.parquet"), sum(p))
}
