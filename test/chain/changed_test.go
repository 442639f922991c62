//go:build chain

package chain_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/krec"
)

// write writes a recording into a folder of the test.
func write(t testing.TB, r *krec.Recording) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "changed.krec.zst")
	require.NoError(t, krec.Write(path, r))
	return path
}

// Small recordings of what the real ones do not show.
func TestStoriesGiveTheOraclesFigures(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	for _, story := range krec.Stories() {
		for _, deliver := range []string{"flush", "recorded"} {
			t.Run(story.Name+"/"+deliver, func(t *testing.T) {
				ranks, _ := c.play(t, "--deliver", deliver, write(t, story.Recording))
				sameAsOracle(t, story.Recording, ranks)
			})
		}
	}
}

// Recordings changed at random, by seeds.
func TestChangedRecordingsGiveTheOraclesFigures(t *testing.T) {
	for seed := range uint64(12) {
		name := names[seed%3]
		changed, how := krec.Mutate(load(t, name), 1000+seed)
		t.Run(fmt.Sprintf("%d/%s/%s", 1000+seed, name, strings.Join(how, "+")), func(t *testing.T) {
			t.Parallel()
			c := newCollector(t)
			args := [][]string{{}, {"--deliver", "recorded"}, {fmt.Sprintf("KERNHES_MOCK_FAULT=reorder=%d", seed)}}[seed/3%3]
			ranks, _ := c.play(t, append(args, write(t, changed))...)
			sameAsOracle(t, changed, ranks)
		})
	}
}
