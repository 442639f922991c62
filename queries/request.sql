-- In which steps did a request run, what did each cost, and what slowed them?
--
-- The variable `request` is the id of the request or of its trace (null: the request with the most steps).
--
-- request, trace_id   empty trace_id: the engine gives none
-- rank, seq, program  the step, of the rank that says what is in it; ranks in lockstep share seq
-- at_ms      from the start of the request's first step
-- tokens     that the step computed for the request; cached: its tokens in the KV cache before
-- batch      tokens that the step computed for all its requests
-- ms         what the step took; measure: kernels (first start to last end), device (the hook's CUDA events), or interval (to the next step)
-- usual_ms   median of the steps of the rank with the same program, batch bucket and kv bucket, by the same measure
-- foreign_ms, wait_ms, idle_ms   of it, where traced: compute of others on the GPU before it ended, waiting for other ranks, nothing runs
-- slowed_by  where the step took 10% more than usual: what grew most against the medians: compute, comm, wait, foreign or idle; unknown: it
--            was not traced, or none of these grew
with chosen as (
  select coalesce(getvariable('request')::varchar, (select max_by(request, n) from (select request, count(*) as n from r group by request))) as id),
mine as (
  select r.* from r, chosen where r.request = chosen.id or r.trace_id <> '' and r.trace_id = chosen.id),
batches as (select rank, session, seq, sum(tokens) as batch from r group by all),
waits as (select rank, seq, sum(dur_ns - shortest) filter (present = ranks and ranks > 1) as wait_ns from collectives group by rank, seq),
steps as (
  select s.rank, s.session, s.seq, s.program, batch_bucket(s.tokens, s.seqs) as batch_label, kv_bucket(s.kv, s.seqs) as kv_label,
         case when s.complete then 'kernels' when s.device_ns is not null then 'device' else 'interval' end as measure,
         case when s.complete then s.end_ns - s.start_ns when s.device_ns is not null then s.device_ns else g.interval_ns end as ns,
         s.compute_ns, s.foreign_compute_ns as foreign_ns, s.idle_ns, w.wait_ns, s.comm_ns - least(coalesce(w.wait_ns, 0), s.comm_ns) as comm_ns
  from s left join step_ranges g on s.rank = g.rank and s.session = g.session and s.seq = g.seq
    left join waits w on s.rank = w.rank and s.seq = w.seq),
usual as (
  select rank, program, batch_label, kv_label, measure, median(ns) as ns, median(compute_ns) as compute_ns, median(comm_ns) as comm_ns,
         median(coalesce(wait_ns, 0)) as wait_ns, median(foreign_ns) as foreign_ns, median(idle_ns) as idle_ns
  from steps group by all),
grown as (
  select t.*, u.ns as usual_ns, t.compute_ns - u.compute_ns as compute, t.comm_ns - u.comm_ns as comm, coalesce(t.wait_ns, 0) - u.wait_ns as wait,
         t.foreign_ns - u.foreign_ns as foreign_, t.idle_ns - u.idle_ns as idle
  from steps t join usual u using (rank, program, batch_label, kv_label, measure)),
judged as (
  select *, greatest(compute, comm, wait, foreign_, idle) as most from grown)
select m.request, m.trace_id, m.rank, plain_seq(m.seq) as seq, j.program, (m.start_ns - min(m.start_ns) over (partition by m.request)) / 1e6 as at_ms,
       m.tokens, m.cached, b.batch::bigint as batch, j.ns / 1e6 as ms, j.measure, j.usual_ns / 1e6 as usual_ms,
       j.foreign_ns / 1e6 as foreign_ms, j.wait_ns / 1e6 as wait_ms, j.idle_ns / 1e6 as idle_ms,
       case when j.ns is null or j.ns <= 1.1 * j.usual_ns then ''
            when most is null or most <= 0 then 'unknown'
            when most = compute then 'compute' when most = wait then 'wait' when most = foreign_ then 'foreign' when most = comm then 'comm' else 'idle' end as slowed_by
from mine m left join judged j using (rank, session, seq) left join batches b using (rank, session, seq)
order by m.request, m.start_ns, m.seq limit 1000;
