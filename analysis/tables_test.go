package duckdb_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/analysis/duck"
)

func TestTablesHaveWhatTheRecordingsHave(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "tp2", tp2(t, "tp2")...)
	write(t, dir, "solo", solo(t, "solo")...)
	for name, where := range map[string]struct {
		run  string
		rank int64
	}{"tp2.rank0": {"tp2", 0}, "tp2.rank1": {"tp2", 1}, "solo.rank0": {"solo", 0}} {
		t.Run(name, func(t *testing.T) {
			want := expected(t, name)
			d := open(t, duck.Archive{Dir: dir, Run: where.run})
			k := d.query("select count(*) as kernels, count(seq) as in_steps, count(*) filter (class = 'comm') as comm, count(*) filter (seq is not null and call <> '') as called, min(start_ns) as first, max(start_ns + dur_ns) as last from k where rank = %d", where.rank)[0]
			require.EqualValues(t, want.Kernels, k.int("kernels"))
			require.EqualValues(t, want.InSteps, k.int("in_steps"))
			require.EqualValues(t, want.CommKernels, k.int("comm"))
			require.EqualValues(t, want.Called, k.int("called"))
			require.Equal(t, want.First, k.int("first"))
			require.Equal(t, want.Last, k.int("last"))

			steps := d.query("select * from s where rank = %d order by start_ns", where.rank)
			require.Len(t, steps, len(want.Steps))
			sums := d.query(`select count(*) as kernels, min(start_ns) as first, max(start_ns + dur_ns) as last
				from k where rank = %d and seq is not null group by seq order by first`, where.rank)
			for i, row := range steps {
				w := want.Steps[i]
				require.Equal(t, w.text, row.text("text"))
				require.EqualValues(t, w.numbers, []int64{row.int("kernels"), row.int("compute_ns"), row.int("comm_ns"), row.int("overlap_ns"), row.int("end_ns") - row.int("start_ns"), row.int("foreign_compute_ns")}, w.text)
				require.Equal(t, row.int("kernels"), sums[i].int("kernels"))
				require.Equal(t, row.int("start_ns"), sums[i].int("first"))
				require.Equal(t, row.int("end_ns"), sums[i].int("last"))
			}
			copies := int64(0)
			for _, n := range want.Copies {
				copies += n
			}
			require.EqualValues(t, copies, d.query("select count(*) as n from c where rank = %d", where.rank)[0].int("n"))
		})
	}
}

// TestEveryRowIsTheRecordings compares row by row, as sets: what is in one and not in the other.
func TestEveryRowIsTheRecordings(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "tp2", tp2(t, "tp2")...)
	d := open(t, duck.Archive{Dir: dir})
	type kernel struct{ start, dur int64 }
	for rank, name := range []string{"tp2.rank0", "tp2.rank1"} {
		left := map[kernel]int{}
		for _, k := range record(t, name).work.Kernels {
			left[kernel{k.Start, k.End - k.Start}]++
		}
		for _, row := range d.query("select start_ns, dur_ns from k where rank = %d", rank) {
			k := kernel{row.int("start_ns"), row.int("dur_ns")}
			if left[k]--; left[k] == 0 {
				delete(left, k)
			}
		}
		require.Empty(t, left)
	}
}

func TestNewestRunIsShownUnlessOneIsNamed(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "tp2", tp2(t, "tp2")...)
	write(t, dir, "solo", solo(t, "it's solo")...)
	newest := map[bool]string{true: "tp2", false: "it's solo"}[expected(t, "tp2.rank0").Last > expected(t, "solo.rank0").Last]
	for run, want := range map[string]string{"": newest, "tp2": "tp2", "it's solo": "it's solo"} {
		d := open(t, duck.Archive{Dir: dir, Run: run})
		for _, view := range []string{"k", "s", "c"} {
			rows := d.query("select distinct run from %s", view)
			require.Equal(t, []row{{"run": want}}, rows, view)
		}
	}
}
