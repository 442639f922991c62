-- Which calls take the most time?
--
-- program, call, op, class   a call may have kernels of two classes: a row each. Without a call: kernels that no label names
-- kernels    kernels of it, over all ranks
-- total_ms   their time
-- pct        percent of the time of all kernels of the program
-- p50_us, p99_us, max_us   of one kernel
-- slowest_seq, slowest_occurrence, slowest_rank   where the longest is, the first of equal ones: a step to open as a trace. An occurrence above 0 is of a step
--            whose seq the session had before
select program, call, op, class, count(*) as kernels, sum(dur_ns) / 1e6 as total_ms,
       round(100 * sum(dur_ns) / sum(sum(dur_ns)) over (partition by program), 2) as pct,
       quantile_disc(dur_ns, 0.5) / 1e3 as p50_us, quantile_disc(dur_ns, 0.99) / 1e3 as p99_us, max(dur_ns) / 1e3 as max_us,
       plain_seq(max_by(seq, (dur_ns, -start_ns, -rank))) as slowest_seq, max_by(occurrence, (dur_ns, -start_ns, -rank)) as slowest_occurrence,
       max_by(rank, (dur_ns, -start_ns, -rank)) as slowest_rank
from k where seq is not null
group by program, call, op, class
order by sum(dur_ns) desc, call, class limit 50;
