-- How long do steps take, and of what? Complete steps, over all ranks.
--
-- program; batch: tokens computed; kv: context a sequence. Buckets, as on the counters: inclusive upper bounds
-- steps      steps, each rank's counted
-- p50_ms, p90_ms, p99_ms, max_ms   first kernel's start to last kernel's end
-- compute_ms, comm_ms, idle_ms     means: union of compute kernels, exposed comm, neither
-- foreign_ms mean: compute of the same process on that GPU that is not the step's
with steps as (
  select program, batch_bucket(tokens, seqs) as batch, kv_bucket(kv, seqs) as kv, end_ns - start_ns as wall_ns,
         compute_ns, comm_ns, idle_ns, foreign_compute_ns
  from s where complete)
select program, batch, kv, count(*) as steps,
       quantile_disc(wall_ns, 0.5) / 1e6 as p50_ms, quantile_disc(wall_ns, 0.9) / 1e6 as p90_ms,
       quantile_disc(wall_ns, 0.99) / 1e6 as p99_ms, max(wall_ns) / 1e6 as max_ms,
       avg(compute_ns) / 1e6 as compute_ms, avg(comm_ns) / 1e6 as comm_ms, avg(idle_ns) / 1e6 as idle_ms,
       avg(foreign_compute_ns) / 1e6 as foreign_ms
from steps group by program, batch, kv order by program, edge(batch), edge(kv);
