package report

import (
	"database/sql"
	"fmt"

	"github.com/kernhes/kernhes/analysis/duck"
)

// maxRows is how many rows of an answer a report has: the query gives the rest.
const maxRows = 16

// A section is a query of queries/, or one of its own.
type section struct {
	name, title, help string
	file              string // of queries/; empty: sql
	sql               string
	plot              func(*duck.Table) (string, error) // nil: none
}

// merged is a call without the numbers of its layers.
const merged = `regexp_replace(call, '\.[0-9]+(\.|$)', '.*\1', 'g')`

var sections = []section{
	{
		name: "ranks", title: "Ranks side by side", help: "Seconds in complete steps, by rank. Foreign compute is that of other work on the rank's GPU.",
		sql: `select rank, count(*) as steps, sum(compute_ns) / 1e9 as compute_s, sum(comm_ns) / 1e9 as comm_s, sum(idle_ns) / 1e9 as idle_s,
       sum(foreign_compute_ns) / 1e9 as foreign_s, median(end_ns - start_ns) / 1e6 as median_ms
from s where complete group by rank order by rank;`,
		plot: ranksPlot,
	},
	{
		name: "what_changed", title: "What changed over the period", help: "The mean step of the second half against the first: other batches (mix), or equal batches that take another time (inside).",
		file: "what_changed",
	},
	{
		name: "percentiles", title: "Step time over the period", help: "Wall time of complete steps in up to 96 slices, by program.",
		sql: `with b as (select min(start_ns) as t0, greatest(1, (max(end_ns) - min(start_ns)) // 96 + 1) as w from s)
select program, (t0 + ((start_ns - t0) // w) * w)::bigint as from_ns, count(*) as steps, quantile_cont((end_ns - start_ns) / 1e6, 0.5) as p50_ms,
       quantile_cont((end_ns - start_ns) / 1e6, 0.9) as p90_ms, quantile_cont((end_ns - start_ns) / 1e6, 0.99) as p99_ms
from s, b where complete group by program, (start_ns - t0) // w, t0, w order by count(*) over (partition by program) desc, program, from_ns;`,
		plot: percentilesPlot,
	},
	{
		name: "calls", title: "Where the time goes", help: "Kernel time by program and call. Layers are summed up. Kernels that overlap count twice.",
		sql: `select program, ` + merged + ` as call, class, count(*) as kernels, sum(dur_ns) / 1e9 as seconds,
       round(100 * sum(dur_ns) / sum(sum(dur_ns)) over (), 2) as pct
from k group by program, ` + merged + `, class order by seconds desc, program, call;`,
		plot: callsPlot,
	},
	{
		name: "waits", title: "Who waits for whom", help: "Waits and blame by rank, of collectives that all ranks of a group have. Only ranks that run the same program are compared here.",
		sql: `with met as (select *, present = ranks and ranks > 1 as whole from collectives)
select rank, count(*) filter (whole) as times, count(*) filter (not whole) as missing, sum(dur_ns - shortest) filter (whole) / 1e6 as wait_ms,
       sum(case when last then total - present * shortest else 0 end) filter (whole) / 1e6 as blame_ms,
       round(100 * avg(last::int) filter (whole), 1) as last_pct, sum(shortest) filter (whole) / 1e6 as transfer_ms
from met group by rank order by rank;`,
		plot: waitsPlot,
	},
	{
		name: "dplb", title: "Load balance of experts", help: "Share of prefill time by part. The share of waiting in MoE is the loss by unequal load of data-parallel ranks.",
		file: "share",
	},
	{
		name: "layers", title: "Experts by layer", help: "p10, p50 and p90 of each MoE layer, counted from when all ranks have arrived.",
		file: "moe_layers",
	},
	{
		name: "bubbles", title: "Where the GPU does nothing", help: "Gaps between kernels, by what follows.",
		file: "bubbles",
	},
	{
		name: "cost", title: "What it cost", help: "GPU seconds by model and program: used, waited, idle and unknown apart. Each nanosecond of a rank counts once.",
		file: "cost",
	},
	{
		name: "coverage", title: "Losses and coverage", help: "Steps that lack records, and kernels without a step or a call.",
		sql: `select 'steps' as what, case when complete then 'complete' else reason end as state, count(*) as n from s group by all
union all
select 'kernels', case when seq is null then 'outside any step' when call = '' then 'in a step, without a call' else 'with a call' end, count(*) from k group by all
order by what desc, n desc, state;`,
	},
}

// make runs the query.
func (s *section) make(db *sql.DB) (*Section, error) {
	text := s.sql
	if s.file != "" {
		var err error
		if text, err = duck.SQL(s.file); err != nil {
			return nil, err
		}
	}
	table, err := duck.Query(db, text)
	if err != nil {
		return nil, err
	}
	made := &Section{Name: s.name, Title: s.title, Help: s.help, SQL: text, Columns: table.Columns, Rows: table.Rows}
	if s.plot != nil && len(table.Rows) > 0 {
		if made.Plot, err = s.plot(table); err != nil {
			return nil, fmt.Errorf("plot: %w", err)
		}
	}
	if n := len(made.Rows); n > maxRows {
		made.Rows, made.More = made.Rows[:maxRows], n-maxRows
	}
	if made.Rows == nil {
		made.Rows = [][]any{}
	}
	return made, nil
}
