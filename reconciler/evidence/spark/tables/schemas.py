"""Spark schemas of the tables, derived from ``usage.tables``, and the check that a transform conforms to one.

Spark reads and writes every column of a file as nullable. So :func:`conforming` enforces for each row that required
columns have a value.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from reconciler.errors import SparkError
from reconciler.usage.tables import Column as TableColumn
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


def struct(table: Table) -> StructType:
    """Return the schema of a table, including nullability."""
    return StructType(
        [
            StructField(column.name, TYPES[column.kind], nullable=column.null)
            for column in table.columns
        ]
    )


def conforming(frame: DataFrame, table: Table) -> DataFrame:
    """Return the columns of a table in its order and with its types; other columns are dropped.

    A null in a column that is not nullable fails the job with the name of the column; no null is replaced. Only files of
    the previous schema version may lack nullable columns (``reader.of``): rows that this version computes have all.

    Raises:
        SparkError: A column is missing.
        pyspark.errors.AnalysisException: The type of a column cannot become that of the table without loss; text is
            never a number.
    """
    missing = [name for name in table.names if name not in frame.columns]
    if missing:
        raise SparkError(f"rows of {table.name} have no column {', '.join(missing)}")
    fields = [StructField(column.name, TYPES[column.kind]) for column in table.columns]
    typed = frame.to(StructType(fields))
    nullable = {field.name for field in typed.schema.fields if field.nullable}
    return typed.select(
        *(
            _required(table, column)
            if column.name in nullable and not column.null
            else fn.col(column.name)
            for column in table.columns
        )
    )


def _required(table: Table, column: TableColumn) -> Column:
    absent = fn.raise_error(fn.lit(f"{table.name}.{column.name} is null")).cast(TYPES[column.kind])
    return fn.coalesce(fn.col(column.name), absent).alias(column.name)
