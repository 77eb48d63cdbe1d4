"""Arrow schemas of the tables; converts rows to them or rejects them with file and column."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.errors import LakeDamaged
from reconciler.usage.tables import Column, ColumnKind, Table

TYPES: Final[dict[ColumnKind, pa.DataType]] = {
    ColumnKind.TEXT: pa.string(),
    ColumnKind.LONG: pa.int64(),
    ColumnKind.INT: pa.int32(),
    ColumnKind.DOUBLE: pa.float64(),
    ColumnKind.TRUTH: pa.bool_(),
    ColumnKind.DAY: pa.date32(),
    ColumnKind.TEXTS: pa.list_(pa.field("element", pa.string(), nullable=False)),
}

ASK_FOR_WHOLE: Final = "run ingest with --from this day (samples), or the job that makes it"


def open_content(content: bytes | pa.Buffer) -> pa.BufferReader:
    """Return a reader of a buffer of Arrow, or of a copy of the bytes in Arrow's own memory.

    Threads of Arrow's pools may release the memory of a reader after the call that used it has returned. For memory
    owned by Python they need the interpreter, and a process that exits meanwhile is aborted
    (https://github.com/apache/arrow/issues/36389).
    """
    if isinstance(content, pa.Buffer):
        return pa.BufferReader(content)
    buffer = pa.allocate_buffer(len(content))
    memoryview(buffer).cast("B")[:] = content
    return pa.BufferReader(buffer)


def schema(table: Table) -> pa.Schema:
    """Return the columns of a table in order, with exact nullability."""
    return pa.schema(
        [
            pa.field(column.name, TYPES[column.kind], nullable=column.null)
            for column in table.columns
        ]
    )


def conformed(table: Table, rows: pa.Table, path: str = "") -> pa.Table:
    """Return the same rows with exactly the columns of a table.

    Missing nullable columns become null: the previous schema version lacks columns added later. Other encodings of the
    same type (dictionaries, large strings, string views) are accepted; other types are not.

    Raises:
        LakeDamaged: A column is missing, unknown, of another type, or null where nulls are not allowed.
    """
    check_columns(table, rows.schema, path)
    return typed(table, rows, table.names, path)


def typed(table: Table, rows: pa.Table, names: Sequence[str], path: str) -> pa.Table:
    """Return some columns of rows that fit a table (:func:`check_columns`), in this order, with its types.

    Raises:
        LakeDamaged: A value is null where nulls are not allowed.
    """
    columns_by_name = {column.name: column for column in table.columns}
    expected = schema(table)
    fields = [expected.field(name) for name in names]
    columns = [_column(columns_by_name[name], rows, path) for name in names]
    return pa.table(columns, schema=pa.schema(fields))


def check_columns(table: Table, actual_schema: pa.Schema, path: str = "") -> None:
    """Check that rows of a schema fit a table.

    Raises:
        LakeDamaged: A column is missing, unknown, duplicated, or of another type.
    """
    columns_by_name = {column.name: column for column in table.columns}
    names = list(actual_schema.names)
    for name in names:
        if name not in columns_by_name:
            raise LakeDamaged(
                f"{table.name} has no column {name!r}",
                path=path,
                hint="a newer version may have written it: upgrade kquota",
            )
        if names.count(name) > 1:
            raise LakeDamaged(f"duplicate column {name!r} of {table.name}", path=path)
    for column in table.columns:
        if column.name not in names:
            if not column.null:
                raise LakeDamaged(
                    f"the column {column.name!r} of {table.name} is missing",
                    path=path,
                    hint=ASK_FOR_WHOLE,
                )
        elif not _is_same(actual_schema.field(column.name).type, TYPES[column.kind]):
            raise LakeDamaged(
                f"the column {column.name!r} of {table.name} is {actual_schema.field(column.name).type},"
                f" not {TYPES[column.kind]}",
                path=path,
                hint=ASK_FOR_WHOLE,
            )


def check_no_nulls(rows: pa.Table, names: Sequence[str], path: str) -> None:
    """Check that some columns have a value in each row.

    Raises:
        LakeDamaged: A value is null.
    """
    for name in names:
        values = rows.column(name)
        holes = values.null_count
        if pa.types.is_dictionary(values.type) and not holes:
            # The dictionary may contain a null, too.
            holes = pc.sum(pc.is_null(values)).as_py() or 0
        if holes:
            raise LakeDamaged(
                f"{holes} of {rows.num_rows} values in the column {name!r} are null, which none may be",
                path=path,
                hint=ASK_FOR_WHOLE,
            )


def _column(column: Column, rows: pa.Table, path: str) -> pa.ChunkedArray:
    expected_type = TYPES[column.kind]
    if column.name not in rows.schema.names:
        return pa.chunked_array([pa.nulls(rows.num_rows, expected_type)], type=expected_type)
    values = rows.column(column.name)
    if not column.null:
        check_no_nulls(rows, (column.name,), path)
    if values.type.equals(expected_type):
        return values
    if pa.types.is_dictionary(values.type) and not values.type.value_type.equals(expected_type):
        values = values.cast(values.type.value_type)
    return values.cast(expected_type)


def _is_same(actual: pa.DataType, expected: pa.DataType) -> bool:
    if bool(actual.equals(expected)):
        return True
    if pa.types.is_string(expected):
        inner = actual.value_type if pa.types.is_dictionary(actual) else actual
        kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
        return any(is_kind(inner) for is_kind in kinds)
    if pa.types.is_list(expected):
        is_list = bool(pa.types.is_list(actual) or pa.types.is_large_list(actual))
        return is_list and _is_same(actual.value_type, expected.value_type)
    return False
