// Package report turns an archive into a report: findings, tables and plots, each with the query that it comes from.
package report

import (
	"database/sql"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/kernhes/kernhes/analysis/duck"
)

// Schema is the version of the JSON. It grows when a field changes its meaning or goes.
const Schema = 1

// A Report is one run, or a part of it. Its JSON is documented in docs/report.md.
type Report struct {
	Schema   int       `json:"schema"`
	Archive  string    `json:"archive"`
	Run      string    `json:"run"`
	From     time.Time `json:"from"` // of the first step
	To       time.Time `json:"to"`   // of the last step
	Ranks    int64     `json:"ranks"`
	Steps    int64     `json:"steps"`
	Findings []Finding `json:"findings"`
	Sections []Section `json:"sections"`
}

// A Finding is something that went wrong: a row of findings.sql.
type Finding struct {
	Kind    string    `json:"kind"`
	Rank    int64     `json:"rank"` // -1: all
	Program string    `json:"program"`
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Size    float64   `json:"size_pct"`
	Text    string    `json:"text"`
}

// A Section answers a question by one query.
type Section struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Help    string   `json:"help"`
	SQL     string   `json:"sql"`
	Columns []string `json:"columns"`
	Rows    [][]any  `json:"rows"`
	More    int      `json:"rows_left_out"`
	Plot    string   `json:"-"` // SVG; empty: none
}

// Options say what is reported.
type Options struct {
	duck.Archive
	From, To time.Time                      // zero: all of the run
	Progress func(done, of int, now string) // nil: nobody is told
}

// Make makes the report.
func Make(o Options) (*Report, error) {
	if _, err := os.Stat(o.Dir); err != nil && !strings.Contains(o.Dir, "://") {
		return nil, err
	}
	db, err := duck.Open(o.Archive, "views.sql")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	if err := period(db, o); err != nil {
		return nil, err
	}
	r := &Report{Schema: Schema, Archive: o.Dir, Findings: []Finding{}}
	if err := r.head(db); err != nil {
		return nil, err
	}
	told := func(i int, now string) {
		if o.Progress != nil {
			o.Progress(i, len(sections)+1, now)
		}
	}
	told(0, "findings")
	if err := r.findings(db); err != nil {
		return nil, err
	}
	for i, s := range sections {
		told(i+1, s.name)
		made, err := s.make(db)
		if err != nil {
			return nil, fmt.Errorf("section %s: %w", s.name, err)
		}
		r.Sections = append(r.Sections, *made)
	}
	told(len(sections)+1, "done")
	return r, nil
}

// period has the views show the period alone.
func period(db *sql.DB, o Options) error {
	var where string
	if !o.From.IsZero() {
		where += fmt.Sprintf(" and start_ns >= %d", o.From.UnixNano())
	}
	if !o.To.IsZero() {
		where += fmt.Sprintf(" and start_ns < %d", o.To.UnixNano())
	}
	if where == "" {
		return nil
	}
	for _, table := range []string{"k", "s", "c"} {
		if _, err := db.Exec(fmt.Sprintf("create or replace view %s as select * from all_%s where run = getvariable('run') and archive = 'a'%s", table, table, where)); err != nil {
			return err
		}
	}
	return nil
}

func (r *Report) head(db *sql.DB) error {
	var run sql.NullString
	var from, to sql.NullInt64
	err := db.QueryRow("select getvariable('run')::varchar, min(start_ns), max(end_ns), count(distinct rank), count(*) from s").
		Scan(&run, &from, &to, &r.Ranks, &r.Steps)
	switch {
	case err != nil:
		return err
	case r.Steps == 0:
		return fmt.Errorf("%s: no step of run %q in this period", r.Archive, run.String)
	}
	r.Run, r.From, r.To = run.String, time.Unix(0, from.Int64).UTC(), time.Unix(0, to.Int64).UTC()
	return nil
}

func (r *Report) findings(db *sql.DB) error {
	text, err := duck.SQL("findings")
	if err != nil {
		return err
	}
	rows, err := db.Query(text)
	if err != nil {
		return fmt.Errorf("findings: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var f Finding
		var from, to, slices int64
		var note string
		if err := rows.Scan(&f.Kind, &f.Rank, &f.Program, &from, &to, &f.Size, &slices, &note); err != nil {
			return err
		}
		f.From, f.To = time.Unix(0, from).UTC(), time.Unix(0, to).UTC()
		f.Text = sentence(&f, note)
		r.Findings = append(r.Findings, f)
	}
	return rows.Err()
}

// sentence says a finding in words.
func sentence(f *Finding, note string) string {
	who := fmt.Sprintf("Rank %d", f.Rank)
	if f.Rank < 0 {
		who = "All ranks"
	}
	if f.Program != "" {
		who += " in " + f.Program
	}
	what := map[string]string{
		"foreign":    "%s: other work computes on its GPU %.1f%% of the time",
		"slow_rank":  "%s: steps compute %.1f%% longer than on the other ranks",
		"slower":     "%s: steps compute %.1f%% longer than at first",
		"slow_link":  "%s: communication takes %.1f%% longer than at first",
		"incomplete": "%s: %.1f%% of the steps lack records",
	}[f.Kind]
	return fmt.Sprintf(what+", from %s to %s (%s).", who, f.Size, clock(f.From), clock(f.To), note)
}

func clock(t time.Time) string { return t.Format("15:04:05.0") }
