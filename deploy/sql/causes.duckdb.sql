-- Verdicts on slow requests, if `brokerscope explain DIR --save` has written them. Used like sources.duckdb.sql.

CREATE OR REPLACE TEMPORARY VIEW verdicts AS
SELECT * FROM read_parquet(
    getvariable('recordings') || '/cluster=*/broker=*/date=*/*/verdicts/*.parquet',
    hive_partitioning = true, hive_types_autocast = false, union_by_name = true);
