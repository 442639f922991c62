-- The archive in Trino, by its Hive connector. Write it with the exporter's setting layout: hive, and copy it to an object store.
-- Columns are found by name (hive.parquet.use-column-names, the default). run is a partition, so it is no column of the files here.
-- When new partitions have come: call hive.system.sync_partition_metadata('kernhes', 'k', 'ADD');

create table hive.kernhes.k (
  "rank" bigint,
  "device" bigint,
  "session" varchar,
  "seq" bigint,
  "occurrence" bigint,
  "program" varchar,
  "call" varchar,
  "op" varchar,
  "group" varchar,
  "group_source" varchar,
  "bytes" bigint,
  "kernel" varchar,
  "symbol" varchar,
  "class" varchar,
  "fused" boolean,
  "start_ns" bigint,
  "dur_ns" bigint,
  "stream" bigint,
  "graph_node_id" bigint,
  "correlation_id" bigint,
  "grid_x" bigint,
  "grid_y" bigint,
  "grid_z" bigint,
  "block_x" bigint,
  "block_y" bigint,
  "block_z" bigint,
  "pos" bigint,
  "date" date,
  "run" varchar
)
with (
  format = 'PARQUET',
  external_location = 's3://BUCKET/archive/k',
  partitioned_by = array['date', 'run']
);

create table hive.kernhes.s (
  "rank" bigint,
  "device" bigint,
  "session" varchar,
  "seq" bigint,
  "occurrence" bigint,
  "pairs" boolean,
  "program" varchar,
  "text" varchar,
  "vars" varchar,
  "group" varchar,
  "seqs" bigint,
  "tokens" bigint,
  "kv" bigint,
  "start_ns" bigint,
  "end_ns" bigint,
  "compute_ns" bigint,
  "comm_ns" bigint,
  "overlap_ns" bigint,
  "idle_ns" bigint,
  "foreign_compute_ns" bigint,
  "kernels" bigint,
  "complete" boolean,
  "reason" varchar,
  "host" varchar,
  "gpu" varchar,
  "gpu_name" varchar,
  "model" varchar,
  "engine" varchar,
  "version" varchar,
  "mode" varchar,
  "traced" boolean,
  "range_start_ns" bigint,
  "range_ns" bigint,
  "thread" bigint,
  "level" bigint,
  "device_ns" bigint,
  "date" date,
  "run" varchar
)
with (
  format = 'PARQUET',
  external_location = 's3://BUCKET/archive/s',
  partitioned_by = array['date', 'run']
);

create table hive.kernhes.c (
  "rank" bigint,
  "device" bigint,
  "session" varchar,
  "seq" bigint,
  "occurrence" bigint,
  "kind" varchar,
  "bytes" bigint,
  "start_ns" bigint,
  "dur_ns" bigint,
  "stream" bigint,
  "graph_node_id" bigint,
  "correlation_id" bigint,
  "date" date,
  "run" varchar
)
with (
  format = 'PARQUET',
  external_location = 's3://BUCKET/archive/c',
  partitioned_by = array['date', 'run']
);

create table hive.kernhes.r (
  "rank" bigint,
  "device" bigint,
  "session" varchar,
  "seq" bigint,
  "occurrence" bigint,
  "start_ns" bigint,
  "request" varchar,
  "tokens" bigint,
  "cached" bigint,
  "trace_id" varchar,
  "date" date,
  "run" varchar
)
with (
  format = 'PARQUET',
  external_location = 's3://BUCKET/archive/r',
  partitioned_by = array['date', 'run']
);
