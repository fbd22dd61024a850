-- Time of slow requests by cause, in SQL for both DuckDB and Spark. First run causes.duckdb.sql or causes.spark.sql, and
-- views.sql.

CREATE OR REPLACE TEMPORARY VIEW fleet_causes AS
SELECT sums.cluster, sums.broker, cause, requests, slow_ns / 1e6 * 60 / seconds AS slow_ms_per_minute
FROM (SELECT cluster, broker, cause, count(*) AS requests, sum(latency_ns) AS slow_ns FROM verdicts GROUP BY cluster, broker, cause)
     AS sums
JOIN fleet_seconds AS spans ON spans.cluster = sums.cluster AND spans.broker = sums.broker
ORDER BY slow_ms_per_minute DESC;
