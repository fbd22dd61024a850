-- Verdicts on slow requests, if `brokerscope explain DIR --save` has written them. Used like sources.spark.sql.

CREATE OR REPLACE TEMPORARY VIEW verdicts USING parquet OPTIONS (
    path '${recordings}/cluster=*/broker=*/date=*/*/verdicts', pathGlobFilter '*.parquet', basePath '${recordings}');
