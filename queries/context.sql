-- What does a long context cost? Full prefill steps, 32,768 tokens of one sequence, by how long its context is.
--
-- context  length of the sequence's context, this step's tokens included
-- what     as in share.sql
-- steps    steps that have it, each rank's counted
-- ms       mean time a step
with kernels as (
  select rank, seq, dur_ns,
         case when call like 'prefill.target.moe.layers.%.experts' then 'MoE'
              when call like 'prefill.target.attention.layers.%.attention' then 'attention'
              when call like 'prefill.target.attention.%' then 'attention projections'
              when call like 'prefill.index%' then 'indexer'
              when call like '%mhc%' or op like 'dsv41_hc%' then 'mHC'
              else 'other' end as what,
         case when what = 'MoE' then dur_ns - min(dur_ns) over (partition by seq, call) else 0 end as wait_ns
  from k where program = 'prefill'),
share as (
  select rank, seq, what, sum(dur_ns - wait_ns) as ns from kernels group by all
  union all
  select rank, seq, 'waiting in MoE', sum(wait_ns) from kernels where what = 'MoE' group by all),
classes as (
  select *, case when kv < 65536 then 1 when kv < 131072 then 2 when kv < 262144 then 3 else 4 end as class
  from share join s using (rank, seq) where vars = 'seqs=1,tokens=32768')
select ['up to 64k', '64k to 128k', '128k to 256k', '256k and more'][class] as context,
       what, count(*) as steps, round(avg(ns) / 1e6, 6) as ms
from classes group by class, what order by class, ms desc;
