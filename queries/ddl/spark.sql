-- The archive in Spark SQL. Write it with the exporter's setting layout: hive.
-- When new partitions have come: msck repair table kernhes.k;

create table kernhes.k (
  `rank` bigint,
  `device` bigint,
  `session` string,
  `seq` bigint,
  `occurrence` bigint,
  `program` string,
  `call` string,
  `op` string,
  `group` string,
  `group_source` string,
  `bytes` bigint,
  `kernel` string,
  `symbol` string,
  `class` string,
  `fused` boolean,
  `start_ns` bigint,
  `dur_ns` bigint,
  `stream` bigint,
  `graph_node_id` bigint,
  `correlation_id` bigint,
  `grid_x` bigint,
  `grid_y` bigint,
  `grid_z` bigint,
  `block_x` bigint,
  `block_y` bigint,
  `block_z` bigint,
  `pos` bigint,
  `date` date,
  `run` string
)
using parquet
partitioned by (`date`, `run`)
location 's3a://BUCKET/archive/k';

create table kernhes.s (
  `rank` bigint,
  `device` bigint,
  `session` string,
  `seq` bigint,
  `occurrence` bigint,
  `pairs` boolean,
  `program` string,
  `text` string,
  `vars` string,
  `group` string,
  `seqs` bigint,
  `tokens` bigint,
  `kv` bigint,
  `start_ns` bigint,
  `end_ns` bigint,
  `compute_ns` bigint,
  `comm_ns` bigint,
  `overlap_ns` bigint,
  `idle_ns` bigint,
  `foreign_compute_ns` bigint,
  `kernels` bigint,
  `complete` boolean,
  `reason` string,
  `host` string,
  `gpu` string,
  `gpu_name` string,
  `model` string,
  `engine` string,
  `version` string,
  `mode` string,
  `traced` boolean,
  `range_start_ns` bigint,
  `range_ns` bigint,
  `thread` bigint,
  `level` bigint,
  `device_ns` bigint,
  `date` date,
  `run` string
)
using parquet
partitioned by (`date`, `run`)
location 's3a://BUCKET/archive/s';

create table kernhes.c (
  `rank` bigint,
  `device` bigint,
  `session` string,
  `seq` bigint,
  `occurrence` bigint,
  `kind` string,
  `bytes` bigint,
  `start_ns` bigint,
  `dur_ns` bigint,
  `stream` bigint,
  `graph_node_id` bigint,
  `correlation_id` bigint,
  `date` date,
  `run` string
)
using parquet
partitioned by (`date`, `run`)
location 's3a://BUCKET/archive/c';

create table kernhes.r (
  `rank` bigint,
  `device` bigint,
  `session` string,
  `seq` bigint,
  `occurrence` bigint,
  `start_ns` bigint,
  `request` string,
  `tokens` bigint,
  `cached` bigint,
  `trace_id` string,
  `date` date,
  `run` string
)
using parquet
partitioned by (`date`, `run`)
location 's3a://BUCKET/archive/r';
