package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// inOwnMounts runs a child that may mount what nobody else sees, or skips the test. It returns what it has printed.
func inOwnMounts(t *testing.T, name, directory string) string {
	t.Helper()
	c := child(t, name, directory)
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := c.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || strings.Contains(string(out), errNoMount.Error()) {
		t.Skipf("no private mounts here (they need root): %v %s", err, out)
	}
	require.NoError(t, err, string(out))
	return string(out)
}

var errNoMount = errors.New("mount is not allowed")

// tmpfs mounts one over directory; it goes with the process.
func tmpfs(directory, options string) error {
	if err := errors.Join(
		os.MkdirAll(directory, 0o700),
		syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		syscall.Mount("tmpfs", directory, "tmpfs", 0, options),
	); err != nil {
		return fmt.Errorf("%w: %w", errNoMount, err)
	}
	return nil
}

func TestReadOnlyDisk(t *testing.T) { inOwnMounts(t, "read-only", t.TempDir()) }

// TestFullDisk looks at what fullDisk has moved off its disk.
func TestFullDisk(t *testing.T) {
	directory := t.TempDir()
	var n struct{ Chunks, Refused, Recovered, Failures int64 }
	require.NoError(t, json.Unmarshal([]byte(inOwnMounts(t, "full", directory)), &n))
	require.Greater(t, n.Refused, int64(4))
	require.Positive(t, n.Recovered, "parts that could not be closed")
	requireOnce(t, NewDirectory(filepath.Join(directory, "moved")), n.Chunks)
	t.Logf("%+v", n)
}

// fullDisk fills a disk of 300 KiB with chunks, makes room, and goes on, several times; what was refused is added again.
func fullDisk(directory string) error {
	d, moved := NewDirectory(filepath.Join(directory, "disk")), NewDirectory(filepath.Join(directory, "moved"))
	if err := errors.Join(os.Mkdir(moved.path, 0o700), tmpfs(d.path, "size=300k")); err != nil {
		return err
	}
	o := options(d)
	o.JournalBytes = 10_000
	a, err := Open(o)
	if err != nil {
		return err
	}
	ctx := context.Background()
	refused := 0
	seq := int64(1)
	add := func() error {
		err := a.Add([]Chunk{chunkOf(seq)}, noon.Add(time.Duration(seq)*time.Millisecond))
		if err == nil {
			seq++
		}
		return err
	}
	for round := range 4 {
		for err = add(); err == nil; err = add() {
			if seq%30 == 0 {
				_, _ = a.Flush(ctx)
			}
		}
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "no space left on device") {
			return fmt.Errorf("round %d: chunk %d was refused with %w, want no space left on device", round, seq, err)
		}
		for range 5 { // trying again while there is no space
			if add() != nil {
				refused++
			}
			_, _ = a.Flush(ctx)
		}
		if err := makeRoom(d, moved); err != nil {
			return err
		}
		if _, err := a.Flush(ctx); err != nil {
			return fmt.Errorf("round %d: there is room again: %w", round, err)
		}
		if err := errors.Join(makeRoom(d, moved), add()); err != nil {
			return fmt.Errorf("round %d: there is room again: %w", round, err)
		}
	}
	if err := errors.Join(a.Close(ctx), makeRoom(d, moved)); err != nil {
		return err
	}
	n := a.Counts()
	if n.Lost != (Rows{}) || n.Chunks != seq-1 || a.Unclosed() != 0 {
		return fmt.Errorf("counts %+v, want %d chunks and none lost", n, seq-1)
	}
	_, err = fmt.Printf(`{"Chunks": %d, "Refused": %d, "Recovered": %d, "Failures": %d}`, seq-1, refused, n.Recovered, n.Failures)
	return err
}

// makeRoom moves the closed files of a disk to another.
func makeRoom(from, to *Directory) error {
	entries, err := from.List()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !tablePattern.MatchString(e.Name) {
			continue
		}
		b, err := os.ReadFile(from.at(e.Name))
		if err != nil {
			return err
		}
		if _, err := os.Stat(to.at(e.Name)); err == nil {
			return fmt.Errorf("the name %s comes again", e.Name)
		}
		if err := errors.Join(os.WriteFile(to.at(e.Name), b, 0o600), os.Remove(from.at(e.Name))); err != nil {
			return err
		}
	}
	return nil
}

// readOnlyDisk holds that a disk that takes nothing is refused at once, with what is wrong.
func readOnlyDisk(directory string) error {
	if err := tmpfs(directory, "size=1m"); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", directory, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("%w: %w", errNoMount, err)
	}
	for _, path := range []string{directory, filepath.Join(directory, "archive")} {
		if _, err := Open(options(NewDirectory(path))); !errors.Is(err, syscall.EROFS) {
			return fmt.Errorf("directory %s: %w, want read-only file system", path, err)
		}
	}
	return nil
}
