-- Where does the GPU do nothing? Time in which no kernel runs, by what came after it.
--
-- rank, program
-- before     call before whose kernel the gap is; (next step): from a step's last kernel to the next step's first
-- gaps       how many
-- total_ms   their time. Within steps all of them together are the steps' idle_ns
-- copy_ms    of it, what the rank's copies took that began in such a gap, at most
-- pct        percent of the rank's time from its first step to its last
-- p50_us, p99_us   of one gap
with running as (
  select rank, seq, program, call, start_ns,
         max(start_ns + dur_ns) over (partition by rank, seq order by start_ns, pos rows between unbounded preceding and 1 preceding) as busy_until
  from k where seq is not null and class <> 'spin'),
steps as (
  select rank, program, start_ns,
         max(end_ns) over (partition by rank order by start_ns, seq rows between unbounded preceding and 1 preceding) as busy_until
  from s),
gaps as (
  select rank, program, call as before, busy_until as from_ns, start_ns as to_ns from running where start_ns > busy_until
  union all
  select rank, program, '(next step)', busy_until, start_ns from steps where start_ns > busy_until),
copied as (
  select g.rank, g.from_ns, g.to_ns, least(sum(c.dur_ns), any_value(g.to_ns - g.from_ns)) as ns
  from c asof join gaps g on c.rank = g.rank and c.start_ns >= g.from_ns
  where c.start_ns < g.to_ns group by all),
whole as (select rank, max(end_ns) - min(start_ns) as ns from s group by rank)
select rank, program, before, count(*) as gaps, sum(to_ns - from_ns) / 1e6 as total_ms, coalesce(sum(copied.ns), 0) / 1e6 as copy_ms,
       round(100 * sum(to_ns - from_ns) / any_value(whole.ns), 3) as pct,
       quantile_disc(to_ns - from_ns, 0.5) / 1e3 as p50_us, quantile_disc(to_ns - from_ns, 0.99) / 1e3 as p99_us
from gaps join whole using (rank) left join copied using (rank, from_ns, to_ns)
group by rank, program, before order by sum(to_ns - from_ns) desc, rank, program, before limit 50;
