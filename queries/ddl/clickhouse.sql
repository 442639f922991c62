-- The archive in ClickHouse. Any layout will do: the files have all columns. With layout: hive, _path has the date and the run.

create table kernhes.k (
  `run` String,
  `rank` Int64,
  `device` Int64,
  `session` String,
  `seq` Nullable(Int64),
  `occurrence` Int64,
  `program` String,
  `call` String,
  `op` String,
  `group` String,
  `group_source` String,
  `bytes` Int64,
  `kernel` String,
  `symbol` String,
  `class` String,
  `fused` Bool,
  `start_ns` Int64,
  `dur_ns` Int64,
  `stream` Int64,
  `graph_node_id` Int64,
  `correlation_id` Int64,
  `grid_x` Int64,
  `grid_y` Int64,
  `grid_z` Int64,
  `block_x` Int64,
  `block_y` Int64,
  `block_z` Int64,
  `pos` Int64
)
engine = S3('https://ENDPOINT/BUCKET/archive/k/**/*.parquet', 'Parquet');

create table kernhes.s (
  `run` String,
  `rank` Int64,
  `device` Int64,
  `session` String,
  `seq` Int64,
  `occurrence` Int64,
  `pairs` Bool,
  `program` String,
  `text` String,
  `vars` String,
  `group` String,
  `seqs` Int64,
  `tokens` Int64,
  `kv` Int64,
  `start_ns` Int64,
  `end_ns` Nullable(Int64),
  `compute_ns` Nullable(Int64),
  `comm_ns` Nullable(Int64),
  `overlap_ns` Nullable(Int64),
  `idle_ns` Nullable(Int64),
  `foreign_compute_ns` Nullable(Int64),
  `kernels` Int64,
  `complete` Nullable(Bool),
  `reason` String,
  `host` String,
  `gpu` String,
  `gpu_name` String,
  `model` String,
  `engine` String,
  `version` String,
  `mode` String,
  `traced` Bool,
  `range_start_ns` Nullable(Int64),
  `range_ns` Nullable(Int64),
  `thread` Int64,
  `level` Int64,
  `device_ns` Nullable(Int64)
)
engine = S3('https://ENDPOINT/BUCKET/archive/s/**/*.parquet', 'Parquet');

create table kernhes.c (
  `run` String,
  `rank` Int64,
  `device` Int64,
  `session` String,
  `seq` Nullable(Int64),
  `occurrence` Int64,
  `kind` String,
  `bytes` Int64,
  `start_ns` Int64,
  `dur_ns` Int64,
  `stream` Int64,
  `graph_node_id` Int64,
  `correlation_id` Int64
)
engine = S3('https://ENDPOINT/BUCKET/archive/c/**/*.parquet', 'Parquet');

create table kernhes.r (
  `run` String,
  `rank` Int64,
  `device` Int64,
  `session` String,
  `seq` Int64,
  `occurrence` Int64,
  `start_ns` Int64,
  `request` String,
  `tokens` Int64,
  `cached` Int64,
  `trace_id` String
)
engine = S3('https://ENDPOINT/BUCKET/archive/r/**/*.parquet', 'Parquet');
