-- The recordings as tables, for DuckDB. First set their location:
--
--   SET VARIABLE recordings = '/recordings';
--
-- This file reads nothing; a query on a view reads only the columns that it needs. A part that is still being
-- written is not a Parquet file yet, and is not read.

CREATE OR REPLACE TEMPORARY VIEW host_samples AS
SELECT * FROM read_parquet(
    getvariable('recordings') || '/cluster=*/broker=*/date=*/*/host_samples/*.parquet',
    hive_partitioning = true, hive_types_autocast = false, union_by_name = true);

-- When hosts were sampled, and in which recording: every sample of a host has the metric cpu_count.
CREATE OR REPLACE TEMPORARY VIEW samplings AS
SELECT cluster, broker, date, string_split(filename, '/')[-3] AS recording, start_ns, end_ns
FROM read_parquet(
    getvariable('recordings') || '/cluster=*/broker=*/date=*/*/host_samples/*.parquet',
    hive_partitioning = true, hive_types_autocast = false, union_by_name = true, filename = true)
WHERE scope = 'host' AND metric = 'cpu_count';

-- When recordings started and ended; ended_ns is null for one that was not finished.
CREATE OR REPLACE TEMPORARY VIEW manifests AS
SELECT cluster, broker, date, string_split(filename, '/')[-2] AS recording, started_ns, ended_ns
FROM read_json(
    getvariable('recordings') || '/cluster=*/broker=*/date=*/*/manifest.json',
    columns = {started_ns: 'BIGINT', ended_ns: 'BIGINT'}, format = 'unstructured', records = 'true',
    hive_partitioning = true, hive_types_autocast = false, filename = true);

CREATE OR REPLACE TEMPORARY VIEW file_ops AS
SELECT * FROM read_parquet(
    getvariable('recordings') || '/cluster=*/broker=*/date=*/*/file_ops/*.parquet',
    hive_partitioning = true, hive_types_autocast = false, union_by_name = true);

CREATE OR REPLACE TEMPORARY VIEW requests AS
SELECT * FROM read_parquet(
    getvariable('recordings') || '/cluster=*/broker=*/date=*/*/requests/*.parquet',
    hive_partitioning = true, hive_types_autocast = false, union_by_name = true);

-- A row for each partition of a produce or fetch request.
CREATE OR REPLACE TEMPORARY VIEW request_partitions AS
SELECT cluster, broker, date, api_key, p['topic'] AS topic, p['topic_id'] AS topic_id, p['partition'] AS number,
       p['bytes'] AS bytes, p['error_code'] AS error_code
FROM (SELECT cluster, broker, date, api_key, unnest(partitions) AS p FROM requests WHERE api_key IN (0, 1));
