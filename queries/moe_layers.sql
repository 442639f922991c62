-- Are experts balanced over layers (EPLB), and do ranks come to them together (DPLB)? Full prefill steps only.
--
-- layer     of the model
-- steps     steps that all ranks of a group ran it in, each group's counted
-- p10_ms, p50_ms, p90_ms   time of the expert kernel once all ranks had come: that of the rank that came last, whose is the
--           shortest. The same shape of work in each layer, so layers that differ have their tokens on few experts
-- wait_p50_ms, wait_max_ms   how much earlier the first rank came than the last, by durations: they end together, and
--           two GPUs' clocks agree to 20 µs only
-- note      whether the group is assumed, and kernels of which a rank is missing; else why nothing is here
with experts as (
  select c.*, s.vars = 'seqs=1,tokens=32768' as is_full
  from collectives c join s using (rank, seq)
  where c.program = 'prefill' and c.op like '%mega_moe%' and c.call like 'prefill.target.moe.layers.%'),
layers as (
  select regexp_extract(call, 'layers\.([0-9]+)', 1)::int as layer, any_value(shortest) as after_all_arrived,
         max(dur_ns) - any_value(shortest) as wait, any_value(present) = any_value(ranks) as whole, any_value(ranks) as ranks,
         any_value(present) as present, "group"
  from experts group by seq, call, "group", nth having bool_and(is_full)),
answer as (
  select layer, count(*) filter (whole) as steps,
         quantile_cont(after_all_arrived, 0.1) filter (whole) / 1e6 as p10_ms, median(after_all_arrived) filter (whole) / 1e6 as p50_ms,
         quantile_cont(after_all_arrived, 0.9) filter (whole) / 1e6 as p90_ms, median(wait) filter (whole) / 1e6 as wait_p50_ms,
         max(wait) filter (whole) / 1e6 as wait_max_ms, waits_rest_on("group", ranks, present) as note
  from layers group by layer)
from answer
union all
select null, 0, null, null, null, null, null,
  case when not exists (from s where program = 'prefill') then 'no step of program prefill in this run'
       when not exists (from experts) then 'no comm kernel of program prefill has an op like mega_moe and a call like prefill.target.moe.layers.N'
       else 'no step of program prefill has 32,768 tokens of one sequence on all ranks of a group: vars is not seqs=1,tokens=32768' end
where not exists (from answer)
order by layer;
