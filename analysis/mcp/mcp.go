// Package mcp serves an archive to agents by the Model Context Protocol: they list runs, query, and read reports. Nothing is written.
package mcp

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	duckdb "github.com/duckdb/duckdb-go/v2"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kernhes/kernhes/analysis/duck"
	"github.com/kernhes/kernhes/analysis/report"
)

// Options say what is served.
type Options struct {
	Dir     string
	MaxRows int           // of an answer
	Timeout time.Duration // of a query
}

const instructions = `An archive of GPU kernels of LLM inference, in DuckDB. Views k (kernels), s (steps) and c (copies) show one run;
all_k, all_s and all_c show all runs. Call schema first. Pitfalls: seq counts anew with each run; starts of two ranks do not
compare (clocks differ by up to 20 us), durations do; incomplete steps lack kernels, so filter on complete; a fused kernel of
class comm also computes; communication time includes waiting for other ranks.`

// Serve answers on standard input and output until the client ends.
func Serve(ctx context.Context, o Options) error {
	return Server(o).Run(ctx, &sdk.StdioTransport{})
}

// A RunArgs names a run.
type RunArgs struct {
	Run string `json:"run,omitempty" jsonschema:"name of the run; empty: the newest"`
}

// A QueryArgs is a query.
type QueryArgs struct {
	SQL string `json:"sql" jsonschema:"one SELECT statement of DuckDB"`
	Run string `json:"run,omitempty" jsonschema:"run that views k, s and c show; empty: the newest"`
}

// A StepArgs names a step.
type StepArgs struct {
	Seq int64  `json:"seq" jsonschema:"number of the step"`
	Run string `json:"run,omitempty" jsonschema:"name of the run; empty: the newest"`
}

// A NamedArgs names a query of the archive's own.
type NamedArgs struct {
	Name string `json:"name" jsonschema:"such as waits, steps, findings, what_changed, cost"`
	Run  string `json:"run,omitempty" jsonschema:"name of the run; empty: the newest"`
}

type none struct{}

// Server has the tools of an archive.
func Server(o Options) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "kernhes", Version: "0.1.0"}, &sdk.ServerOptions{Instructions: instructions})
	reads := &sdk.ToolAnnotations{ReadOnlyHint: true}
	tool := func(name, does string) *sdk.Tool { return &sdk.Tool{Name: name, Description: does, Annotations: reads} }
	sdk.AddTool(s, tool("runs", "lists the runs of the archive: ranks, steps, times, model, engine"), func(ctx context.Context, _ *sdk.CallToolRequest, _ none) (*sdk.CallToolResult, any, error) {
		return o.answer(ctx, "", `select run, any_value(model) as model, any_value(engine) as engine, any_value(version) as version, count(distinct rank) as ranks,
  count(*) as steps, count(*) filter (not complete) as incomplete, make_timestamp_ns(min(start_ns)) as first, make_timestamp_ns(max(end_ns)) as last
from all_s group by run order by max(end_ns) desc`)
	})
	sdk.AddTool(s, tool("schema", "describes tables, columns, units and pitfalls"), func(ctx context.Context, _ *sdk.CallToolRequest, _ none) (*sdk.CallToolResult, any, error) {
		return text(schema), nil, nil
	})
	sdk.AddTool(s, tool("query", fmt.Sprintf("runs one SELECT of DuckDB; at most %d rows, %v", o.MaxRows, o.Timeout)), func(ctx context.Context, _ *sdk.CallToolRequest, a QueryArgs) (*sdk.CallToolResult, any, error) {
		return o.answer(ctx, a.Run, a.SQL)
	})
	sdk.AddTool(s, tool("named_query", "runs a query that comes with kernhes, by name: "+strings.Join(duck.Names(), ", ")), func(ctx context.Context, _ *sdk.CallToolRequest, a NamedArgs) (*sdk.CallToolResult, any, error) {
		sql, err := duck.BuiltIn(a.Name)
		if err != nil {
			return nil, nil, err
		}
		return o.answer(ctx, a.Run, withoutComments(sql))
	})
	sdk.AddTool(s, tool("explain_step", "says what one step did on each rank, and which calls took longest"), func(ctx context.Context, _ *sdk.CallToolRequest, a StepArgs) (*sdk.CallToolResult, any, error) {
		first, _, err := o.answer(ctx, a.Run, fmt.Sprintf(`select rank, program, text, complete, reason, (end_ns - start_ns) / 1e6 as wall_ms, compute_ns / 1e6 as compute_ms,
  comm_ns / 1e6 as comm_ms, idle_ns / 1e6 as idle_ms, foreign_compute_ns / 1e6 as foreign_ms, kernels from s where seq = %d order by rank`, a.Seq))
		if err != nil {
			return nil, nil, err
		}
		second, _, err := o.answer(ctx, a.Run, fmt.Sprintf(`select rank, call, class, count(*) as kernels, sum(dur_ns) / 1e3 as us from k where seq = %d group by rank, call, class
qualify row_number() over (partition by rank order by sum(dur_ns) desc) <= 10 order by rank, us desc`, a.Seq))
		if err != nil {
			return nil, nil, err
		}
		first.Content = append(first.Content, second.Content...)
		return first, nil, nil
	})
	sdk.AddTool(s, tool("report", "reports a run as Markdown: findings, ranks, waits, what changed, cost"), func(ctx context.Context, _ *sdk.CallToolRequest, a RunArgs) (*sdk.CallToolResult, any, error) {
		r, err := report.Make(report.Options{Archive: duck.Archive{Dir: o.Dir, Run: a.Run}})
		if err != nil {
			return nil, nil, err
		}
		var b bytes.Buffer
		if err := r.WriteMarkdown(&b); err != nil {
			return nil, nil, err
		}
		return text(b.String()), nil, nil
	})
	return s
}

