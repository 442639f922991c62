-- What did each program cost, in GPU seconds?
--
-- Each nanosecond of a rank's time counts once: from its first step's start to its last step's end. A shared batch counts once.
--
-- model, program   empty program: between steps
-- ranks            GPUs
-- steps            complete and incomplete ones; those that were not traced count nowhere
-- used_s           compute and communication at work
-- waited_s         communication that waits for the rank of the group that comes last, as far as it is known (collectives)
-- idle_s           nothing runs, in steps and between them
-- unknown_s        incomplete steps: how their time was spent is not known
-- pct              percent of all GPU seconds
with spans as (
  select model, rank, program, seq, start_ns, end_ns, complete, compute_ns, comm_ns, idle_ns,
         greatest(start_ns, coalesce(max(end_ns) over (partition by rank order by start_ns, seq rows between unbounded preceding and 1 preceding), start_ns)) as begin_ns
  from s where traced),
waits as (
  select rank, seq, sum(dur_ns - shortest) filter (present = ranks and ranks > 1) as wait_ns from collectives group by rank, seq),
steps as (
  -- What an earlier step has covered already counts with that.
  select model, program, rank, complete, greatest(end_ns - begin_ns, 0) as wall_ns,
         case when end_ns > start_ns then greatest(end_ns - begin_ns, 0) / (end_ns - start_ns) else 0 end as part,
         compute_ns, comm_ns, idle_ns, least(coalesce(wait_ns, 0), comm_ns) as wait_ns
  from spans left join waits using (rank, seq)),
between_steps as (
  select any_value(model) as model, rank, max(end_ns) - min(start_ns) - sum(greatest(end_ns - begin_ns, 0)) as gap_ns from spans group by rank),
parts as (
  select model, program, count(distinct rank) as ranks, count(*) as steps,
         sum(case when complete then part * (compute_ns + comm_ns - wait_ns) else 0 end) as used,
         sum(case when complete then part * wait_ns else 0 end) as waited,
         sum(case when complete then part * idle_ns else 0 end) as idle,
         sum(case when complete then 0 else wall_ns end) as unknown
  from steps group by model, program
  union all
  select model, '', count(distinct rank), 0, 0, 0, sum(gap_ns), 0 from between_steps group by model)
select model, program, ranks, steps, used / 1e9 as used_s, waited / 1e9 as waited_s, idle / 1e9 as idle_s, unknown / 1e9 as unknown_s,
       round(100 * (used + waited + idle + unknown) / nullif(sum(used + waited + idle + unknown) over (), 0), 2) as pct
from parts order by used + waited + idle + unknown desc, model, program;
