-- Is B faster than A, call by call, under live traffic?
--
-- A and B are runs, engine versions or archives: variables `a` and `b` name a run or a version; else, with a second archive
-- (`archive_b`), A is the newest run of the first and B of the second; else A is the run before the newest and B the newest.
--
-- program, batch, kv   only steps of equal buckets are compared: traffic may differ, work may not
-- call; class
-- group        of comm: the ranks that communicate, so that a group is compared with the same one. "assumed: …": NCCL, the step's
--              text and the receiver's setting do not say it, so all ranks of the run that have the call are taken for one
-- steps_a, steps_b     steps that have it
-- us_a, us_b   mean time of the call in a step: of compute, the mean over ranks; of comm, that of the rank of the group that
--              came last (the shortest), so that waiting for others is not taken for it
-- missing_a, missing_b   of comm: steps that are left out since a rank of the group is missing in them
-- diff_pct     what B takes more than A, percent of A
-- low_pct, high_pct    95% confidence interval of diff_pct
-- least_pct    the smallest difference that so many steps show in four of five tries, at 5% significance: if it is above what you
--              look for, the archive is too short to tell
-- differs      the interval leaves out zero. Of calls that are equal, one in twenty differs by chance
--
-- Steps that follow each other are alike (clocks, temperature, traffic), so their spread is too small. Means of up to 20 stretches
-- of steps are compared instead (Welch's test), which forgets all but what is alike over a twentieth of a run.
with runs as (
  select archive, run, max(end_ns) as until, row_number() over (partition by archive order by max(end_ns) desc) as age
  from all_s group by archive, run),
sides as (
  select distinct side, s.archive, s.run, s.version from all_s s join runs using (archive, run),
    (values ('a', getvariable('a')), ('b', getvariable('b'))) sides(side, given)
  where case when given is not null then given in (s.run, s.version)
             when getvariable('archive_b') is not null then archive = side and age = 1
             else archive = 'a' and age = case side when 'a' then 2 else 1 end end),
steps as (
  select side, archive, run, rank, seq, any_value(s.program) as program, any_value(batch_bucket(tokens, seqs)) as batch,
         any_value(kv_bucket(kv, seqs)) as kv, min(start_ns) as start_ns
  from all_s s join sides using (archive, run, version)
  group by side, archive, run, rank, seq having count(*) = 1 and bool_and(complete)),
ranked as (select archive, run, count(distinct rank) as ranks from all_s group by all),
calls as ( -- on one rank
  select side, archive, run, seq, t.program, batch, kv, call, class, "group", rank, sum(dur_ns) as ns, any_value(t.start_ns) as start_ns
  from all_k join steps t using (archive, run, rank, seq) where call <> ''
  group by all),
groups as ( -- named by their ranks, which two runs may share; a communicator's id is of one run
  select side, archive, run, program, call, class, "group", count(distinct rank) as size,
         case when class <> 'comm' then ''
              when "group" <> '' then 'ranks ' || string_agg(distinct rank::varchar, ',' order by rank::varchar)
              when count(distinct rank) = any_value(ranked.ranks) then 'assumed: all ranks'
              else 'assumed: ' || count(distinct rank) || ' of ' || any_value(ranked.ranks) || ' ranks' end as named
  from calls join ranked using (archive, run) group by side, archive, run, program, call, class, "group"),
units as ( -- in one step
  select side, program, batch, kv, call, class, named as "group", min(start_ns) as began,
         case when class = 'comm' then min(ns) else avg(ns) end as ns, class <> 'comm' or count(*) = any_value(size) as whole
  from calls join groups using (side, archive, run, program, call, class, "group")
  group by side, run, seq, program, batch, kv, call, class, calls."group", named),
missed as (
  select side, program, batch, kv, call, class, "group", count(*) as steps from units where not whole group by all),
stretches as (
  select side, program, batch, kv, call, class, "group", avg(ns) as ns, count(*) as steps
  from (select *, ntile(20) over (partition by side, program, batch, kv, call, class, "group" order by began) as stretch from units where whole)
  group by side, program, batch, kv, call, class, "group", stretch),
means as (
  select side, program, batch, kv, call, class, "group", sum(steps)::bigint as steps, count(*) as n,
         avg(ns) as mean, var_samp(ns) / count(*) as error2
  from stretches group by all),
pairs as (
  select program, batch, kv, call, class, "group", a.steps as steps_a, b.steps as steps_b, a.mean as mean_a, b.mean as mean_b,
         sqrt(a.error2 + b.error2) as error,
         case when a.error2 + b.error2 = 0 then 1e9
              else (a.error2 + b.error2) ** 2 / (a.error2 ** 2 / (a.n - 1) + b.error2 ** 2 / (b.n - 1)) end as df
  from means a join means b using (program, batch, kv, call, class, "group") where a.side = 'a' and b.side = 'b'),
-- Student's t for 97.5% and 80% from the normal's, to 1/df⁴: within 0.3% from 3 degrees of freedom on.
tested as (select *, student(1.959963985, df) as t, student(0.841621234, df) as power from pairs)
select program, batch, kv, call, class, "group", steps_a, steps_b, mean_a / 1e3 as us_a, mean_b / 1e3 as us_b,
       100 * (mean_b - mean_a) / mean_a as diff_pct,
       100 * (mean_b - mean_a - t * error) / mean_a as low_pct, 100 * (mean_b - mean_a + t * error) / mean_a as high_pct,
       100 * (t + power) * error / mean_a as least_pct, abs(mean_b - mean_a) > t * error as differs,
       coalesce(ma.steps, 0) as missing_a, coalesce(mb.steps, 0) as missing_b
from tested
  left join (from missed where side = 'a') ma using (program, batch, kv, call, class, "group")
  left join (from missed where side = 'b') mb using (program, batch, kv, call, class, "group")
order by mean_a * steps_a desc, program, batch, kv, call, class, "group";
