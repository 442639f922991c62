package duckdb_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/analysis/duck"
)

// Each question of docs/agents.md is answered by its query, on the recordings.
func TestTheQuestionsOfAgentsAreAnswered(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "tp2", tp2(t, "tp2")...)
	d := open(t, duck.Archive{Dir: dir})
	text, err := os.ReadFile(filepath.Join(root, "docs", "agents.md"))
	require.NoError(t, err)
	answers := map[string][]row{}
	parts := strings.Split(string(text), "```sql\n")
	for i, part := range parts[1:] {
		before := strings.Split(strings.TrimSpace(parts[i]), "\n")
		question := before[len(before)-1]
		query, _, closed := strings.Cut(part, "```")
		require.True(t, closed)
		answers[question] = d.query("%s", query)
		assert.NotEmpty(t, answers[question], question)
	}
	assert.Len(t, answers, 20)

	// Some answers are known from the recording.
	ranks := answers["Which ranks are there, and how many steps has each?"]
	require.Len(t, ranks, 2)
	assert.EqualValues(t, 189, ranks[1].int("steps"))
	foreign := answers["Does other work disturb a GPU?"]
	assert.EqualValues(t, 1, foreign[0].int("rank"))
	assert.InDelta(t, 21.511157, foreign[0].float("foreign_ms"), 1e-9)
	waits := answers["Who waits for whom?"]
	assert.Greater(t, waits[1].float("wait_ms"), waits[0].float("wait_ms"), "rank 1 communicates for 0.48 s, rank 0 for 0.20 s")
}
