create table share as
with c as (
  select rank, seq, dur_ns,
         case when call like 'prefill.target.moe.layers.%.experts' then 'MoE'
              when call like 'prefill.target.attention.layers.%.attention' then 'attention'
              when call like 'prefill.target.attention.%' then 'attention projections'
              when call like 'prefill.index%' then 'indexer'
              when call like '%mhc%' or op like 'dsv41_hc%' then 'mHC'
              else 'other' end as what,
         case when call like 'prefill.target.moe.layers.%.experts'
              then dur_ns - min(dur_ns) over (partition by seq, call) else 0 end as wait_ns
  from k)
select rank, seq, what, sum(dur_ns - wait_ns) as ns from c group by all
union all
select rank, seq, 'waiting in MoE', sum(wait_ns) from c where what = 'MoE' group by all;

-- the whole run, each rank from its first step to its last
select what, sum(ns) / sum(sum(ns)) over () * 100 as pct
from (select what, ns from share
      union all
      select 'between steps', max(end_ns) - min(start_ns) - sum(end_ns - start_ns) from s where program = 'prefill' group by rank)
group by what order by pct desc;

-- full 32k-token steps of one sequence, by how long that sequence's context is
select case when kv < 65536 then 'up to 64k' when kv < 131072 then '64k to 128k'
            when kv < 262144 then '128k to 256k' else '256k and more' end as context,
       what, count(*) as steps, avg(ns) / 1e6 as ms
from share join s using (rank, seq)
where s.vars = 'seqs=1,tokens=32768'
group by all;
