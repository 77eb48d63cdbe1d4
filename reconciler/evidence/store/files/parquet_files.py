"""Rows as Parquet files, sorted by the table's key so that readers can skip row groups; equal rows give equal bytes.

In a file, a row that repeats a string, or an item of a list, costs a bit or less. Strings are read as dictionaries, and
their size in memory is computed before they are decoded.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from reconciler.errors import LakeDamaged, LakeError
from reconciler.evidence.store.files import arrow_tables
from reconciler.usage.tables import ColumnKind, Table

ROW_GROUP: Final = 65_536
"""Rows that are read or skipped together: one day of a bucket on six brokers needs one or two row groups."""

MOST_TEXT: Final = 2**30
"""Maximum bytes of strings decoded together (a file, or a row group if read with a filter), counted once per row."""

MOST_GROUP_BYTES: Final = 2**30
"""Maximum uncompressed bytes of a row group, which is read as a whole, by the footer."""

ITEM_BYTES: Final = 64
"""Size of an item of a list in addition to its string."""

WRITE_ANEW: Final = (
    "remove the folder of this day below _units, then run ingest with --from this day, or the job that made it; evidence:"
    " --publish --rebuild"
)


def write_parquet(table: Table, rows: pa.Table) -> bytes:
    """Return the content of a Parquet file with these rows.

    Raises:
        LakeError: The rows do not fit the table.
    """
    sink = pa.BufferOutputStream()
    pq.write_table(
        in_order(table, arrow_tables.conformed(table, rows)),
        sink,
        row_group_size=ROW_GROUP,
        compression="zstd",
        use_dictionary=[column.name for column in table.columns if column.kind is ColumnKind.TEXT],
        write_statistics=True,
        write_page_index=True,
        write_page_checksum=True,
        sorting_columns=_sorting(table),
        data_page_size=1 << 20,
        version="2.6",
    )
    return bytes(sink.getvalue())


def _sorting(table: Table) -> list[pq.SortingColumn]:
    return [pq.SortingColumn(table.names.index(name)) for name in table.key]


def in_order(table: Table, rows: pa.Table) -> pa.Table:
    """Sort rows by the key of their table, then by the other columns, so that equal sets of rows have one order."""
    non_key_columns = (
        column.name
        for column in table.columns
        if column.kind is not ColumnKind.TEXTS and column.name not in table.key
    )
    keys = [
        (name, ranks)
        for name in (*table.key, *non_key_columns)
        if (ranks := _ranks(rows.column(name))) is not None
    ]
    if not keys:
        return rows
    order = pc.sort_indices(
        pa.table(dict(keys)), sort_keys=[(name, "ascending") for name, _ in keys]
    )
    return rows.take(order).combine_chunks()


def _ranks(column: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray | None:
    """Return numbers in the order of the values; ``None`` if all are equal.

    Strings repeat: sorting the distinct ones and then integers takes a fraction of the time.
    """
    if not pa.types.is_string(column.type):
        return column
    coded = column.combine_chunks().dictionary_encode()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.unify_dictionaries().combine_chunks()
    if len(coded.dictionary) < 2 and not coded.null_count:
        return None
    places = pc.sort_indices(pc.sort_indices(coded.dictionary))
    return places.take(coded.indices)


def read(
    table: Table,
    content: bytes,
    *,
    path: str,
    columns: Sequence[str] | None = None,
    row_filter: pc.Expression | None = None,
    rows: int | None = None,
) -> pa.Table:
    """Return the rows of a file.

    Args:
        content: The whole file.
        path: Its name, for errors.
        columns: Column names in this order; all by default.
        row_filter: A filter on rows; row groups that it excludes by statistics are not decoded.
        rows: Number of rows by its manifest; a file with another number is rejected before decoding.

    Raises:
        LakeError: The file is damaged, truncated, does not fit the table, or a column is unknown.
    """
    unknown = [name for name in columns or () if name not in table.names]
    if unknown:
        raise LakeError(f"{table.name} has no column {unknown[0]!r}", path=path)
    names = table.names if columns is None else tuple(columns)
    if rows is not None and (actual_rows := count(content, path)) != rows:
        raise LakeDamaged(
            f"has {actual_rows:,} rows where {rows:,} are expected", path=path, hint=WRITE_ANEW
        )
    try:
        return (
            _every_row(table, content, path, names)
            if row_filter is None
            else _some_rows(table, content, path, names, row_filter)
        )
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, error) from error


def _every_row(table: Table, content: bytes, path: str, names: Sequence[str]) -> pa.Table:
    file = _open(table, content, path)
    present = [name for name in names if name in file.schema_arrow.names]
    rows = file.read(columns=present)
    _check_size(_texts_size(rows), path)
    return arrow_tables.typed(table, rows, names, path)


def _some_rows(
    table: Table, content: bytes, path: str, names: Sequence[str], row_filter: pc.Expression
) -> pa.Table:
    import pyarrow.dataset as ds  # noqa: PLC0415 - brings pandas along, half a second that a preview has no use for

    file = _open(table, content, path)
    schema = arrow_tables.schema(table)
    fragment = ds.ParquetFileFormat().make_fragment(arrow_tables.open_content(content))
    groups = fragment.subset(row_filter, schema=schema).row_groups
    parts = [schema.empty_table().select(list(names))]
    size = 0
    for group in groups:  # One row group at a time: only rows that pass the filter stay in memory.
        rows = file.read_row_group(group.id)
        _check_size(size + _texts_size(rows), path)
        rows = arrow_tables.typed(table, rows, table.names, path).filter(row_filter)
        part = rows.select(list(names))
        size += _texts_size(part)
        parts.append(part)
    return pa.concat_tables(parts)


def _open(table: Table, content: bytes, path: str) -> pq.ParquetFile:
    file = open_parquet(arrow_tables.open_content(content))
    arrow_tables.check_columns(table, file.schema_arrow, path)
    return file


def _texts_size(rows: pa.Table) -> int:
    return sum(unpacked_size(column) for column in rows.columns)


def _check_size(size: int, path: str) -> None:
    """Raise LakeDamaged for repeated strings that would fill the memory."""
    if size > MOST_TEXT:
        raise LakeDamaged(
            f"has {size:,} bytes of text when it is unpacked; {MOST_TEXT:,} are allowed",
            path=path,
            hint=WRITE_ANEW,
        )


def count(content: bytes, path: str) -> int:
    """Return the number of rows of a file, from its footer.

    Raises:
        LakeDamaged: The file is damaged or truncated.
    """
    try:
        return int(pq.read_metadata(arrow_tables.open_content(content)).num_rows)
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, error) from error


def largest_group(metadata: pq.FileMetaData) -> tuple[int, int]:
    """Return the rows and the uncompressed bytes of the largest row groups, from the footer."""
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    return (
        max((group.num_rows for group in groups), default=0),
        max((group.total_byte_size for group in groups), default=0),
    )


def end_of(content: bytes) -> bytes:
    """Return the footer (schema, offsets, statistics), which Parquet's checksums do not cover; b"" if there is none."""
    size = int.from_bytes(content[-8:-4], "little") + 8
    return content[-size:] if content[-4:] == b"PAR1" and size <= len(content) else b""


