package duckdb_test

import (
	"database/sql"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/analysis/duck"
)

// A db answers queries, or ends the test.
type db struct {
	t testing.TB
	*sql.DB
}

// A row is values by column.
type row map[string]any

func (d *db) query(text string, args ...any) (rows []row) {
	d.t.Helper()
	table, err := duck.Query(d.DB, fmt.Sprintf(text, args...))
	require.NoError(d.t, err, text)
	return named(table)
}

// file runs a file of queries/.
func (d *db) file(name string) []row {
	d.t.Helper()
	return d.run(filepath.Join(root, "queries", name))
}

func (d *db) run(path string) []row {
	d.t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(d.t, err)
	table, err := duck.Query(d.DB, string(text))
	require.NoError(d.t, err, path)
	return named(table)
}

func named(table *duck.Table) (rows []row) {
	for _, r := range table.Rows {
		n := row{}
		for i, c := range table.Columns {
			n[c] = r[i]
		}
		rows = append(rows, n)
	}
	return rows
}

// int is a whole number of any of DuckDB's types.
func (r row) int(name string) int64 {
	switch v := r[name].(type) {
	case int64:
		return v
	case int32:
		return int64(v)
	case *big.Int:
		return v.Int64()
	}
	panic(fmt.Sprintf("%s is %T", name, r[name]))
}

func (r row) float(name string) float64 {
	if v, ok := r[name].(float64); ok {
		return v
	}
	return float64(r.int(name))
}

func (r row) text(name string) string { return r[name].(string) }

// ns is a column of ms as the whole ns that it came from.
func (r row) ns(name string) int64 { return int64(r.float(name)*1e6 + 0.5) }
