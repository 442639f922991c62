-- What every query here stands on: views k, s and c of one run, and what is compared over its ranks.
--
-- The variable `archive` is the folder, or the folder within an object store, below which Parquet files lie; `run` is the
-- run to look at (null: the newest by end of its last step). `archive_b` is a second archive, for ab.sql (null: none).
--
--   k           a row a kernel      s  a row a step      c  a row a copy or memset      r  a row a request in a step
--               (docs/schema.md has their columns)
--   all_k, …    the same of every run of both archives, with `archive` (a or b) and `filename`
--   collectives a row for each comm kernel of a complete step, with what the ranks that meet in it took
--   step_ranges s with the time to the next push of the same thread, `interval_ns`
--   full_steps  seq of the steps that computed 32,768 tokens of one sequence on every rank of the run
--   batch_bucket(tokens, seqs), kv_bucket(kv, seqs)   labels as on kern_steps_total: inclusive upper bounds; unknown: not given
--   plain_seq(seq)   the seq that the engine gave: a second step with one seq has another number in the tables
--
-- Files are found by what their footers say they hold, so it does not matter how they are named. A file belongs to the archive
-- whose folder is the deeper one, where one lies below the other. Any of k, s, c and r may have no file: then it is empty.
-- Columns that the files of an older version lack are empty, 0 or null; `traced` is true there.
set variable archive = rtrim(getvariable('archive'), '/');
set variable archive_b = nullif(rtrim(getvariable('archive_b'), '/'), getvariable('archive'));
create or replace macro files_of(t) as table
  select distinct file_name from parquet_kv_metadata(
    case when getvariable('archive_b') is null then [getvariable('archive') || '/**/*.parquet']
         else [getvariable('archive') || '/**/*.parquet', getvariable('archive_b') || '/**/*.parquet'] end)
  where decode(key) = 'kernhes.table' and decode(value) = t;
set variable files_k = (select list(file_name) from files_of('k'));
set variable files_s = (select list(file_name) from files_of('s'));
set variable files_c = (select list(file_name) from files_of('c'));
set variable files_r = (select list(file_name) from files_of('r'));

create or replace macro below(file, folder) as starts_with(file, folder || '/');
create or replace macro archive_of(file) as
  case when below(file, getvariable('archive_b'))
            and not (below(file, getvariable('archive')) and length(getvariable('archive')) > length(getvariable('archive_b')))
       then 'b' else 'a' end;
-- The columns of each table without a row, with their types; then all rows.
create or replace view no_k as
  select '' as run, 0::bigint as rank, 0::bigint as device, '' as session, 0::bigint as seq, 0::bigint as occurrence, '' as program,
         '' as call, '' as op, '' as "group", '' as group_source, 0::bigint as bytes, '' as kernel, '' as symbol, '' as class,
         false as fused, 0::bigint as start_ns, 0::bigint as dur_ns, 0::bigint as stream, 0::bigint as graph_node_id,
         0::bigint as correlation_id, 0::bigint as grid_x, 0::bigint as grid_y, 0::bigint as grid_z, 0::bigint as block_x,
         0::bigint as block_y, 0::bigint as block_z, 0::bigint as pos, '' as filename limit 0;
create or replace view no_s as
  select '' as run, 0::bigint as rank, 0::bigint as device, '' as session, 0::bigint as seq, 0::bigint as occurrence, false as pairs,
         '' as program, '' as text, '' as vars, '' as "group", 0::bigint as seqs, 0::bigint as tokens, 0::bigint as kv,
         0::bigint as start_ns, 0::bigint as end_ns, 0::bigint as compute_ns, 0::bigint as comm_ns, 0::bigint as overlap_ns,
         0::bigint as idle_ns, 0::bigint as foreign_compute_ns, 0::bigint as kernels, false as complete, '' as reason, '' as host,
         '' as gpu, '' as gpu_name, '' as model, '' as engine, '' as version, '' as mode, false as traced, 0::bigint as range_start_ns,
         0::bigint as range_ns, 0::bigint as thread, 0::bigint as level, 0::bigint as device_ns, '' as filename limit 0;
create or replace view no_c as
  select '' as run, 0::bigint as rank, 0::bigint as device, '' as session, 0::bigint as seq, 0::bigint as occurrence, '' as kind,
         0::bigint as bytes, 0::bigint as start_ns, 0::bigint as dur_ns, 0::bigint as stream, 0::bigint as graph_node_id,
         0::bigint as correlation_id, '' as filename limit 0;
create or replace view no_r as
  select '' as run, 0::bigint as rank, 0::bigint as device, '' as session, 0::bigint as seq, 0::bigint as occurrence,
         0::bigint as start_ns, '' as request, 0::bigint as tokens, 0::bigint as cached, '' as trace_id, '' as filename limit 0;
