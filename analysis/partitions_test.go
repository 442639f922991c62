package duckdb_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/analysis/duck"
)

// TestPartitionsAreReadAsFlatFiles puts the files of the recordings where the exporter's layout hive has them: the queries find the
// same, and DuckDB reads date and run from the paths.
func TestPartitionsAreReadAsFlatFiles(t *testing.T) {
	flat, hive := recordings(t), t.TempDir()
	files, err := filepath.Glob(filepath.Join(flat, "*.parquet"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	tables := map[string]bool{}
	for _, file := range files {
		name := filepath.Base(file)
		table := name[len(name)-len("k.parquet") : len(name)-len(".parquet")]
		tables[table] = true
		to := filepath.Join(hive, table, "date=2026-12-01", "run=tp2")
		require.NoError(t, os.MkdirAll(to, 0o755))
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(to, filepath.Base(file)), text, 0o644))
	}
	require.Len(t, tables, 4)
	for _, name := range []string{"steps.sql", "waits.sql", "slowest_calls.sql"} {
		require.Equal(t, open(t, duck.Archive{Dir: flat}).file(name), open(t, duck.Archive{Dir: hive}).file(name), name)
	}
	rows := open(t, duck.Archive{Dir: hive}).query(`select count(*) as n, min(date)::varchar as date, min(run) as run
		from read_parquet('%s/k/**/*.parquet', hive_partitioning = true) where date = '2026-12-01' and run = 'tp2'`, hive)
	require.Equal(t, "2026-12-01", rows[0].text("date"))
	require.Equal(t, "tp2", rows[0].text("run"))
	require.Positive(t, rows[0].int("n"))
}
