-- What every query here stands on: views k, s and c of one run, and full_steps.
--
-- The variable `archive` is the folder, or the folder within an object store, below which Parquet files lie; `run` is the
-- run to look at (null: the newest by end of its last step). `archive_b` is a second archive, for ab.sql (null: none).
--
--   k           a row a kernel      s  a row a step      c  a row a copy or memset      (docs/schema.md has their columns)
--   all_k, …    the same of every run of both archives, with `archive` (a or b) and `filename`
--   full_steps  seq of the steps that computed 32,768 tokens of one sequence on every rank of the run
--   batch_bucket(tokens, seqs), kv_bucket(kv, seqs)   labels as on kern_steps_total: inclusive upper bounds; unknown: not given
--
-- Files are found by what their footers say they hold, so it does not matter how they are named.
create or replace macro files_of(t) as table
  select file_name from parquet_kv_metadata(
    case when getvariable('archive_b') is null then [getvariable('archive') || '/**/*.parquet']
         else [getvariable('archive') || '/**/*.parquet', getvariable('archive_b') || '/**/*.parquet'] end)
  where decode(key) = 'kernhes.table' and decode(value) = t;
set variable files_k = (select list(file_name) from files_of('k'));
set variable files_s = (select list(file_name) from files_of('s'));
set variable files_c = (select list(file_name) from files_of('c'));

create or replace macro archive_of(file) as
  case when starts_with(file, getvariable('archive_b') || '/') then 'b' else 'a' end;
create or replace view all_k as
  select *, archive_of(filename) as archive from read_parquet(getvariable('files_k'), filename = true, union_by_name = true);
create or replace view all_s as
  select *, archive_of(filename) as archive from read_parquet(getvariable('files_s'), filename = true, union_by_name = true);
-- An archive need not have a file of c.
create or replace view all_c as
  select *, archive_of(filename) as archive from query(case when getvariable('files_c') is null
    then 'select '''' as run, 0 as rank, 0 as device, 0 as seq, '''' as kind, 0 as bytes, 0 as start_ns, 0 as dur_ns, 0 as stream,
      0 as graph_node_id, 0 as correlation_id, '''' as filename limit 0'
    else 'from read_parquet(getvariable(''files_c''), filename = true, union_by_name = true)' end);

set variable run = coalesce(getvariable('run'), (select max_by(run, end_ns) from all_s where archive = 'a'));
create or replace view k as select * from all_k where run = getvariable('run') and archive = 'a';
create or replace view s as select * from all_s where run = getvariable('run') and archive = 'a';
create or replace view c as select * from all_c where run = getvariable('run') and archive = 'a';

create or replace view full_steps as
  select seq from s group by seq
  having bool_and(vars = 'seqs=1,tokens=32768' and pairs) and count(distinct rank) = (select count(distinct rank) from s);

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