create or replace macro rows_of(t) as table
  from query('from no_' || t || case when getvariable('files_' || t) is null then '' else
    ' union all by name from read_parquet(getvariable(''files_' || t || '''), filename = true, union_by_name = true)' end);
create or replace view all_k as
  select * replace (coalesce(session, '') as session, coalesce(occurrence, 0) as occurrence, coalesce("group", '') as "group",
                    coalesce(group_source, '') as group_source, coalesce(bytes, 0) as bytes), archive_of(filename) as archive from rows_of('k');
create or replace view all_s as
  select * replace (coalesce(session, '') as session, coalesce(occurrence, 0) as occurrence, coalesce("group", '') as "group",
                    coalesce(traced, true) as traced, coalesce(thread, 0) as thread, coalesce(level, 0) as level),
         archive_of(filename) as archive from rows_of('s');
create or replace view all_c as
  select * replace (coalesce(session, '') as session, coalesce(occurrence, 0) as occurrence), archive_of(filename) as archive from rows_of('c');
create or replace view all_r as select *, archive_of(filename) as archive from rows_of('r');

set variable run = coalesce(getvariable('run'), (select max_by(run, coalesce(end_ns, start_ns)) from all_s where archive = 'a'));
set variable run = coalesce(getvariable('run'), (select max_by(run, start_ns) from all_k where archive = 'a' and getvariable('run') is null));
set variable run = coalesce(getvariable('run'), (select max_by(run, start_ns) from all_c where archive = 'a' and getvariable('run') is null));
create or replace view k as select * from all_k where run = getvariable('run') and archive = 'a';
create or replace view s as select * from all_s where run = getvariable('run') and archive = 'a';
create or replace view c as select * from all_c where run = getvariable('run') and archive = 'a';
create or replace view r as select * from all_r where run = getvariable('run') and archive = 'a';

-- Steps, traced or not, with the time to the next push of the same thread. An engine that runs ahead returns after the launch:
-- there the interval is what a step takes. A long one is no step's time: the engine waited.
create or replace view step_ranges as
  select *, lead(range_start_ns) over (partition by session, thread, level order by range_start_ns) - range_start_ns as interval_ns
  from s where range_start_ns is not null;

create or replace macro plain_seq(seq) as case when seq >= 1::bigint << 61 and seq < 1::bigint << 62 then seq & ((1::bigint << 48) - 1) else seq end;

-- Ranks of a group meet in the nth comm kernel of a call in a step. Kernels whose group is not known ("group" is empty) are
-- assumed to communicate with all ranks of the run that have such kernels in the call.
--
-- ranks      ranks of the group that have the call in some step of the run
-- present    of them, those that have this kernel: where that is fewer, a rank is missing, and nothing is known of the wait
-- shortest   ns: what the rank took that came last, since all end together
-- last       this is that rank
create or replace view collectives as
  with whole as (select rank, seq from s group by rank, seq having count(*) = 1 and bool_and(pairs and complete)),
  numbered as (
    select program, seq, call, op, "group", group_source, rank, dur_ns, pos,
           row_number() over (partition by program, rank, seq, call, "group" order by pos) as nth
    from k semi join whole using (rank, seq) where class = 'comm'),
  members as (select program, call, "group", count(distinct rank) as ranks from numbered group by all)
  select n.*, m.ranks, count(*) over same as present, min(dur_ns) over same as shortest, sum(dur_ns) over same as total,
         -- Of ranks that are equal, one is the last.
         row_number() over (partition by n.program, seq, n.call, n."group", nth order by dur_ns, rank) = 1 as last
  from numbered n join members m on n.program = m.program and n.call = m.call and n."group" = m."group"
  window same as (partition by n.program, seq, n.call, n."group", nth);
create or replace macro run_ranks() as (select count(distinct rank) from s);
-- A group as people read it.
create or replace macro group_name(name, ranks) as
  case when name <> '' then name when ranks = run_ranks() then 'assumed: all ' || ranks || ' ranks'
       else 'assumed: ' || ranks || ' of ' || run_ranks() || ' ranks' end;
-- What a waiting time rests on, from one row a kernel: whether its group is known, and whether each of its ranks is there.
create or replace macro waits_rest_on(name, ranks, present) as
  concat_ws('; ',
    case when bool_or(name = '') then 'assumed: ' || max(case when name = '' then ranks end) || ' of ' || any_value(run_ranks())
      || ' ranks of the run are one group' end,
    case when max(ranks) < 2 then 'no other rank of the group is there, so no waiting is known' end,
    case when count(*) filter (present < ranks) > 0 then
      count(*) filter (present < ranks) || ' of ' || count(*) || ' kernels lack a rank and count no waiting' end);

create or replace view full_steps as
  select seq from s group by seq
  having bool_and(vars = 'seqs=1,tokens=32768' and pairs and traced) and count(distinct rank) = (select count(distinct rank) from s);

create or replace macro bucket(n, edges) as
  case when n = 0 then 'unknown' else coalesce(list_filter(edges, lambda edge: n <= edge)[1]::varchar, '+Inf') end;
create or replace macro batch_bucket(tokens, seqs) as
  bucket(case when tokens = 0 then seqs else tokens end,
    [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768]);
create or replace macro kv_bucket(kv, seqs) as
  bucket((kv + greatest(seqs, 1) - 1) // greatest(seqs, 1), [1024, 4096, 16384, 65536, 131072, 262144, 1048576]);
-- A bucket as a number, to sort by.
create or replace macro edge(bucket) as
  case bucket when 'unknown' then -1 when '+Inf' then 'infinity'::double else bucket::double end;

-- Student's t from the normal's z, by Fisher's expansion in 1/df up to its fourth power.
create or replace macro student(z, df) as
  z + (z**3 + z) / (4 * df) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * df**2)
    + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * df**3)
    + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * df**4);
