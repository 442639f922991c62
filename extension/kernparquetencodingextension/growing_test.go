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
)

func TestAFileIsValidAfterEachMessage(t *testing.T) {
	dir := t.TempDir()
	portions := recorded(t, "tp2.rank0")
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

func TestALostMessageLeavesNoHole(t *testing.T) {
	dir := t.TempDir()
	portions := recorded(t, "solo.rank0")[:3]
	path := filepath.Join(dir, "w.k.parquet")
	l := newLife(t, dir, nil)
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
