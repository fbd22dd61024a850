-- The recordings as tables, for Spark SQL. First set their location, any URL that Spark reads:
--
--   SET recordings=/recordings;
--
-- This file reads nothing; a query on a view reads only the columns that it needs. A part that is still being
-- written is not a Parquet file yet, and is not read.

-- Broker names stay text, as in the folder names: 07 is not 7.
SET spark.sql.sources.partitionColumnTypeInference.enabled=false;

CREATE OR REPLACE TEMPORARY VIEW host_samples USING parquet OPTIONS (
    path '${recordings}/cluster=*/broker=*/date=*/*/host_samples', pathGlobFilter '*.parquet', basePath '${recordings}');

-- When hosts were sampled, and in which recording: every sample of a host has the metric cpu_count.
CREATE OR REPLACE TEMPORARY VIEW samplings AS
SELECT cluster, broker, date, element_at(split(input_file_name(), '/'), -3) AS recording, start_ns, end_ns
FROM host_samples
WHERE scope = 'host' AND metric = 'cpu_count';

-- When recordings started and ended; ended_ns is null for one that was not finished.
CREATE OR REPLACE TEMPORARY VIEW manifest_files (started_ns BIGINT, ended_ns BIGINT) USING json OPTIONS (
    path '${recordings}/cluster=*/broker=*/date=*/*/manifest.json', multiLine 'true', basePath '${recordings}');

CREATE OR REPLACE TEMPORARY VIEW manifests AS
SELECT cluster, broker, date, element_at(split(input_file_name(), '/'), -2) AS recording, started_ns, ended_ns
FROM manifest_files;

CREATE OR REPLACE TEMPORARY VIEW file_ops USING parquet OPTIONS (
    path '${recordings}/cluster=*/broker=*/date=*/*/file_ops', pathGlobFilter '*.parquet', basePath '${recordings}');

CREATE OR REPLACE TEMPORARY VIEW requests USING parquet OPTIONS (
    path '${recordings}/cluster=*/broker=*/date=*/*/requests', pathGlobFilter '*.parquet', basePath '${recordings}');

-- A row for each partition of a produce or fetch request.
CREATE OR REPLACE TEMPORARY VIEW request_partitions AS
SELECT cluster, broker, date, api_key, p['topic'] AS topic, p['topic_id'] AS topic_id, p['partition'] AS number,
       p['bytes'] AS bytes, p['error_code'] AS error_code
FROM (SELECT cluster, broker, date, api_key, explode(partitions) AS p FROM requests WHERE api_key IN (0, 1));