func text(s string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}
}

// answer runs one SELECT, and gives its rows as a table.
func (o Options) answer(ctx context.Context, run, query string) (*sdk.CallToolResult, any, error) {
	if !single(query) {
		return nil, nil, errNotSelect
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	db, err := duck.Open(duck.Archive{Dir: o.Dir, Run: run}, "views.sql")
	if err != nil {
		return nil, nil, err
	}
	defer db.Close()
	if err := confine(ctx, db, o.Dir); err != nil {
		return nil, nil, err
	}
	if err := onlySelect(ctx, db, query); err != nil {
		return nil, nil, err
	}
	// A row more than may be shows that some are left out.
	table, err := duck.QueryContext(ctx, db, query, o.MaxRows+1)
	switch {
	case ctx.Err() != nil:
		return nil, nil, fmt.Errorf("the query took longer than %v: ask for less, such as one seq or one program", o.Timeout)
	case err != nil:
		return nil, nil, err
	}
	more := ""
	if len(table.Rows) > o.MaxRows {
		table.Rows = table.Rows[:o.MaxRows]
		more = fmt.Sprintf("\nOnly the first %d rows. Ask for less, or group.\n", o.MaxRows)
	}
	return text(table.String() + more), nil, nil
}

// confine lets the database read the archive alone from now on.
func confine(ctx context.Context, db *sql.DB, dir string) error {
	if strings.Contains(dir, "://") {
		return nil // an object store: DuckDB has no such bound for it
	}
	whole, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if real, err := filepath.EvalSymlinks(whole); err == nil {
		whole = real
	}
	quoted := "'" + strings.ReplaceAll(whole, "'", "''") + "'"
	for _, setting := range []string{"set allowed_directories = [" + quoted + "]", "set enable_external_access = false", "set memory_limit = '2GB'", "set lock_configuration = true"} {
		if _, err := db.ExecContext(ctx, setting); err != nil {
			return err
		}
	}
	return nil
}

// errNotSelect says that a statement is none that reads.
var errNotSelect = errors.New("want one SELECT statement, without comments and dollar quotes")

// single reports whether a text is surely no more than one statement: the driver would run all but the last as it prepares them. A
// semicolon may stand in a text or a name in quotes, and at the end. What could hide one from this check, a comment or a text in
// dollars, is refused.
func single(query string) bool {
	query = strings.TrimRight(query, "; \t\r\n")
	var quote rune
	for i, c := range query {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == ';' || c == '$':
			return false
		case strings.HasPrefix(query[i:], "--") || strings.HasPrefix(query[i:], "/*"):
			return false
		}
	}
	return quote == 0
}

// withoutComments is a query of ours without its lines of comments.
func withoutComments(query string) string {
	var kept []string
	for line := range strings.Lines(query) {
		code, _, _ := strings.Cut(line, "--")
		kept = append(kept, strings.TrimRight(code, " \n"))
	}
	return strings.Join(kept, "\n")
}

// onlySelect refuses all statements but a single SELECT.
func onlySelect(ctx context.Context, db *sql.DB, query string) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Raw(func(c any) error {
		p, ok := c.(driver.ConnPrepareContext)
		if !ok {
			return errNotSelect
		}
		stmt, err := p.PrepareContext(ctx, query)
		if err != nil {
			return err
		}
		defer stmt.Close()
		typed, ok := stmt.(*duckdb.Stmt)
		if !ok {
			return errNotSelect
		}
		if kind, err := typed.StatementType(); err != nil || kind != duckdb.STATEMENT_TYPE_SELECT && kind != duckdb.STATEMENT_TYPE_EXPLAIN {
			return errNotSelect
		}
		return nil
	})
}
