with m as (
  select seq, regexp_extract(call, 'layers\.([0-9]+)', 1)::int as layer,
         min(dur_ns) as after_all_arrived, max(start_ns) - min(start_ns) as wait
  from k semi join full_steps using (seq)
  where op like '%mega_moe%' and call like 'prefill.target.moe.layers.%'
  group by seq, call having count(*) = 4)
select layer, quantile_cont(after_all_arrived, 0.1) as p10, median(after_all_arrived) as p50,
       quantile_cont(after_all_arrived, 0.9) as p90, median(wait) as wait_p50
from m group by layer order by layer;
