// Package duck opens DuckDB on an archive of Parquet files with the views that queries/ stand on.
package duck

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	_ "github.com/duckdb/duckdb-go/v2" // the driver

	"github.com/kernhes/kernhes/queries"
)

// An Archive says what queries look at, as variables of views.sql. Empty texts are null there.
type Archive struct {
	Dir  string // archive
	DirB string // archive_b
	Run  string // run
	A, B string // a, b

	Request string // request
}

// SQL is a file of SQL: one on the disk, or else one of queries/ by its name, with or without folder and .sql.
func SQL(name string) (string, error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		if own, missing := queries.Files.ReadFile(strings.TrimSuffix(filepath.Base(name), ".sql") + ".sql"); missing == nil {
			return string(own), nil
		}
	}
	return string(text), err
}

// Names are the queries of queries/.
func Names() (names []string) {
	files, _ := queries.Files.ReadDir(".") // it is in the program
	for _, f := range files {
		if name := strings.TrimSuffix(f.Name(), ".sql"); name != "views" {
			names = append(names, name)
		}
	}
	return names
}

// BuiltIn is a query of queries/ by its name. Files on the disk are not read.
func BuiltIn(name string) (string, error) {
	if !slices.Contains(Names(), name) {
		return "", fmt.Errorf("no query %q: want one of %s", name, strings.Join(Names(), ", "))
	}
	text, err := queries.Files.ReadFile(name + ".sql")
	return string(text), err
}

// Open opens a database in memory in which views, a file such as views.sql, has run.
func Open(a Archive, views string) (*sql.DB, error) {
	text, err := SQL(views)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // variables are a connection's
	for _, v := range []struct{ name, value string }{
		{"archive", clean(a.Dir)}, {"archive_b", clean(a.DirB)}, {"run", a.Run}, {"a", a.A}, {"b", a.B}, {"request", a.Request},
	} {
		if _, err := db.Exec("set variable " + v.name + " = " + quote(v.value)); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	if _, err := db.Exec(text); err != nil {
		return nil, errors.Join(fmt.Errorf("%s on %s: %w", views, a.Dir, err), db.Close())
	}
	return db, nil
}

// clean is a folder's one name, so that it is known when it is given twice.
func clean(dir string) string {
	if dir == "" || strings.Contains(dir, "://") {
		return dir
	}
	if whole, err := filepath.Abs(dir); err == nil {
		dir = whole
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return filepath.Clean(dir)
}

// quote writes a text as SQL; an empty one is null.
func quote(s string) string {
	if s == "" {
		return "null::varchar"
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

// A Table is a query's answer.
type Table struct {
	Columns []string
	Rows    [][]any
}

// Query runs one or more statements and returns the last one's answer.
func Query(db *sql.DB, text string) (*Table, error) {
	return QueryContext(context.Background(), db, text, math.MaxInt)
}

// QueryContext is Query until the context ends, and for at most so many rows.
func QueryContext(ctx context.Context, db *sql.DB, text string, most int) (*Table, error) {
	rows, err := db.QueryContext(ctx, text)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	t := &Table{}
	if t.Columns, err = rows.Columns(); err != nil {
		return nil, err
	}
	for len(t.Rows) < most && rows.Next() {
		row := make([]any, len(t.Columns))
		to := make([]any, len(row))
		for i := range row {
			to[i] = &row[i]
		}
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		t.Rows = append(t.Rows, row)
	}
	return t, rows.Err()
}

// widest is how many characters of a text a table shows.
const widest = 60

// String is the table for people: columns side by side, numbers to at most three places.
func (t *Table) String() string {
	lines := [][]string{t.Columns}
	for _, row := range t.Rows {
		var line []string
		for _, v := range row {
			line = append(line, show(v))
		}
		lines = append(lines, line)
	}
	width := make([]int, len(t.Columns))
	for _, line := range lines {
		for i, s := range line {
			width[i] = max(width[i], utf8.RuneCountInString(s))
		}
	}
	var b strings.Builder
	for _, line := range lines {
		for i, s := range line {
			fill := strings.Repeat(" ", width[i]-utf8.RuneCountInString(s))
			if len(t.Rows) > 0 && number(t.Rows[0][i]) {
				s, fill = fill+s, ""
			}
			if i == len(line)-1 {
				fill = ""
			}
			b.WriteString(s + fill)
			if i < len(line)-1 {
				b.WriteString("  ")
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func number(v any) bool {
	switch v.(type) {
	case string, bool, nil:
		return false
	}
	return true
}

// places is a number to three places. Zeros at the end of a fraction are left out, so that round(x, 1) has one place.
func places(v float64) string {
	text := strconv.FormatFloat(v, 'f', 3, 64)
	if strings.HasSuffix(text, ".000") || !strings.Contains(text, ".") { // whole, infinite, or not a number
		return text
	}
	return strings.TrimRight(text, "0")
}

// show is a value as a table has it: one line, and no control characters of an engine's texts.
func show(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case float64:
		return places(v)
	case string:
		v = strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return '·'
			}
			return r
		}, strings.ToValidUTF8(v, "·"))
		if r := []rune(v); len(r) > widest {
			return string(r[:widest-1]) + "…"
		}
		return v
	}
	return fmt.Sprint(v)
}
