-- What went wrong in a run, on which rank, when and how much? Traffic is no finding.
--
-- Only traced steps count. The run is cut into up to 96 slices of at least 100 ms. Ranks are compared with each other in each slice, and each rank with its
-- own past. What holds in slices that follow each other is one finding.
--
-- kind     foreign: other work computes on the rank's GPU. slow_rank: steps compute longer than on the other ranks, for equal work.
--          slower: steps of all ranks compute longer than at first, for equal work. slow_link: communication takes longer than at first,
--          after all ranks have arrived. incomplete: steps lack records
-- rank     -1: all ranks
-- program  the program concerned; empty: any
-- from_ns, to_ns   unix ns
-- size_pct foreign: percent of time. slow_rank, slower, slow_link: percent above the others, or above the start. incomplete: percent of steps
-- slices   how many
-- note     what was compared
with bounds as (select min(start_ns) as t0, max(end_ns) as t1 from s where traced),
width as (select t0, greatest(100000000, (t1 - t0) // 96 + 1) as w from bounds),
steps as (
  select rank, seq, s.program, batch_bucket(tokens, seqs) as batch, kv_bucket(kv, seqs) as kv_label, tokens, kv, (start_ns - t0) // w as slice,
         start_ns, end_ns, compute_ns, foreign_compute_ns, comm_ns, complete
  from s, width where traced),
-- Foreign compute: a share of the time that the rank was busy with steps.
foreign_shares as (
  select rank, slice, sum(foreign_compute_ns) / greatest(sum(end_ns - start_ns + foreign_compute_ns), 1) as share, sum(foreign_compute_ns) as ns
  from steps group by rank, slice),
foreign_hits as (
  select 'foreign' as kind, rank, '' as program, slice, share - usual as size, 'share of time, above the median rank' as note
  from (select *, median(share) over (partition by slice) as middle, min(share) over (partition by slice) as least, count(*) over (partition by slice) as n
        from foreign_shares), (select 1), lateral (select case when n > 2 then middle else least end as usual)
  where share - usual > 0.005 and share > 3 * usual),
-- Compute against what steps of so many tokens and such a context take in this run: a straight line over kv for each number of
-- tokens, where there are enough steps; else over tokens in each bucket.
exact as (
  select program, tokens, regr_intercept(compute_ns, kv) as base, regr_slope(compute_ns, kv) as slope, avg(compute_ns) as mean, count(*) as n
  from steps where complete and compute_ns > 0 group by program, tokens having count(*) >= 30),
rough as (
  select program, batch, kv_label, regr_intercept(compute_ns, tokens) as base, regr_slope(compute_ns, tokens) as slope, avg(compute_ns) as mean
  from steps where complete and compute_ns > 0 group by program, batch, kv_label having count(*) >= 10),
expected as (
  select rank, slice, s.program, s.compute_ns,
         case when e.n is not null then coalesce(e.base + e.slope * s.kv, e.mean) else coalesce(r.base + r.slope * s.tokens, r.mean) end as should
  from steps s left join exact e using (program, tokens) left join rough r using (program, batch, kv_label)
  where s.complete and s.compute_ns > 0),
residuals as (
  select rank, slice, program, avg(ln(compute_ns / should)) as r, count(*) as n from expected where should > 0 group by rank, slice, program having count(*) >= 3),
by_rank as (select rank, slice, sum(r * n) / sum(n) as r, sum(n) as n from residuals group by rank, slice),
ratios as (
  select rank, slice, r - case when ranks > 2 then middle else least end as size from (
    select *, median(r) over (partition by slice) as middle, min(r) over (partition by slice) as least, count(*) over (partition by slice) as ranks from by_rank)
  where ranks > 1),
rank_noise as (select greatest(0.01, 6 * median(abs(size - center))) as limit_ from ratios, (select median(size) as center from ratios)),
rank_hits as (
  select 'slow_rank', rank, '', slice, exp(size) - 1, 'compute of equal batches, against the other ranks' from ratios, rank_noise where size > limit_),
-- Compute of all ranks against the run's start: its first third.
by_program as (select program, slice, median(r) as r, count(distinct rank) as ranks from residuals group by program, slice),
firsts as (
  select program, median(r) as r from by_program, (select max(slice) as last from by_program) where slice <= last / 3 group by program having count(*) >= 3),
trends as (select program, slice, p.r - f.r as size, ranks from by_program p join firsts f using (program)),
trend_noise as (
  select program, greatest(0.01, 6 * median(abs(size))) as limit_ from trends, (select max(slice) as last from trends) where slice <= last / 3 group by program),
trend_hits as (
  select 'slower', -1, t.program, slice, exp(size) - 1, 'compute of equal batches, against the first third of the run'
  from trends t join trend_noise using (program) where size > limit_
    and ranks = (select count(distinct rank) from steps)),
-- Transfer: the shortest of each meeting, by call without its numbers and bucket.
meetings as (
  select c.program, regexp_replace(c.call, '\.[0-9]+(\.|$)', '.*\1', 'g') as call, c."group", t.batch, t.kv_label, t.slice, c.shortest
  from collectives c join steps t on t.rank = c.rank and t.seq = c.seq where c.last and c.present = c.ranks and c.ranks > 1),
transfers as (select program, call, "group", batch, kv_label, slice, median(shortest) as ns, count(*) as n from meetings group by all having count(*) >= 5),
first_transfers as (
  select program, call, "group", batch, kv_label, median(ns) as ns from transfers, (select max(slice) as last from transfers) where slice <= last / 3 group by all),
links as (
  select "group", slice, sum(n * ln(t.ns / f.ns)) / sum(n) as size from transfers t join first_transfers f using (program, call, "group", batch, kv_label)
  where f.ns > 0 and t.ns > 0 group by "group", slice),
link_noise as (
  select "group", greatest(0.10, 6 * median(abs(size))) as limit_ from links, (select max(slice) as last from links) where slice <= last / 3 group by "group"),
link_hits as (
  select 'slow_link', -1, '', slice, exp(size) - 1, 'transfer of group ' || case when l."group" = '' then '(assumed: all ranks)' else l."group" end || ', against the first third of the run'
  from links l join link_noise using ("group") where size > limit_
    and slice not in (select slice from rank_hits)), -- a rank that is slow also transfers slowly
incomplete_hits as (
  select 'incomplete', rank, '', slice, count(*) filter (not complete) / count(*), 'share of steps' from steps group by rank, slice
  having count(*) filter (not complete) / count(*) > 0.05 and count(*) >= 5),
hits as (from foreign_hits union all from rank_hits union all from trend_hits union all from link_hits union all from incomplete_hits),
-- Slices that follow each other are one finding, also with up to five between: there a rank may have had too few steps.
islands as (
  select *, sum(new) over (partition by kind, rank, program, note order by slice) as island from (
    select *, (slice - lag(slice, 1, -9) over (partition by kind, rank, program, note order by slice) > 6)::int as new from hits))
select kind, rank, program, (t0 + min(slice) * w)::bigint as from_ns, (t0 + (max(slice) + 1) * w)::bigint as to_ns,
       round(100 * avg(size), 2) as size_pct, count(*) as slices, any_value(note) as note
from islands, width group by kind, rank, program, note, island, t0, w
having count(*) >= 3
order by count(*) * avg(size) desc, kind, rank;
