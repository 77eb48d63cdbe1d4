"""Tables as Arrow knows them: the schema of each, and rows brought into it or refused by file and column."""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.errors import LakeDamaged
from reconciler.usage.tables import SCHEMA_VERSION, Column, Kind, Table

TYPES: Final[dict[Kind, pa.DataType]] = {
    Kind.TEXT: pa.string(),
    Kind.LONG: pa.int64(),
    Kind.INT: pa.int32(),
    Kind.DOUBLE: pa.float64(),
    Kind.TRUTH: pa.bool_(),
    Kind.DAY: pa.date32(),
    Kind.TEXTS: pa.list_(pa.field("element", pa.string(), nullable=False)),
}

VERSION_KEY: Final = b"kquota.schema_version"
TABLE_KEY: Final = b"kquota.table"

ASK_FOR_WHOLE: Final = "run ingest --rebuild (samples), or the job that makes it, for this day"


def schema(table: Table) -> pa.Schema:
    """The columns of a table in order, with exact nullability; name and schema version stand in the metadata."""
    return pa.schema(
        [pa.field(one.name, TYPES[one.kind], nullable=one.null) for one in table.columns],
        metadata={TABLE_KEY: table.name.encode(), VERSION_KEY: str(SCHEMA_VERSION).encode()},
    )


def conformed(table: Table, rows: pa.Table, path: str = "") -> pa.Table:
    """The same rows with exactly the columns of a table.

    Nullable columns that are missing become null: a table of the version before has none of those that came since.
    Other spellings of one type (dictionaries, large and view texts) are taken; other types never are.

    Args:
        table: Which table.
        rows: Its rows.
        path: Where they come from, for errors.

    Raises:
        LakeDamaged: A column is missing, unknown, of another type, or null where it may not be.
    """
    check_columns(table, rows.schema, path)
    columns = [_column(one, rows, path) for one in table.columns]
    return pa.table(columns, schema=schema(table))


def check_columns(table: Table, found: pa.Schema, path: str = "") -> None:
    """Whether rows of this schema can be rows of a table.

    Raises:
        LakeDamaged: A column is missing, unknown, twice there, or of another type.
    """
    known = {one.name: one for one in table.columns}
    names = list(found.names)
    for name in names:
        if name not in known:
            raise LakeDamaged(
                f"{table.name} has no column {name!r}",
                path=path,
                hint="a newer version may have written it: upgrade kquota",
            )
        if names.count(name) > 1:
            raise LakeDamaged(f"the column {name!r} of {table.name} is there twice", path=path)
    for one in table.columns:
        if one.name not in names:
            if not one.null:
                raise LakeDamaged(
                    f"the column {one.name!r} of {table.name} is missing",
                    path=path,
                    hint=ASK_FOR_WHOLE,
                )
        elif not _is_same(found.field(one.name).type, TYPES[one.kind]):
            raise LakeDamaged(
                f"the column {one.name!r} of {table.name} is {found.field(one.name).type},"
                f" not {TYPES[one.kind]}",
                path=path,
                hint=ASK_FOR_WHOLE,
            )


def _column(one: Column, rows: pa.Table, path: str) -> pa.ChunkedArray:
    wanted = TYPES[one.kind]
    if one.name not in rows.schema.names:
        return pa.chunked_array([pa.nulls(rows.num_rows, wanted)], type=wanted)
    found = rows.column(one.name)
    holes = found.null_count
    if pa.types.is_dictionary(found.type) and not holes:
        holes = pc.sum(pc.is_null(found)).as_py() or 0  # a null may also stand in the dictionary
    if holes and not one.null:
        raise LakeDamaged(
            f"{holes} of {rows.num_rows} values in the column {one.name!r} are null, which none may be",
            path=path,
            hint=ASK_FOR_WHOLE,
        )
    if found.type.equals(wanted):
        return found
    if pa.types.is_dictionary(found.type) and not found.type.value_type.equals(wanted):
        found = found.cast(found.type.value_type)
    return found.cast(wanted)


def _is_same(found: pa.DataType, wanted: pa.DataType) -> bool:
    if bool(found.equals(wanted)):
        return True
    if pa.types.is_string(wanted):
        inner = found.value_type if pa.types.is_dictionary(found) else found
        kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
        return any(is_kind(inner) for is_kind in kinds)
    if pa.types.is_list(wanted):
        listed = bool(pa.types.is_list(found) or pa.types.is_large_list(found))
        return listed and _is_same(found.value_type, wanted.value_type)
    return False
