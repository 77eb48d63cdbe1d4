"""Rows as Parquet files, sorted by the table's key so that readers can skip row groups, and reading some row groups.

Strings are read as dictionaries, so that a repeated string costs a number.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from reconciler.errors import LakeConflict, LakeDamaged, LakeError
from reconciler.evidence.store.files import arrow_tables
from reconciler.evidence.store.files.table_reader import TableReader
from reconciler.usage.tables import ColumnKind, Table

ROW_GROUP: Final = 65_536
"""Rows that are read or skipped together: one day of a bucket on six brokers needs one or two row groups."""

MOST_GROUP_BYTES: Final = 2**30
"""Maximum uncompressed bytes of a row group, which is read as a whole, by the footer."""

WRITE_ANEW: Final = (
    "remove the file, then run ingest with --from this day, or the analysis that made it"
)

TRIES: Final = 4
"""How often a file is read that is replaced meanwhile."""

T = TypeVar("T")

Key = tuple[str, ...]
"""Values of the first columns, one string per column."""


def write_parquet(table: Table, rows: pa.Table, metadata: Mapping[str, str]) -> bytes:
    """Return the content of a Parquet file with these rows, checked by reading its footer.

    Args:
        metadata: Texts for the footer by key.

    Raises:
        LakeError: The rows do not fit the table, or the file was not written completely.
    """
    sink = pa.BufferOutputStream()
    ordered = in_order(table, arrow_tables.conformed(table, rows))
    pq.write_table(
        ordered.replace_schema_metadata(dict(metadata)),
        sink,
        row_group_size=ROW_GROUP,
        compression="zstd",
        use_dictionary=[column.name for column in table.columns if column.kind is ColumnKind.TEXT],
        write_statistics=True,
        write_page_checksum=True,
        sorting_columns=[pq.SortingColumn(table.names.index(name)) for name in table.key],
        version="2.6",
    )
    content = sink.getvalue()
    if pq.read_metadata(arrow_tables.open_content(content)).num_rows != rows.num_rows:
        raise LakeError(f"{table.name}: the file was not written completely")
    return bytes(content)


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


class TableFile:
    """A Parquet file of a table, of which the footer is read, and rows on request.

    All rows that one call returns are of one version of the file. An object in a bucket may be replaced between two
    requests: then the call begins again with the footer.
    """

    def __init__(
        self, reader: TableReader, path: str, table: Table, content: bytes | None = None
    ) -> None:
        """Read the footer.

        Args:
            content: The whole file, if it was fetched.

        Raises:
            LakeDamaged: The file is missing, truncated, does not fit its table, or has larger row groups than kquota
                writes: each is decoded as a whole.
            LakeError: It cannot be fetched.
        """
        self._reader, self._path, self._table = reader, path, table
        self._version = ""  # of an object that may be replaced while it is read
        if content is not None:
            self._open(arrow_tables.open_content(content))
        else:
            self._again(self._open_object)

    def _again(self, act: Callable[[], T]) -> T:
        """Return the result of an act on the open file; begin again with the new file if it was replaced meanwhile."""
        for attempt in range(TRIES):
            try:
                if attempt:
                    self._open_object()
                result = act()
            except LakeError:
                if not self._is_replaced():
                    raise
            else:
                if result is None or not self._is_replaced():
                    return result
        raise LakeConflict(
            "is replaced again and again while it is read", path=self.shown, hint="run it again"
        )

    def _is_replaced(self) -> bool:
        return (
            bool(self._version)
            and self._reader.version_of(self._reader.open(self._path)) != self._version
        )

    def _open_object(self) -> None:
        source = self._reader.open(self._path)
        self._version = self._reader.version_of(source)
        self._open(source)

    def _open(self, source: pa.NativeFile) -> None:
        table = self._table
        texts = [column.name for column in table.columns if column.kind is ColumnKind.TEXT]
        try:
            self._file = pq.ParquetFile(
                source, read_dictionary=texts, pre_buffer=True, page_checksum_verification=True
            )
        except (pa.ArrowException, OSError, KeyError, UnicodeDecodeError) as error:
            raise self._failed(error) from error
        metadata = self._file.metadata
        groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
        if any(
            group.num_rows > 2 * ROW_GROUP or group.total_byte_size > MOST_GROUP_BYTES
            for group in groups
        ):
            raise LakeDamaged(
                f"has row groups of more than {2 * ROW_GROUP:,} rows or {MOST_GROUP_BYTES:,} bytes",
                path=self.shown,
                hint=WRITE_ANEW,
            )
        arrow_tables.check_columns(table, self._file.schema_arrow, self.shown)
        self._groups = groups
        self._places = {metadata.schema.column(at).path: at for at in range(metadata.num_columns)}

    @property
    def shown(self) -> str:
        """Its address for display."""
        return self._reader.display_path(self._path)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self._file.metadata.num_rows)

    @property
    def texts(self) -> dict[str, str]:
        """The texts of the footer by key.

        Raises:
            LakeDamaged: One is not text.
        """
        try:
            return {
                key.decode(): value.decode()
                for key, value in (self._file.metadata.metadata or {}).items()
            }
        except UnicodeDecodeError as error:
            raise self._failed(error) from error

    @property
    def all_groups(self) -> list[int]:
        """All row groups."""
        return list(range(len(self._groups)))

    def groups(self, names: Sequence[str], keys: Sequence[Key]) -> list[int]:
        """Return the row groups that may contain one of the keys (sorted, at least one) in these columns."""
        return [at for at in self.all_groups if self._may_hold(at, names, keys)]

    def _may_hold(self, at: int, names: Sequence[str], keys: Sequence[Key]) -> bool:
        bounds: list[tuple[str, str]] = []
        for name in names:
            statistics = self._groups[at].column(self._places[name]).statistics
            if statistics is None or not statistics.has_min_max:
                break  # values of many KiB have no statistics
            bounds.append((statistics.min, statistics.max))
        least, most = tuple(low for low, _ in bounds), tuple(high for _, high in bounds)
        if keys[-1][: len(least)] < least or keys[0][: len(most)] > most:
            return False
        return len(keys) > 1_000 or any(
            all(low <= value <= high for value, (low, high) in zip(key, bounds, strict=False))
            for key in keys
        )

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Return all rows; strings are dictionaries shared by all chunks.

        Raises:
            LakeConflict: The file was replaced :data:`TRIES` times meanwhile.
            LakeError: The rows are damaged or cannot be fetched.
        """
        return self._again(lambda: self._read(columns, self.all_groups))

    def map_groups(
        self,
        columns: Sequence[str],
        work: Callable[[pa.Table], T],
        names: Sequence[str] = (),
        keys: Sequence[Key] | None = None,
    ) -> list[T]:
        """Return the result of some work on the rows of each row group; errors as for :meth:`read`.

        Args:
            work: May be called again for the same rows.
            names: The columns of ``keys``.
            keys: Only row groups that may contain one of them (sorted, at least one); all by default.
        """

        def act() -> list[T]:
            groups = self.all_groups if keys is None else self.groups(names, keys)
            return [work(self._read(columns, [at])) for at in groups]

        return self._again(act)

    def _read(self, columns: Sequence[str], groups: list[int]) -> pa.Table:
        present = [name for name in columns if name in self._file.schema_arrow.names]
        try:
            rows = self._file.read_row_groups(groups, columns=present, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise self._failed(error) from error
        return rows.unify_dictionaries()

    def _failed(self, error: Exception) -> LakeError:
        if (known_error := self._reader.known_failure(error, self._path)) is not None:
            return known_error
        if isinstance(error, KeyError):
            return LakeDamaged(
                f"has other columns than {self._table.name}", path=self.shown, hint=WRITE_ANEW
            )
        first = str(error).strip().partition("\n")[0][:200]
        return LakeDamaged(
            f"is not a complete Parquet file ({first})", path=self.shown, hint=WRITE_ANEW
        )
