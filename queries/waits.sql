-- Who waits for whom? Comm kernels that all ranks have in a step, by call and rank.
--
-- Ranks of a collective end together, so the shortest belongs to the rank that came last: what another rank's took longer, it
-- waited. Only durations are compared: clocks of two GPUs agree to 20 µs.
--
-- program, call; op
-- rank         the one whose times these are
-- times        collectives
-- wait_ms      what it waited for others
-- blame_ms     what the others waited for it, as the last, all together
-- last_pct     percent of the collectives to which it came last
-- transfer_ms  the shortest of each: what the collective takes when all are there
with ranks as (select count(distinct rank) as n from s),
numbered as (
  select k.program, call, op, rank, seq, dur_ns,
         -- A call may communicate several times.
         row_number() over (partition by rank, seq, call order by pos) as nth
  from k join s using (rank, seq) where class = 'comm' and pairs and complete),
met as (
  select *, min(dur_ns) over same as shortest, sum(dur_ns) over same as total, count(*) over same as present,
         -- Of ranks that are equal, one is the last.
         row_number() over (partition by seq, call, nth order by dur_ns, rank) = 1 as last
  from numbered window same as (partition by seq, call, nth))
select program, call, op, rank, count(*) as times, sum(dur_ns - shortest) / 1e6 as wait_ms,
       sum(case when last then total - present * shortest else 0 end) / 1e6 as blame_ms,
       round(100 * avg(last::int), 1) as last_pct, sum(shortest) / 1e6 as transfer_ms
from met where present = (select n from ranks) and present > 1
group by program, call, op, rank order by sum(wait_ms) over (partition by program, call, op) desc, program, call, op, rank;
