package duckdb_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/analysis/duck"
)

// statements are the article's, as they stand there.
func statements(t testing.TB, name string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return strings.SplitAfter(strings.TrimSpace(string(b)), ";\n")
}

func inDelta(t testing.TB, want, got float64, what ...any) {
	t.Helper()
	require.InDelta(t, want, got, math.Abs(want)*1e-9, what...)
}

// TestArticleQueries runs the article's texts and those of queries/ on four ranks whose waits are known, alone in the archive and
// beside another run.
func TestArticleQueries(t *testing.T) {
	dir := t.TempDir()
	f := newFourRanks("article")
	write(t, dir, "article", f.ranks...)
	t.Run("alone", func(t *testing.T) { articleQueries(t, dir, f) })
	other := newFourRanks("other")
	for i := range other.ranks {
		for j := range other.ranks[i].Steps { // the same seqs, other durations
			s := &other.ranks[i].Steps[j]
			for k := range s.Durs {
				s.Durs[k] += 1000 * uint64(i+k)
			}
		}
	}
	write(t, dir, "other", other.ranks...)
	t.Run("beside another run", func(t *testing.T) { articleQueries(t, dir, f) })
}

func articleQueries(t *testing.T, dir string, f *fourRanks) {
	d := open(t, duck.Archive{Dir: dir, Run: "article"})
	share := statements(t, "article_share.sql")
	require.Len(t, share, 3)
	_, err := d.Exec(share[0])
	require.NoError(t, err)

	total := f.total(f.all)
	whole := d.query("%s", share[1])
	require.Len(t, whole, len(f.all))
	for _, r := range whole {
		require.Positive(t, r.float("pct"))
		inDelta(t, 100*float64(f.all[r.text("what")])/float64(total), r.float("pct"), r)
	}
	total = f.total(f.prefill)
	ours := d.file("share.sql")
	require.Len(t, ours, len(f.prefill))
	for _, r := range ours {
		require.InDelta(t, 100*float64(f.prefill[r.text("what")])/float64(total), r.float("pct"), 0.0005, r)
	}

	for name, rows := range map[string][]row{"the article's": d.query("%s", share[2]), "ours": d.file("context.sql")} {
		require.Len(t, rows, len(f.contexts), name)
		for _, r := range rows {
			want := f.contexts[[2]string{r.text("context"), r.text("what")}]
			require.Positive(t, want.ns, "%s %v", name, r)
			require.Equal(t, want.steps, r.int("steps"), "%s %v", name, r)
			require.InDelta(t, float64(want.ns)/float64(want.steps)/1e6, r.float("ms"), 0.6e-6, "%s %v", name, r)
		}
	}

	article, mine := d.query("%s", statements(t, "article_moe.sql")[0]), d.file("moe_layers.sql")
	require.Len(t, article, layers)
	require.Len(t, mine, layers)
	for layer := range layers {
		a, m := article[layer], mine[layer]
		require.EqualValues(t, layer, a.int("layer"))
		require.EqualValues(t, layer, m.int("layer"))
		require.EqualValues(t, len(f.work[layer]), m.int("steps"))
		for column, q := range map[string]float64{"p10": 0.1, "p50": 0.5, "p90": 0.9} {
			inDelta(t, quantile(f.work[layer], q), a.float(column), layer)
			inDelta(t, quantile(f.work[layer], q)/1e6, m.float(column+"_ms"), layer)
		}
		inDelta(t, quantile(f.waits[layer], 0.5), a.float("wait_p50"), layer)
		inDelta(t, quantile(f.waits[layer], 0.5)/1e6, m.float("wait_p50_ms"), layer)
		require.Positive(t, a.float("wait_p50"))
	}
	// The indexer's cost differs with the context, so ranks come to the layers after it apart.
	require.Greater(t, article[2].float("wait_p50"), 2*article[3].float("wait_p50"))
}

// quantile is that of DuckDB's quantile_cont.
func quantile(all []int64, q float64) float64 {
	s := slices.Sorted(slices.Values(all))
	at := q * float64(len(s)-1)
	low := int(math.Floor(at))
	high := min(low+1, len(s)-1)
	return float64(s[low]) + (at-float64(low))*float64(s[high]-s[low])
}

func TestWaitsOfFourRanks(t *testing.T) {
	dir := t.TempDir()
	f := newFourRanks("article")
	write(t, dir, "article", f.ranks...)
	rows := open(t, duck.Archive{Dir: dir}).file("waits.sql")
	require.Len(t, rows, layers*len(f.ranks))
	for _, r := range rows {
		key := fmt.Sprint(r.text("call"), " ", r.int("rank"))
		want := f.byRank[key]
		require.NotNil(t, want, key)
		require.Equal(t, *want, waited{r.int("times"), r.ns("wait_ms"), r.ns("blame_ms"), r.ns("transfer_ms")}, key)
	}
}
