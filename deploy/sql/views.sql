-- The results of `brokerscope fleet`, in SQL for both DuckDB and Spark. Run sources.duckdb.sql or sources.spark.sql first.
--
--   fleet_figures        one row per broker and figure
--   fleet_differences    brokers that differ from the others, and in which figure, the largest difference first
--   fleet_read_kinds     kinds of files that a broker reads from disk more than the others
--   fleet_read_files     bytes read from disk and read operations, by file
--
-- A test runs these over the recordings that `brokerscope fleet` reads, and expects the same results from both engines.

-- How long a broker was watched, and how long its host was sampled meanwhile: from the first sample, because a recorder's clock
-- starts before its sources, to the recording's end, or to the last sample if it was not finished. If the time is unknown,
-- there are no rates.
CREATE OR REPLACE TEMPORARY VIEW fleet_seconds AS
SELECT manifests.cluster, manifests.broker,
       nullif(sum(CASE WHEN started_ns > 0
                       THEN greatest(coalesce(ended_ns, last_ns, started_ns) - greatest(started_ns, coalesce(first_ns, started_ns)), 0)
                       ELSE 0 END) / 1e9, 0e0) AS seconds,
       nullif(sum(sampled_ns) / 1e9, 0e0) AS sampled_seconds
FROM manifests
LEFT JOIN (SELECT cluster, broker, date, recording, min(start_ns) AS first_ns, max(end_ns) AS last_ns,
                  sum(end_ns - start_ns) AS sampled_ns
           FROM samplings GROUP BY cluster, broker, date, recording) AS sampled
  ON sampled.cluster = manifests.cluster AND sampled.broker = manifests.broker
 AND sampled.date = manifests.date AND sampled.recording = manifests.recording
GROUP BY manifests.cluster, manifests.broker;

CREATE OR REPLACE TEMPORARY VIEW fleet_file_sums AS
SELECT cluster, broker, kind, file,
       sum(CASE WHEN op IN ('read', 'sendfile') THEN 1 ELSE 0 END) AS reads,
       sum(CAST(coalesce(disk_bytes, 0) AS BIGINT) + CAST(coalesce(readahead_bytes, 0) AS BIGINT)) AS disk_bytes,
       sum(CASE WHEN op = 'write' THEN 1 ELSE 0 END) AS writes,
       sum(CASE WHEN op = 'write' THEN latency_ns ELSE 0 END) AS write_ns,
       max(CASE WHEN op = 'write' THEN latency_ns END) AS longest_write_ns
FROM file_ops
GROUP BY cluster, broker, kind, file;

-- Requests that the devices with the broker's files served, by the devices' own counters.
CREATE OR REPLACE TEMPORARY VIEW fleet_device_sums AS
SELECT samples.cluster, samples.broker,
       sum(CASE WHEN metric = 'reads_per_second' THEN value * (end_ns - start_ns) / 1e9 ELSE 0e0 END) AS device_reads,
       sum(CASE WHEN metric = 'writes_per_second' THEN value * (end_ns - start_ns) / 1e9 ELSE 0e0 END) AS device_writes
FROM host_samples AS samples
JOIN (SELECT DISTINCT cluster, broker, device FROM file_ops) AS held
  ON held.cluster = samples.cluster AND held.broker = samples.broker AND held.device = samples.name
WHERE scope = 'device' AND metric IN ('reads_per_second', 'writes_per_second')
GROUP BY samples.cluster, samples.broker;

CREATE OR REPLACE TEMPORARY VIEW fleet_request_sums AS
SELECT cluster, broker,
       sum(CASE WHEN api_key = 0 AND latency_ns >= 100000000 THEN 1 ELSE 0 END) AS slow_produce
FROM requests
GROUP BY cluster, broker;

CREATE OR REPLACE TEMPORARY VIEW fleet_partition_sums AS
SELECT cluster, broker,
       sum(CASE WHEN api_key = 1 THEN CAST(bytes AS BIGINT) ELSE 0 END) AS sent_bytes,
       sum(CASE WHEN api_key = 0 THEN CAST(bytes AS BIGINT) ELSE 0 END) AS produced_bytes,
       sum(CASE WHEN api_key = 0 THEN 1 ELSE 0 END) AS batches,
       count(DISTINCT CASE WHEN api_key = 0 AND coalesce(error_code, 0) = 0
                           THEN concat(coalesce(topic, topic_id), '-', CAST(number AS STRING)) END) AS partitions_led
FROM request_partitions
GROUP BY cluster, broker;

-- The smallest deviation that counts, by figure.
CREATE OR REPLACE TEMPORARY VIEW fleet_floors AS
SELECT figure, CAST(smallest AS DOUBLE) AS smallest
FROM (VALUES ('device_reads_per_second', 20.0), ('device_writes_per_second', 20.0), ('reads_per_second', 20.0),
             ('disk_read_bytes_per_second', 300000.0), ('sent_bytes_per_second', 300000.0),
             ('produced_bytes_per_second', 300000.0), ('write_ms', 0.3), ('longest_write_ms', 30.0),
             ('batch_bytes', 300.0), ('partitions_led', 3.0), ('slow_produce_per_minute', 2.0),
             ('slow_ms_per_minute', 300.0)) AS floors (figure, smallest);

