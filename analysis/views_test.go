package duckdb_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/analysis/duck"
)

// oneStep is an archive of one rank with so many steps of three kernels, a copy in each.
func oneStep(t *testing.T, dir, run string, steps int) {
	t.Helper()
	var lanes []lane
	for i := range steps {
		at := uint64(i) * 1000
		lanes = append(lanes, lane{seq: int64(i), times: [][2]uint64{{at, 10}, {at + 20, 10}, {at + 40, 10}}})
	}
	r := rankOfLanes(lanes...)
	r.Run = run
	r.Copies = append(r.Copies, copyAt(5))
	write(t, dir, "x", r)
}

// TestArchivesThatLieInEachOther: each file is there once, in the archive whose folder is the deeper one.
func TestArchivesThatLieInEachOther(t *testing.T) {
	top := filepath.Join(t.TempDir(), "n")
	oneStep(t, top, "new", 4)
	oneStep(t, filepath.Join(top, "old"), "old", 3)
	oneStep(t, top+"er", "beside", 2) // n's name begins its name
	check := func(a, b string, want ...row) {
		t.Helper()
		d := open(t, duck.Archive{Dir: a, DirB: b, Run: "new"})
		require.Equal(t, want, d.query("select archive, run, count(*) as n from all_s group by all order by all"), "%s and %s", a, b)
		require.Equal(t, int64(len(want)), d.query("select count(*) as n from all_c")[0].int("n"))
	}
	of := func(archive, run string, n int64) row { return row{"archive": archive, "run": run, "n": n} }
	check(top, filepath.Join(top, "old"), of("a", "new", 4), of("b", "old", 3))
	check(filepath.Join(top, "old"), top, of("a", "old", 3), of("b", "new", 4))
	check(top, top, of("a", "new", 4), of("a", "old", 3))
	check(top, top+"/", of("a", "new", 4), of("a", "old", 3))
	check(top, top+"er", of("a", "new", 4), of("a", "old", 3), of("b", "beside", 2))
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(top, link))
	check(top, link, of("a", "new", 4), of("a", "old", 3))
	here, err := os.Getwd()
	require.NoError(t, err)
	relative, err := filepath.Rel(here, top)
	require.NoError(t, err)
	check(relative, top, of("a", "new", 4), of("a", "old", 3))
}

// TestATableWithoutAFileIsEmpty, and has its columns; all queries run.
func TestATableWithoutAFileIsEmpty(t *testing.T) {
	whole := t.TempDir()
	oneStep(t, whole, "run", 4)
	full := open(t, duck.Archive{Dir: whole})
	files, err := filepath.Glob(filepath.Join(root, "queries", "*.sql"))
	require.NoError(t, err)
	for _, gone := range []string{"k", "s", "c"} {
		dir := t.TempDir()
		oneStep(t, dir, "run", 4)
		require.NoError(t, os.Remove(filepath.Join(dir, "x."+gone+".parquet")))
		d := open(t, duck.Archive{Dir: dir})
		for view, n := range map[string]int64{"k": 12, "s": 4, "c": 1} {
			if view == gone {
				n = 0
			}
			require.Equal(t, n, d.query("select count(*) as n from %s", view)[0].int("n"), "%s without %s", view, gone)
		}
		columns := "select column_name, column_type from (describe %s) order by all"
		require.Equal(t, full.query(columns, gone), d.query(columns, gone))
		for _, file := range files {
			if filepath.Base(file) != "views.sql" {
				d.run(file)
			}
		}
		require.Equal(t, map[string]int{"k": 0, "s": 1, "c": 2}[gone] > 0, len(d.file("bubbles.sql")) > 0, "bubbles are of k")
	}
}

// TestAnArchiveWithoutAStepShowsItsRun: nothing but kernels outside any.
func TestAnArchiveWithoutAStepShowsItsRun(t *testing.T) {
	dir := t.TempDir()
	r := rankOfLanes(lane{outside: true, times: [][2]uint64{{0, 10}, {20, 10}}})
	r.Run = "no steps"
	write(t, dir, "x", r)
	require.Equal(t, []row{{"run": "no steps", "n": int64(2)}}, open(t, duck.Archive{Dir: dir}).query("select run, count(*) as n from k group by all"))
	copies := rankOfLanes()
	copies.Run, copies.Copies = "copies", append(copies.Copies, copyAt(5))
	only := t.TempDir()
	write(t, only, "x", copies)
	require.Equal(t, []row{{"run": "copies"}}, open(t, duck.Archive{Dir: only}).query("select run from c"))
}

// TestFilesOfAnOlderVersionAreRead: they lack columns that came since.
func TestFilesOfAnOlderVersionAreRead(t *testing.T) {
	dir := t.TempDir()
	oneStep(t, dir, "run", 4)
	d := open(t, duck.Archive{Dir: dir})
	older := t.TempDir()
	for table, without := range map[string]string{
		"k": `session, occurrence, "group", group_source, bytes`, "s": `session, occurrence, "group"`, "c": "session, occurrence",
	} {
		_, err := d.Exec(`copy (select * exclude (archive, filename, ` + without + `) from all_` + table + `) to '` + filepath.Join(older, table+".parquet") +
			`' (format parquet, kv_metadata {'kernhes.table': '` + table + `'})`)
		require.NoError(t, err)
	}
	old := open(t, duck.Archive{Dir: older})
	require.Equal(t, []row{{"n": int64(12), "g": "", "o": int64(0)}}, old.query(`select count(*) as n, max("group") as g, max(occurrence) as o from k`))
	require.Equal(t, d.file("bubbles.sql"), old.file("bubbles.sql"))
	require.Equal(t, d.file("steps.sql"), old.file("steps.sql"))
	require.Equal(t, d.query("select count(*) as n, max(bytes) as b from c"), old.query("select count(*) as n, max(bytes) as b from c"))
}
