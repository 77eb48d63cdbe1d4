"""Spark's schemas of the tables, made from ``usage.tables``, and the check that a transform keeps to one.

Spark reads every column of a file as nullable, whatever the file says. So nullability is restored, and enforced row
by row, where a transform ends: :func:`conforming`.
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

from reconciler.usage.tables import Kind, Table

TYPES: Final[dict[Kind, DataType]] = {
    Kind.TEXT: StringType(),
    Kind.LONG: LongType(),
    Kind.INT: IntegerType(),
    Kind.DOUBLE: DoubleType(),
    Kind.TRUTH: BooleanType(),
    Kind.DAY: DateType(),
    Kind.TEXTS: ArrayType(StringType(), containsNull=False),
}

_EMPTY: Final[dict[Kind, str]] = {
    Kind.TEXT: "''",
    Kind.LONG: "0L",
    Kind.INT: "0",
    Kind.DOUBLE: "0D",
    Kind.TRUTH: "false",
    Kind.DAY: "DATE'1970-01-01'",
    Kind.TEXTS: "CAST(array() AS ARRAY<STRING>)",
}
"""A value of each kind; it is never seen, but an expression that ends with it cannot be null."""

_CASTS: Final[dict[type[DataType], tuple[type[DataType], ...]]] = {
    LongType: (ByteType, ShortType, IntegerType),
    IntegerType: (ByteType, ShortType, LongType),  # ANSI: what does not fit is an error of the job
    DoubleType: (FloatType,),
}
"""What may be cast to what. Anything else is a mistake of the transform and not for a cast to hide."""


def struct(table: Table) -> StructType:
    """The schema of a table, nullability included."""
    return StructType(
        [StructField(one.name, TYPES[one.kind], nullable=one.null) for one in table.columns]
    )


def conforming(frame: DataFrame, table: Table) -> DataFrame:
    """The columns of a table, in its order, with its types and its nullability; other columns are dropped.

    A null where the table allows none fails the job, and names the column; nothing is replaced.

    Raises:
        TypeError: A column is missing or has another type.
    """
    found = {one.name: one.dataType for one in frame.schema.fields}
    nullable = {one.name for one in frame.schema.fields if one.nullable}
    wrong: list[str] = []
    columns: list[Column] = []
    for one in table.columns:
        wanted = TYPES[one.kind]
        has = found.get(one.name)
        if has is None or not _fits(has, wanted, null=one.null):
            wrong.append(
                f"{one.name} must be {wanted.simpleString()}, not"
                f" {'missing' if has is None else has.simpleString()}"
            )
            continue
        column = fn.col(f"`{one.name}`")
        if not _same(has, wanted):
            column = column.cast(wanted)
        if one.name in nullable and not one.null:
            column = _present(column, f"{table.name}.{one.name}", one.kind)
        columns.append(column.alias(one.name))
    if wrong:
        raise TypeError(f"rows of {table.name}: {'; '.join(wrong)}")
    return frame.select(*columns)


def _present(column: Column, name: str, kind: Kind) -> Column:
    """The column, or an error of the job. Spark drops the rest of ``coalesce`` after what cannot be null."""
    absent = fn.raise_error(fn.lit(f"{name} is null")).cast(TYPES[kind])
    return fn.coalesce(column, absent, fn.expr(_EMPTY[kind]))


def _same(has: DataType, wanted: DataType) -> bool:
    if isinstance(has, ArrayType) and isinstance(wanted, ArrayType):
        return type(has.elementType) is type(wanted.elementType)
    return type(has) is type(wanted)


def _fits(has: DataType, wanted: DataType, *, null: bool) -> bool:
    if _same(has, wanted):
        return True
    if isinstance(has, NullType):
        return null
    return isinstance(has, _CASTS.get(type(wanted), ()))