def check_same(content: bytes, *, size: int, sha256: str, path: str) -> None:
    """Check that a file is the committed one.

    Raises:
        LakeDamaged: Its size or SHA-256 differs.
    """
    if len(content) != size:
        raise LakeDamaged(
            f"has {len(content)} bytes where {size} were committed: it was cut off or replaced",
            path=path,
            hint=WRITE_ANEW,
        )
    if hashlib.sha256(content).hexdigest() != sha256:
        raise LakeDamaged(
            "has other bytes than were committed: it was damaged or replaced",
            path=path,
            hint=WRITE_ANEW,
        )


def damaged(path: str, error: Exception) -> LakeDamaged:
    """Return the error for a file that Arrow cannot read."""
    first = str(error).strip().partition("\n")[0][:200]
    return LakeDamaged(f"is not a complete Parquet file ({first})", path=path, hint=WRITE_ANEW)


def open_parquet(source: str | pa.NativeFile) -> pq.ParquetFile:
    """Open a Parquet file with all strings read as dictionaries, also those in lists, maps and structs.

    Raises:
        pa.ArrowException: It is not a complete Parquet file.
        OSError: It cannot be read.
    """
    metadata = pq.read_metadata(source)
    leaves = [metadata.schema.column(at) for at in range(metadata.num_columns)]
    texts = [
        leaf.path
        for leaf in leaves
        if leaf.physical_type == "BYTE_ARRAY" and leaf.logical_type.type != "DECIMAL"
    ]
    if not isinstance(source, str):
        source.seek(0)
    return pq.ParquetFile(
        source, metadata=metadata, read_dictionary=texts, page_checksum_verification=True
    )


def unpacked_size(column: pa.Array | pa.ChunkedArray) -> int:
    """Return the bytes of all strings of a column, counted once per row, and of the items of lists."""
    kind = column.type
    if isinstance(column, pa.ChunkedArray):
        return sum(map(unpacked_size, column.chunks))
    if pa.types.is_dictionary(kind):
        lengths = pc.binary_length(column.dictionary).cast(pa.int64())
        return int(pc.sum(pc.take(lengths, column.indices)).as_py() or 0)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        items = column.flatten()
        return ITEM_BYTES * len(items) + unpacked_size(items)
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return int(pc.sum(pc.binary_length(column).cast(pa.int64())).as_py() or 0) if is_text else 0
