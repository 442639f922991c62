package archive

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestADamagedJournalGivesWhatIsWhole: a bit flips while no collector runs. All chunks but the one that it hits are in closed files,
// the journal is kept, and it is told and counted.
func TestADamagedJournalGivesWhatIsWhole(t *testing.T) {
	d := NewDirectory(t.TempDir())
	a := openArchive(t, options(d))
	addAll(t, a, noon, 1, 2, 3, 4, 5)
	journal := filepath.Join(d.path, a.open.name.journal())
	a.mu.Lock()
	a.open.abandon() // as a kill does
	a.open = nil
	a.mu.Unlock()
	require.NoError(t, a.Close(t.Context()))
	b, err := os.ReadFile(journal)
	require.NoError(t, err)
	hit := len(b) - len(chunkOf(5).Body) - len(chunkOf(4).Body) - recordHead - 100 // within the fourth
	b[hit] ^= 1
	require.NoError(t, os.WriteFile(journal, b, 0o600))

	core, logs := observer.New(zap.ErrorLevel)
	o := options(d)
	o.Logger = zap.New(core)
	again := openArchive(t, o)
	_, tried := again.closer.hurry()
	require.NoError(t, wait(t.Context(), tried))
	seen := map[int64]bool{}
	for _, c := range contents(t, d) {
		for seq := range c.kernels {
			seen[seq] = true
		}
	}
	require.Len(t, seen, 4)
	require.True(t, seen[5], "what follows the damage")
	require.FileExists(t, journal+".bad")
	require.NoFileExists(t, journal)
	require.Positive(t, again.Counts().Damaged)
	require.Equal(t, 1, logs.FilterMessageSnippet("A journal was damaged").Len())
}

// TestRetentionLeavesOtherHostsAlone: two hosts may share a directory of a network file system, one after the other.
func TestRetentionLeavesOtherHostsAlone(t *testing.T) {
	d := NewDirectory(t.TempDir())
	o := options(d)
	a := openArchive(t, o)
	addAll(t, a, noon, 1)
	require.NoError(t, a.Close(t.Context()))
	require.Len(t, names(t, d), 3)
	o.Host, o.MaxAge, o.MaxBytes = "other", time.Second, 1
	b := openArchive(t, o)
	b.retain(noon.Add(24 * time.Hour))
	require.Len(t, names(t, d), 3)
}

// TestALinkIsNotFollowed: a link in a file's place leads nowhere, and a link in the directory's place has nothing removed there.
func TestALinkIsNotFollowed(t *testing.T) {
	top := t.TempDir()
	precious := filepath.Join(top, "precious")
	require.NoError(t, os.WriteFile(precious, []byte("mine"), 0o600))
	d := NewDirectory(filepath.Join(top, "archive"))
	o := options(d)
	o.MaxBytes = 1
	a := openArchive(t, o)
	require.NoError(t, os.Symlink(precious, filepath.Join(d.path, "a.journal.new")))
	_, err := newJournal(d, "a.journal", nil)
	require.Error(t, err)

	elsewhere := filepath.Join(top, "elsewhere")
	require.NoError(t, os.Mkdir(elsewhere, 0o700))
	kept := filepath.Join(elsewhere, "k-notes.parquet")
	require.NoError(t, os.WriteFile(kept, []byte("mine"), 0o600))
	require.NoError(t, os.Rename(d.path, d.path+".old"))
	require.NoError(t, os.Symlink(elsewhere, d.path))
	addAll(t, a, noon, 1, 2)
	a.retain(noon.Add(24 * time.Hour))
	require.NoError(t, a.Close(t.Context()))
	requireOnce(t, d, 2)
	for _, path := range []string{precious, kept} {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "mine", string(text))
	}
}

// TestAClockThatJumpsMakesNoFileOld, however far it jumps; one that is set back counts.
func TestAClockThatJumpsMakesNoFileOld(t *testing.T) {
	require.Equal(t, noon.Add(time.Minute), steady(noon.Add(24*365*time.Hour), noon, time.Minute))
	require.Equal(t, noon.Add(time.Minute), steady(noon.Add(time.Minute), noon, time.Minute))
	require.Equal(t, noon.Add(-time.Hour), steady(noon.Add(-time.Hour), noon, time.Minute))
}
