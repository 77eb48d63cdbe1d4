"""The schema of every table, and that the rows of a transform must match theirs."""

import datetime as dt

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import StructType

from reconciler.errors import SparkError
from reconciler.evidence.spark.tables import schemas
from reconciler.usage import tables

pytestmark = pytest.mark.integration


def types_of(schema: StructType):
    return [(field.name, field.dataType) for field in schema.fields]


def hist_rows(spark: SparkSession, bucket: str = "5L", weight: str = "7L"):
    return spark.sql(
        "SELECT 'c' cluster_id, 'produce' quota_type, 'user' group_kind, 'ann' user, '' client_id, '' ip,"
        f" '1' broker_id, 'more' other, {bucket} bucket, {weight} n_dt_ms, DATE'2026-11-01' day"
    )


@pytest.mark.parametrize("table", tables.TABLES.values(), ids=lambda table: table.name)
def test_a_schema_has_the_columns_of_its_table_in_order_with_their_nullability(
    table: tables.Table,
) -> None:
    schema = schemas.struct(table)
    assert tuple(schema.names) == table.names
    assert [field.nullable for field in schema.fields] == [column.null for column in table.columns]


def test_rows_are_ordered_cast_and_stripped_of_other_columns(spark: SparkSession) -> None:
    frame = schemas.conforming(hist_rows(spark), tables.USAGE_HIST_D)
    assert types_of(frame.schema) == types_of(schemas.struct(tables.USAGE_HIST_D))
    assert frame.collect()[0]["day"] == dt.date(2026, 11, 1)


def test_a_null_in_a_required_column_fails_the_job_with_its_name(
    spark: SparkSession,
) -> None:
    maybe = hist_rows(spark, weight="IF(rand() < 2, 7L, NULL)")
    frame = schemas.conforming(maybe, tables.USAGE_HIST_D)
    assert frame.collect()[0]["n_dt_ms"] == 7
    null = hist_rows(spark, weight="IF(rand() < 2, NULL, 7L)")
    with pytest.raises(PySparkException, match=r"usage_hist_d\.n_dt_ms is null"):
        schemas.conforming(null, tables.USAGE_HIST_D).collect()


def test_a_missing_column_and_one_of_another_type_are_named(spark: SparkSession) -> None:
    with pytest.raises(SparkError, match=r"usage_hist_d have no column broker_id$"):
        schemas.conforming(hist_rows(spark).drop("broker_id"), tables.USAGE_HIST_D)
    nullable = [column.name for column in tables.BROKER_SAMPLE.columns if column.null]
    rows = spark.createDataFrame([], schemas.struct(tables.BROKER_SAMPLE)).drop(*nullable)
    with pytest.raises(SparkError, match=", ".join(nullable)):
        schemas.conforming(rows, tables.BROKER_SAMPLE)
    with pytest.raises(PySparkException, match="n_dt_ms"):
        schemas.conforming(hist_rows(spark, weight="'7'"), tables.USAGE_HIST_D)


def test_a_number_too_large_for_its_column_fails_instead_of_overflowing(
    spark: SparkSession,
) -> None:
    with pytest.raises(PySparkException, match="CAST_OVERFLOW"):
        schemas.conforming(hist_rows(spark, bucket="3000000000L"), tables.USAGE_HIST_D).collect()


def test_an_absent_value_needs_no_type(spark: SparkSession) -> None:
    empty = (
        spark.range(1)
        .select(
            *(
                (fn.lit(None) if column.null else fn.lit(0).cast(schemas.TYPES[column.kind]))
                if column.kind not in (tables.ColumnKind.DAY, tables.ColumnKind.TEXTS)
                else fn.lit(dt.date(2026, 1, 1))
                for column in tables.BROKER_SAMPLE.columns
            )
        )
        .toDF(*tables.BROKER_SAMPLE.names)
    )
    schema = schemas.conforming(empty, tables.BROKER_SAMPLE).schema
    assert types_of(schema) == types_of(schemas.struct(tables.BROKER_SAMPLE))
