-- What slow requests were slow for, where `brokerscope explain DIR --save` has written verdicts. As sources.spark.sql.

CREATE OR REPLACE TEMPORARY VIEW verdicts USING parquet OPTIONS (
    path '${recordings}/cluster=*/broker=*/date=*/*/verdicts', pathGlobFilter '*.parquet', basePath '${recordings}');