-- One row per broker.
CREATE OR REPLACE TEMPORARY VIEW fleet_sums AS
SELECT spans.cluster, spans.broker, seconds, sampled_seconds, device_reads, device_writes, reads, disk_bytes, writes, write_ns, longest_write_ns,
       slow_produce, sent_bytes, produced_bytes, batches, partitions_led
FROM fleet_seconds AS spans
LEFT JOIN fleet_device_sums AS devices ON devices.cluster = spans.cluster AND devices.broker = spans.broker
LEFT JOIN (SELECT cluster, broker, sum(reads) AS reads, sum(disk_bytes) AS disk_bytes, sum(writes) AS writes,
                  sum(write_ns) AS write_ns, max(longest_write_ns) AS longest_write_ns
           FROM fleet_file_sums GROUP BY cluster, broker) AS files
  ON files.cluster = spans.cluster AND files.broker = spans.broker
LEFT JOIN fleet_request_sums AS sums ON sums.cluster = spans.cluster AND sums.broker = spans.broker
LEFT JOIN fleet_partition_sums AS parts ON parts.cluster = spans.cluster AND parts.broker = spans.broker;

-- A figure that cannot be computed from the recorded data has no row.
CREATE OR REPLACE TEMPORARY VIEW fleet_figures AS
SELECT cluster, broker, figure, value, smallest
FROM (SELECT cluster, broker, figure, smallest,
             CASE figure
                 WHEN 'device_reads_per_second' THEN device_reads / sampled_seconds
                 WHEN 'device_writes_per_second' THEN device_writes / sampled_seconds
                 WHEN 'reads_per_second' THEN reads / seconds
                 WHEN 'disk_read_bytes_per_second' THEN disk_bytes / seconds
                 WHEN 'sent_bytes_per_second'
                     THEN CASE WHEN slow_produce IS NOT NULL THEN coalesce(sent_bytes, 0) / seconds END
                 WHEN 'produced_bytes_per_second'
                     THEN CASE WHEN slow_produce IS NOT NULL THEN coalesce(produced_bytes, 0) / seconds END
                 WHEN 'write_ms' THEN write_ns / 1e6 / nullif(writes, 0)
                 WHEN 'longest_write_ms' THEN longest_write_ns / 1e6
                 WHEN 'batch_bytes' THEN produced_bytes * 1e0 / nullif(batches, 0)
                 WHEN 'partitions_led'
                     THEN CASE WHEN slow_produce IS NOT NULL THEN coalesce(partitions_led, 0) * 1e0 END
                 WHEN 'slow_produce_per_minute' THEN slow_produce * 60 / seconds
             END AS value
      FROM fleet_sums CROSS JOIN fleet_floors) AS figures
WHERE value IS NOT NULL;

CREATE OR REPLACE TEMPORARY VIEW fleet_medians AS
SELECT cluster, broker, figure, value, smallest, median(value) OVER (PARTITION BY cluster, figure) AS median,
       count(*) OVER (PARTITION BY cluster, figure) AS brokers
FROM fleet_figures;

-- The median distance from the median, and the size of one deviation.
CREATE OR REPLACE TEMPORARY VIEW fleet_deviations AS
SELECT cluster, broker, figure, value, median, mad, brokers,
       greatest(1.4826 * mad, 0.1 * abs(median), smallest) AS deviation
FROM (SELECT cluster, broker, figure, value, smallest, median, brokers,
             median(abs(value - median)) OVER (PARTITION BY cluster, figure) AS mad
      FROM fleet_medians) AS distances;

CREATE OR REPLACE TEMPORARY VIEW fleet_differences AS
SELECT cluster, broker, figure, value, median, mad, brokers, abs(value - median) / deviation AS score
FROM fleet_deviations
WHERE brokers >= 4 AND abs(value - median) > 3.5 * deviation
ORDER BY score DESC;

CREATE OR REPLACE TEMPORARY VIEW fleet_read_files AS
SELECT sums.cluster, sums.broker, kind, file, disk_bytes / seconds AS disk_read_bytes_per_second, reads / seconds AS reads_per_second
FROM fleet_file_sums AS sums JOIN fleet_seconds AS spans ON spans.cluster = sums.cluster AND spans.broker = sums.broker
ORDER BY disk_read_bytes_per_second DESC;

-- For each broker, every kind of file that any broker of its cluster has: a kind that a broker lacks counts as zero.
CREATE OR REPLACE TEMPORARY VIEW fleet_read_kinds AS
SELECT cluster, broker, kind, value, median, value - median AS more_than_others
FROM (SELECT cluster, broker, kind, value, median(value) OVER (PARTITION BY cluster, kind) AS median
      FROM (SELECT brokers.cluster, brokers.broker, kinds.kind, coalesce(sum(disk_read_bytes_per_second), 0e0) AS value
            FROM fleet_seconds AS brokers
            JOIN (SELECT DISTINCT cluster, kind FROM fleet_file_sums) AS kinds ON kinds.cluster = brokers.cluster
            LEFT JOIN fleet_read_files AS files
              ON files.cluster = brokers.cluster AND files.broker = brokers.broker AND files.kind = kinds.kind
            GROUP BY brokers.cluster, brokers.broker, kinds.kind) AS amounts) AS medians
ORDER BY more_than_others DESC;
