-- Where does the GPU do nothing? Time in which no kernel of the rank runs, from its first step to its last, by what came after it.
--
-- Any kernel ends a gap: one of another step that overlaps, and one outside any step. Kernels that only wait for the host
-- (class spin) are none. All gaps together are what kern_device_seconds_total says is idle (or unknown) in that time. A
-- rank without steps has its gaps from its first kernel to its last.
--
-- rank, program
-- before     call of the next kernel of a step; (next step): that is the first of its step; (no step): none follows
-- gaps       how many
-- total_ms   their time
-- copy_ms    of it, what the rank's copies took that began in such a gap, at most
-- pct        percent of the rank's time from its first step to its last
-- p50_us, p99_us   of one gap
with busy as (
  select rank, seq, program, call, start_ns, start_ns + dur_ns as end_ns,
         max(start_ns + dur_ns) over (before rows between unbounded preceding and 1 preceding) as busy_until,
         lag(start_ns) over before as last_start_ns
  from k where class <> 'spin' window before as (partition by rank order by start_ns, seq nulls last, pos)),
steps as (select rank, seq, min(start_ns) as first_ns from busy where seq is not null group by rank, seq),
whole as (
  select rank, coalesce(min(start_ns) filter (seq is not null), min(start_ns)) as begin_ns,
         coalesce(max(end_ns) filter (seq is not null), max(end_ns)) as end_ns
  from busy group by rank),
gaps as (
  select rank, seq, program, call, busy_until as from_ns, start_ns as to_ns
  from busy join whole using (rank) where start_ns > busy_until and busy_until >= whole.begin_ns and start_ns <= whole.end_ns),
starts as ( -- of kernels of steps; of those that start together, one
  select rank, seq, program, call, start_ns from busy where seq is not null and start_ns is distinct from last_start_ns),
followed as ( -- a kernel outside any step ended it: the next of a step gives its name
  select g.rank, n.seq, n.program, n.call, g.from_ns, g.to_ns, n.start_ns
  from (from gaps where seq is null) g asof left join starts n on g.rank = n.rank and g.to_ns <= n.start_ns),
named as (
  select rank, coalesce(program, '') as program, from_ns, to_ns,
         case when seq is null then '(no step)' when start_ns = first_ns then '(next step)' else call end as before
  from (select rank, seq, program, call, from_ns, to_ns, to_ns as start_ns from gaps where seq is not null
        union all select rank, seq, program, call, from_ns, to_ns, start_ns from followed)
    left join steps using (rank, seq)),
copied as (
  select g.rank, g.from_ns, g.to_ns, least(sum(c.dur_ns), any_value(g.to_ns - g.from_ns)) as ns
  from c asof join gaps g on c.rank = g.rank and c.start_ns >= g.from_ns
  where c.start_ns < g.to_ns group by all)
select rank, program, before, count(*) as gaps, sum(to_ns - from_ns) / 1e6 as total_ms, coalesce(sum(copied.ns), 0) / 1e6 as copy_ms,
       round(100 * sum(to_ns - from_ns) / any_value(whole.end_ns - whole.begin_ns), 3) as pct,
       quantile_disc(to_ns - from_ns, 0.5) / 1e3 as p50_us, quantile_disc(to_ns - from_ns, 0.99) / 1e3 as p99_us
from named join whole using (rank) left join copied using (rank, from_ns, to_ns)
group by rank, program, before order by sum(to_ns - from_ns) desc, rank, program, before limit 50;
