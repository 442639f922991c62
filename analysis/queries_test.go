package duckdb_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/analysis/duck"
	"github.com/kernhes/kernhes/internal/oracle"
)

// programOf is the program of a step's text.
func programOf(text string) string {
	program, _, _ := strings.Cut(strings.TrimPrefix(text, "step:"), " ")
	return program
}

func className(comm bool) string {
	if comm {
		return "comm"
	}
	return "compute"
}

func recordings(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "tp2", tp2(t, "tp2")...)
	return dir
}

func TestSlowestCalls(t *testing.T) {
	type total struct{ kernels, ns int64 }
	want := map[string]*total{}
	programs := map[string]int64{}
	for _, name := range []string{"tp2.rank0", "tp2.rank1"} {
		for _, k := range record(t, name).work.Kernels {
			if k.Step < 0 {
				continue
			}
			key := fmt.Sprint(programOf(k.StepText), " ", k.Call, " ", className(k.Comm))
			if want[key] == nil {
				want[key] = &total{}
			}
			want[key].kernels++
			want[key].ns += k.End - k.Start
			programs[programOf(k.StepText)] += k.End - k.Start
		}
	}
	rows := open(t, duck.Archive{Dir: recordings(t)}).file("slowest_calls.sql")
	require.Len(t, rows, 50)
	last := int64(math.MaxInt64)
	for _, r := range rows {
		key := fmt.Sprint(r.text("program"), " ", r.text("call"), " ", r.text("class"))
		w := want[key]
		require.NotNil(t, w, key)
		require.Equal(t, *w, total{r.int("kernels"), r.ns("total_ms")}, key)
		require.InDelta(t, 100*float64(w.ns)/float64(programs[r.text("program")]), r.float("pct"), 0.006)
		require.LessOrEqual(t, w.ns, last)
		last = w.ns
		delete(want, key)
	}
	for key, w := range want {
		require.LessOrEqual(t, w.ns, last, key)
	}
}

func TestSteps(t *testing.T) {
	walls := map[string][]int64{}
	for _, name := range []string{"tp2.rank0", "tp2.rank1"} {
		for _, row := range record(t, name).work.Devices[0].Steps {
			walls[programOf(row.Text)] = append(walls[programOf(row.Text)], row.Wall)
		}
	}
	d := open(t, duck.Archive{Dir: recordings(t)})
	steps := map[string]int64{}
	for _, r := range d.file("steps.sql") {
		steps[r.text("program")] += r.int("steps")
		require.LessOrEqual(t, r.float("p50_ms"), r.float("p90_ms"))
		require.LessOrEqual(t, r.float("p99_ms"), r.float("max_ms"))
		require.Contains(t, walls[r.text("program")], r.ns("p50_ms"))
		require.Contains(t, walls[r.text("program")], r.ns("max_ms"))
	}
	for program, w := range walls {
		require.EqualValues(t, len(w), steps[program], program)
	}
	for text, want := range map[string]string{
		"batch_bucket(0, 0)": "unknown", "batch_bucket(0, 8)": "8", "batch_bucket(9, 0)": "16", "batch_bucket(32769, 1)": "+Inf",
		"kv_bucket(0, 1)": "unknown", "kv_bucket(2049, 2)": "4096", "kv_bucket(2048, 2)": "1024", "kv_bucket(5000000, 0)": "+Inf",
	} {
		require.Equal(t, []row{{"b": want}}, d.query("select %s as b", text), text)
	}
}

// TestWaitsOfTheRecordings works waits out again, by the oracle's kernels.
func TestWaitsOfTheRecordings(t *testing.T) {
	type key struct {
		text, call string
		nth        int
	}
	var durs [2]map[key]int64
	for rank, name := range []string{"tp2.rank0", "tp2.rank1"} {
		durs[rank] = map[key]int64{}
		seen := map[key]int{}
		kernels := slices.Clone(record(t, name).work.Kernels)
		slices.SortStableFunc(kernels, func(a, b oracle.Kernel) int { return cmp.Compare(a.Start, b.Start) })
		for _, k := range kernels {
			if k.Step >= 0 && k.Comm {
				one := key{k.StepText, k.Call, 0}
				nth := seen[one]
				seen[one]++
				durs[rank][key{k.StepText, k.Call, nth}] = k.End - k.Start
			}
		}
	}
	require.Equal(t, len(durs[0]), len(durs[1]))
	want := map[string]*waited{}
	for k, mine := range durs[0] {
		other, ok := durs[1][k]
		require.True(t, ok, k)
		for rank, d := range [2][2]int64{{mine, other}, {other, mine}} {
			name := fmt.Sprint(programOf(k.text), " ", k.call, " ", rank)
			if want[name] == nil {
				want[name] = &waited{}
			}
			want[name].times++
			want[name].wait += max(d[0]-d[1], 0)
			want[name].blame += max(d[1]-d[0], 0)
			want[name].transfer += min(d[0], d[1])
		}
	}
	rows := open(t, duck.Archive{Dir: recordings(t)}).file("waits.sql")
	require.Len(t, rows, len(want))
	var wait [2]int64
	for _, r := range rows {
		name := fmt.Sprint(r.text("program"), " ", r.text("call"), " ", r.int("rank"))
		require.NotNil(t, want[name], name)
		require.Equal(t, *want[name], waited{r.int("times"), r.ns("wait_ms"), r.ns("blame_ms"), r.ns("transfer_ms")}, name)
		if r.text("program") == "decode" {
			wait[r.int("rank")] += r.ns("wait_ms")
		}
	}
	require.Greater(t, wait[0], 2*wait[1]) // rank 1 was disturbed in decode steps, so rank 0 waits
}

