-- Why does the mean step take longer or shorter than before: other batches, or equal batches that take another time?
--
-- Two periods of the run are compared: before and after variable `split` (unix ns; null: the middle of the run). With variables `a`
-- and `b`, two runs or versions are compared instead, as in ab.sql. All complete steps of all ranks count.
--
-- part         mix: the bucket is a larger or smaller share of the steps. inside: steps of the bucket take another time
-- program, batch, kv   the bucket. all: the sum of all buckets. Where a bucket has steps on one side alone, all of it is mix
-- steps_a, steps_b     steps
-- ms_a, ms_b           their mean wall time. In the first row of both parts: of all steps
-- change_ms    what the part of the bucket adds to the mean step. All rows of buckets add up to ms_b - ms_a of row all
with sided as (
  select case when getvariable('a') is null then case when start_ns < coalesce(getvariable('split')::bigint,
                (select (min(start_ns) + max(end_ns)) // 2 from s where traced)) then 'a' else 'b' end
              when getvariable('a') in (s.run, s.version) then 'a' else 'b' end as side,
         program, batch_bucket(tokens, seqs) as batch, kv_bucket(kv, seqs) as kv, (end_ns - start_ns)::double as ns
  from all_s s
  where complete and case when getvariable('a') is null then run = getvariable('run') and archive = 'a'
                          else getvariable('a') in (s.run, s.version) or getvariable('b') in (s.run, s.version) end),
totals as (select side, count(*) as n, avg(ns) as mean from sided group by side),
buckets as (
  select program, batch, kv, count(*) filter (side = 'a') as steps_a, count(*) filter (side = 'b') as steps_b,
         avg(ns) filter (side = 'a') as mean_a, avg(ns) filter (side = 'b') as mean_b
  from sided group by program, batch, kv),
both_sides as (
  select a.n as n_a, b.n as n_b, a.mean as mean_a, b.mean as mean_b
  from (from totals where side = 'a') a, (from totals where side = 'b') b),
shares as (
  select bk.*, steps_a / n_a as share_a, steps_b / n_b as share_b, t.mean_a as all_a, t.mean_b as all_b
  from buckets bk, both_sides t),
-- Shares sum to 1 on each side, so any constant may be taken from the means of the mix: the mean of all steps shows what a shift adds.
parts as (
  select 'mix' as part, program, batch, kv, steps_a, steps_b, mean_a, mean_b,
         (share_b - share_a) * ((coalesce(mean_a, mean_b) + coalesce(mean_b, mean_a)) / 2 - (all_a + all_b) / 2) as change from shares
  union all
  select 'inside', program, batch, kv, steps_a, steps_b, mean_a, mean_b,
         coalesce((mean_b - mean_a) * (share_a + share_b) / 2, 0) from shares),
lines as (
  select part, 'all' as program, '' as batch, '' as kv, sum(steps_a)::bigint as steps_a, sum(steps_b)::bigint as steps_b,
         any_value(t.mean_a) / 1e6 as ms_a, any_value(t.mean_b) / 1e6 as ms_b, sum(change) / 1e6 as change_ms
  from parts, both_sides t group by part
  union all
  select part, program, batch, kv, steps_a, steps_b, mean_a / 1e6, mean_b / 1e6, change / 1e6 from parts where change <> 0)
from lines order by program <> 'all', abs(change_ms) desc, part, program, batch, kv;
