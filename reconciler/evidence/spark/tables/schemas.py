"""Spark schemas of the tables, derived from ``usage.tables``, and the check that a transform conforms to one.

Spark reads every column of a file as nullable. So :func:`conforming` restores nullability at the end of a transform, and
enforces it for each row.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from reconciler.usage.tables import ColumnKind, Table

TYPES: Final[dict[ColumnKind, DataType]] = {
    ColumnKind.TEXT: StringType(),
    ColumnKind.LONG: LongType(),
    ColumnKind.INT: IntegerType(),
    ColumnKind.DOUBLE: DoubleType(),
    ColumnKind.TRUTH: BooleanType(),
    ColumnKind.DAY: DateType(),
    ColumnKind.TEXTS: ArrayType(StringType(), containsNull=False),
}

_EMPTY: Final[dict[ColumnKind, str]] = {
    ColumnKind.TEXT: "''",
    ColumnKind.LONG: "0L",
    ColumnKind.INT: "0",
    ColumnKind.DOUBLE: "0D",
    ColumnKind.TRUTH: "false",
    ColumnKind.DAY: "DATE'1970-01-01'",
    ColumnKind.TEXTS: "CAST(array() AS ARRAY<STRING>)",
}
"""A value of each kind; it never appears, but an expression that ends with it is not nullable."""

_CASTS: Final[dict[type[DataType], tuple[type[DataType], ...]]] = {
    LongType: (ByteType, ShortType, IntegerType),
    IntegerType: (ByteType, ShortType, LongType),  # in ANSI mode, overflow is an error of the job
    DoubleType: (FloatType,),
}
"""The allowed casts, from the types of the value to the type of the key. Any other cast would hide a mistake of the transform."""


def struct(table: Table) -> StructType:
    """Return the schema of a table, including nullability."""
    return StructType(
        [
            StructField(column.name, TYPES[column.kind], nullable=column.null)
            for column in table.columns
        ]
    )


def conforming(frame: DataFrame, table: Table) -> DataFrame:
    """Return the columns of a table in its order, with its types and nullability; other columns are dropped.

    A null in a column that is not nullable fails the job with the name of the column; no null is replaced.

    Raises:
        TypeError: A column is missing or has another type.
    """
    actual_types = {
        struct_field.name: struct_field.dataType for struct_field in frame.schema.fields
    }
    nullable = {struct_field.name for struct_field in frame.schema.fields if struct_field.nullable}
    wrong: list[str] = []
    columns: list[Column] = []
    for table_column in table.columns:
        expected_type = TYPES[table_column.kind]
        has = actual_types.get(table_column.name)
        if has is None or not _fits(has, expected_type, null=table_column.null):
            wrong.append(
                f"{table_column.name} must be {expected_type.simpleString()}, not"
                f" {'missing' if has is None else has.simpleString()}"
            )
            continue
        column = fn.col(f"`{table_column.name}`")
        if not _same(has, expected_type):
            column = column.cast(expected_type)
        if table_column.name in nullable and not table_column.null:
            column = _present(column, f"{table.name}.{table_column.name}", table_column.kind)
        columns.append(column.alias(table_column.name))
    if wrong:
        raise TypeError(f"rows of {table.name}: {'; '.join(wrong)}")
    return frame.select(*columns)


def _present(column: Column, name: str, kind: ColumnKind) -> Column:
    """Return the column, raising an error of the job on null. Spark drops the rest of ``coalesce`` after a non-null expression."""
    absent = fn.raise_error(fn.lit(f"{name} is null")).cast(TYPES[kind])
    return fn.coalesce(column, absent, fn.expr(_EMPTY[kind]))


def _same(has: DataType, expected: DataType) -> bool:
    if isinstance(has, ArrayType) and isinstance(expected, ArrayType):
        return type(has.elementType) is type(expected.elementType)
    return type(has) is type(expected)


def _fits(has: DataType, expected: DataType, *, null: bool) -> bool:
    if _same(has, expected):
        return True
    if isinstance(has, NullType):
        return null
    return isinstance(has, _CASTS.get(type(expected), ()))