// TestEachQueryRunsAndIsDescribed runs all files on an archive of one rank too, and holds each to name its columns.
func TestEachQueryRunsAndIsDescribed(t *testing.T) {
	one := t.TempDir()
	write(t, one, "solo", solo(t, "solo")...)
	two := t.TempDir()
	write(t, two, "four", newFourRanks("four").ranks...)
	files, err := filepath.Glob(filepath.Join(root, "queries", "*.sql"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 9)
	for _, dir := range []string{one, two} {
		d := open(t, duck.Archive{Dir: dir, DirB: map[bool]string{true: one, false: two}[dir == two]})
		for _, file := range files {
			if filepath.Base(file) == "views.sql" {
				continue
			}
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(string(text), "-- "), file)
			table, err := duck.Query(d.DB, string(text))
			require.NoError(t, err, file)
			comment := regexp.MustCompile(`(?m)^[^-].*`).ReplaceAllString(string(text), "")
			for _, c := range table.Columns {
				require.Regexp(t, `\b`+c+`\b`, comment, file)
			}
			require.NotEmpty(t, table.String())
		}
	}
}

// TestQueriesNeedNoCheckout: they are in the program, by name; a file on the disk comes first.
func TestQueriesNeedNoCheckout(t *testing.T) {
	waits, err := os.ReadFile(filepath.Join(root, "queries", "waits.sql"))
	require.NoError(t, err)
	dir := t.TempDir()
	write(t, dir, "x", newFourRanks("x").ranks...)
	t.Chdir(t.TempDir())
	for _, name := range []string{"waits", "waits.sql", "queries/waits.sql"} {
		text, err := duck.SQL(name)
		require.NoError(t, err)
		require.Equal(t, string(waits), text)
	}
	d, err := duck.Open(duck.Archive{Dir: dir}, "views.sql")
	require.NoError(t, err)
	require.NoError(t, d.Close())
	require.NoError(t, os.WriteFile("waits.sql", []byte("select 1"), 0o600))
	text, err := duck.SQL("waits.sql")
	require.NoError(t, err)
	require.Equal(t, "select 1", text)
	_, err = duck.SQL("nothing.sql")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestAnArchiveNeedsNoCopies(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "four", newFourRanks("four").ranks...)
	columns := open(t, duck.Archive{Dir: dir}).query("select column_name from (describe c) order by all")
	require.NoError(t, os.Remove(filepath.Join(dir, "four.c.parquet")))
	without := open(t, duck.Archive{Dir: dir})
	require.Equal(t, columns, without.query("select column_name from (describe c) order by all"))
	require.NotEmpty(t, without.file("bubbles.sql"))
}

// TestHostileTextsAreOnlyTexts has SQL, newlines and no UTF-8 in what an engine says.
func TestHostileTextsAreOnlyTexts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's an archive")
	ranks := solo(t, "'; drop view k; --\n\x1b[31m")
	write(t, dir, "x", ranks...)
	d := open(t, duck.Archive{Dir: dir, Run: ranks[0].Run})
	require.EqualValues(t, expected(t, "solo.rank0").Kernels, d.query("select count(*) as n from k")[0].int("n"))
	table, err := duck.Query(d.DB, "select distinct run from k")
	require.NoError(t, err)
	require.Equal(t, "run\n'; drop view k; --··[31m\n", table.String())
}

// TestWaitsAgreeWithTheConnector holds waits.sql to what the connector kernwaits finds in the same steps, to the nanosecond.
func TestWaitsAgreeWithTheConnector(t *testing.T) {
	type sum struct {
		Program  string `json:"program"`
		Rank     int64  `json:"rank"`
		Times    int64  `json:"times"`
		Wait     int64  `json:"wait_ns"`
		Blame    int64  `json:"blame_ns"`
		Transfer int64  `json:"transfer_ns"`
	}
	text, err := os.ReadFile(filepath.Join(root, "connector", "kernwaitsconnector", "testdata", "tp2_waits.json"))
	require.NoError(t, err)
	var want, got []sum
	require.NoError(t, json.Unmarshal(text, &want))
	for _, r := range open(t, duck.Archive{Dir: recordings(t)}).file("waits.sql") {
		i := slices.IndexFunc(got, func(s sum) bool { return s.Program == r.text("program") && s.Rank == r.int("rank") })
		if i < 0 {
			i = len(got)
			got = append(got, sum{Program: r.text("program"), Rank: r.int("rank")})
		}
		s := &got[i]
		s.Times, s.Wait, s.Blame, s.Transfer = s.Times+r.int("times"), s.Wait+r.ns("wait_ms"), s.Blame+r.ns("blame_ms"), s.Transfer+r.ns("transfer_ms")
	}
	require.ElementsMatch(t, want, got)
}
