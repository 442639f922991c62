-- Are experts balanced over layers (EPLB), and do ranks come to them together (DPLB)? Full prefill steps only.
--
-- layer     of the model
-- steps     steps that all ranks ran it in
-- p10_ms, p50_ms, p90_ms   time of the expert kernel once all ranks had come: that of the rank that came last, whose is the
--           shortest. The same shape of work in each layer, so layers that differ have their tokens on few experts
-- wait_p50_ms, wait_max_ms   how much earlier the first rank came than the last, by durations: they end together, and
--           two GPUs' clocks agree to 20 µs only
with ranks as (select count(distinct rank) as n from s),
layers as (
  select seq, regexp_extract(call, 'layers\.([0-9]+)', 1)::int as layer,
         min(dur_ns) as after_all_arrived, max(dur_ns) - min(dur_ns) as wait
  from k semi join full_steps using (seq)
  where program = 'prefill' and op like '%mega_moe%' and call like 'prefill.target.moe.layers.%'
  group by seq, call having count(*) = (select n from ranks))
select layer, count(*) as steps,
       quantile_cont(after_all_arrived, 0.1) / 1e6 as p10_ms, median(after_all_arrived) / 1e6 as p50_ms,
       quantile_cont(after_all_arrived, 0.9) / 1e6 as p90_ms, median(wait) / 1e6 as wait_p50_ms, max(wait) / 1e6 as wait_max_ms
from layers group by layer order by layer;
