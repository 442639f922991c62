-- Where does the time of prefill go, over the whole run?
--
-- what  MoE and attention (the kernels themselves), attention projections, indexer, mHC, other: all kernels of prefill steps by
--       label and op; waiting in MoE: what a rank's expert kernel took longer than that of the rank of its group that came last, as
--       no rank can begin before; between steps: from a rank's first prefill step to its last, without the steps
-- pct   percent of all of these, over all ranks. Kernels that overlap count twice, and gaps within a step are in none
-- note  of waiting: whether the group is assumed, and kernels of which a rank is missing; else why nothing is here
with labelled as (
  select dur_ns,
         case when call like 'prefill.target.moe.layers.%.experts' then 'MoE'
              when call like 'prefill.target.attention.layers.%.attention' then 'attention'
              when call like 'prefill.target.attention.%' then 'attention projections'
              when call like 'prefill.index%' then 'indexer'
              when call like '%mhc%' or op like 'dsv41_hc%' then 'mHC'
              else 'other' end as what
  from k where program = 'prefill'),
experts as (select * from collectives where program = 'prefill' and call like 'prefill.target.moe.layers.%.experts'),
waiting as (select sum(dur_ns - shortest) filter (present = ranks) as ns, waits_rest_on("group", ranks, present) as note from experts),
parts as (
  select what, sum(dur_ns) - case when what = 'MoE' then coalesce((select ns from waiting), 0) else 0 end as ns, '' as note
  from labelled group by what
  union all
  select 'waiting in MoE', coalesce(ns, 0), note from waiting where exists (from labelled where what = 'MoE')
  union all
  select 'between steps', sum(gap), '' from (
    select max(end_ns) - min(start_ns) - sum(end_ns - start_ns) as gap from s where program = 'prefill' and traced group by rank)
  having count(*) > 0),
answer as (select what, round(ns / sum(ns) over () * 100, 3) as pct, note from parts)
from answer
union all
select null, null, 'no step of program prefill in this run' where not exists (from answer)
order by pct desc;
