-- What does a long context cost? Full prefill steps, 32,768 tokens of one sequence, by how long its context is.
--
-- context  length of the sequence's context, this step's tokens included
-- what     as in share.sql
-- steps    steps that have it, each rank's counted
-- ms       mean time a step
-- note     as in share.sql
with full_prefills as (select rank, seq, any_value(kv) as kv from s where program = 'prefill' and vars = 'seqs=1,tokens=32768'
  group by rank, seq having count(*) = 1),
labelled as (
  select rank, seq, dur_ns,
         case when call like 'prefill.target.moe.layers.%.experts' then 'MoE'
              when call like 'prefill.target.attention.layers.%.attention' then 'attention'
              when call like 'prefill.target.attention.%' then 'attention projections'
              when call like 'prefill.index%' then 'indexer'
              when call like '%mhc%' or op like 'dsv41_hc%' then 'mHC'
              else 'other' end as what
  from k semi join full_prefills using (rank, seq) where program = 'prefill'),
experts as (
  select * from collectives semi join full_prefills using (rank, seq)
  where program = 'prefill' and call like 'prefill.target.moe.layers.%.experts'),
waiting as (select rank, seq, sum(dur_ns - shortest) filter (present = ranks) as ns from experts group by rank, seq),
share as (
  select rank, seq, what, sum(dur_ns) as ns from labelled group by all
  union all
  select rank, seq, what, -coalesce(ns, 0) from waiting, (values ('MoE')) t(what)
  union all
  select rank, seq, 'waiting in MoE', coalesce(ns, 0) from waiting),
steps as (select rank, seq, what, sum(ns) as ns from share group by all),
classes as (
  select *, case when kv < 65536 then 1 when kv < 131072 then 2 when kv < 262144 then 3 else 4 end as class
  from steps join full_prefills using (rank, seq)),
answer as (
  select class, what, count(*) as steps, round(avg(ns) / 1e6, 6) as ms,
         case when what = 'waiting in MoE' then (select waits_rest_on("group", ranks, present) from experts) else '' end as note
  from classes group by class, what)
select ['up to 64k', '64k to 128k', '128k to 256k', '256k and more'][class] as context, what, steps, ms, note
from (
  from answer
  union all
  select null, null, 0, null, case when exists (from s where program = 'prefill')
    then 'no step of program prefill has 32,768 tokens of one sequence: vars is not seqs=1,tokens=32768'
    else 'no step of program prefill in this run' end
  where not exists (from answer))
order by class, ms desc;
