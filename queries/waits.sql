-- Who waits for whom? Comm kernels of complete steps, by call, group and rank.
--
-- Ranks of a collective end together, so the shortest belongs to the rank that came last: what another rank's took longer, it
-- waited. Only durations are compared: clocks of two GPUs agree to 20 µs. Only ranks of one group are compared.
--
-- program, call; op
-- group        ranks that the call communicates with. "assumed: …": that is not known, so all ranks that have the call are taken
--              for one group. NCCL's range payload says it, or group= in the step's text, or the receiver's setting `groups`
-- rank         the one whose times these are
-- ranks        ranks of the group that have the call. With 1 there is nobody to compare with
-- times        collectives that all of them have: what follows is of those
-- missing      collectives of this rank that another rank of the group does not have: its step is incomplete, or not there
-- wait_ms      what it waited for others
-- blame_ms     what the others waited for it, as the last, all together
-- last_pct     percent of the collectives to which it came last
-- transfer_ms  the shortest of each: what the collective takes when all are there
with met as (select *, present = ranks and ranks > 1 as whole from collectives)
select program, call, op, group_name("group", any_value(ranks)) as "group", rank, any_value(ranks) as ranks,
       count(*) filter (whole) as times, count(*) filter (not whole) as missing,
       sum(dur_ns - shortest) filter (whole) / 1e6 as wait_ms,
       sum(case when last then total - present * shortest else 0 end) filter (whole) / 1e6 as blame_ms,
       round(100 * avg(last::int) filter (whole), 1) as last_pct, sum(shortest) filter (whole) / 1e6 as transfer_ms
from met
group by program, call, op, met."group", rank
order by sum(wait_ms) over (partition by program, call, op) desc nulls last, program, call, op, "group", rank;
