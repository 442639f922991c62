-- Where does the time of prefill go, over the whole run?
--
-- what  MoE and attention (the kernels themselves), attention projections, indexer, mHC, other: all kernels of prefill steps by
--       label and op; waiting in MoE: what a rank's expert kernel took longer than that of the rank that came last, as no rank can
--       begin before; between steps: from a rank's first prefill step to its last, without the steps
-- pct   percent of all of these, over all ranks. Kernels that overlap count twice, and gaps within a step are in none
--
-- A waiting time needs each rank's row of a call, in memory; keeping to one program first takes a twentieth of it.
with kernels as (
  select rank, dur_ns,
         case when call like 'prefill.target.moe.layers.%.experts' then 'MoE'
              when call like 'prefill.target.attention.layers.%.attention' then 'attention'
              when call like 'prefill.target.attention.%' then 'attention projections'
              when call like 'prefill.index%' then 'indexer'
              when call like '%mhc%' or op like 'dsv41_hc%' then 'mHC'
              else 'other' end as what,
         case when what = 'MoE' then dur_ns - min(dur_ns) over (partition by seq, call) else 0 end as wait_ns
  from k where program = 'prefill'),
parts as (
  select what, sum(dur_ns - wait_ns) as ns from kernels group by what
  union all
  select 'waiting in MoE', sum(wait_ns) from kernels where what = 'MoE' having count(*) > 0
  union all
  select 'between steps', sum(gap) from (
    select max(end_ns) - min(start_ns) - sum(end_ns - start_ns) as gap from s where program = 'prefill' group by rank)
  having count(*) > 0)
select what, round(ns / sum(ns) over () * 100, 3) as pct from parts order by pct desc;
