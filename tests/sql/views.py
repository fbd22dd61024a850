"""Runs deploy/sql over recordings in one engine and prints the rows of the views, one JSON object per line. Checks nothing."""

import json
import os
import sys
from pathlib import Path

VIEWS = ["fleet_figures", "fleet_differences", "fleet_read_kinds", "fleet_read_files", "fleet_causes"]


def statements(path):
    """The statements of a file. Assumes that no string literal contains a semicolon or two dashes."""
    lines = [line.split("--", 1)[0] for line in path.read_text().splitlines()]
    return [statement.strip() for statement in "\n".join(lines).split(";") if statement.strip()]


def open_store(connection):
    """Connects as in docs/how-to/buckets.md, with the settings that brokerscope reads; the extension is in a separate package."""
    import duckdb_extension_httpfs

    extension = next(Path(duckdb_extension_httpfs.__file__).parent.rglob("httpfs.duckdb_extension"))
    connection.execute("LOAD '%s'" % extension)
    key, secret = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
    endpoint = os.environ["AWS_ENDPOINT_URL"].removeprefix("http://")
    where = "ENDPOINT '%s', URL_STYLE 'path', USE_SSL false" % endpoint
    connection.execute("CREATE SECRET (TYPE s3, KEY_ID '%s', SECRET '%s', REGION 'us-east-1', %s)" % (key, secret, where))


def duckdb_rows(sql, recordings):
    import duckdb

    connection = duckdb.connect()
    if recordings.startswith("s3://"):
        open_store(connection)
    connection.execute("SET VARIABLE recordings = '%s'" % recordings.replace("'", "''"))
    for name in ["sources.duckdb.sql", "views.sql", "causes.duckdb.sql", "causes.sql"]:
        for statement in statements(sql / name):
            connection.execute(statement)
    for view in VIEWS:
        found = connection.execute("SELECT * FROM " + view)
        names = [column[0] for column in found.description]
        for row in found.fetchall():
            yield {"view": view, **dict(zip(names, row))}


def spark_rows(sql, recordings):
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        # For a few thousand rows, compiling and replanning would take longer than everything else.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    spark.sql("SET recordings=" + recordings)
    for name in ["sources.spark.sql", "views.sql", "causes.spark.sql", "causes.sql"]:
        for statement in statements(sql / name):
            spark.sql(statement)
    for view in VIEWS:
        for row in spark.sql("SELECT * FROM " + view).collect():
            yield {"view": view, **row.asDict()}
    spark.stop()


def main():
    engine, sql, recordings = sys.argv[1:]
    rows = {"duckdb": duckdb_rows, "spark": spark_rows}[engine]
    for row in rows(Path(sql), recordings):
        print(json.dumps(row, default=float))


main()
