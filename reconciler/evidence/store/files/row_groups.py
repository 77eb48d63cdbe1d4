"""Reads some row groups of a large file by byte ranges, with checksums, and only those that match by statistics."""

import hashlib
import io
from collections.abc import Collection, Iterator, Sequence
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from reconciler.errors import LakeDamaged, LakeError
from reconciler.evidence.store.files import arrow_tables, parquet_files
from reconciler.evidence.store.manifest import UnitFile
from reconciler.usage.tables import ColumnKind, Table

TAIL: Final = 1 << 18
"""Bytes fetched at first from the end of a file: contains the footer unless it has thousands of row groups."""

LARGEST_GAP: Final = 1 << 16
"""Maximum gap between two column chunks that are fetched in one request, because another request would cost more."""

SearchKeys = Collection[tuple[str, ...]]
"""Requested values of the first columns, one string per column."""


class RangeReader(Protocol):
    """The part of a store that reads files by ranges; :class:`~reconciler.evidence.store.files.object_store.FileStore` satisfies it."""

    def display_path(self, path: str) -> str:
        """Return the address of a file for display."""
        ...

    def get_range(self, path: str, start: int, end: int) -> bytes:
        """Return a byte range of a file, ``end`` exclusive; shorter if the file ends before.

        Raises:
            LakeDamaged: The file does not exist or ends before ``start``.
            LakeError: The file cannot be read.
        """
        ...


class _RangeFile(io.RawIOBase):
    """A file of a store as a Python file object; its end is cached, because Parquet readers start there.

    Arrow may use it on the calling thread only. A thread of Arrow's pools that calls Python while the interpreter exits
    aborts the process (https://github.com/apache/arrow/issues/36389).
    """

    def __init__(self, store: RangeReader, path: str, size: int) -> None:
        super().__init__()
        self._store, self._path, self._size = store, path, size
        self._at = 0
        self._tail_from = max(0, size - TAIL)
        self._tail = store.get_range(path, self._tail_from, size)
        self._blocks: list[tuple[int, bytes]] = []
        self.failed: LakeError | None = None

    def fetch(self, ranges: Collection[tuple[int, int]]) -> None:
        """Fetch byte ranges (start, end), merged over small gaps; replaces the ranges fetched before."""
        self._blocks = []
        spans: list[tuple[int, int]] = []
        for start, end in sorted(ranges):
            if start < 0:
                continue  # a damaged footer; Arrow reports the fault when it reads there
            if start >= self._tail_from:
                break
            if spans and start - spans[-1][1] <= LARGEST_GAP:
                spans[-1] = spans[-1][0], max(end, spans[-1][1])
            else:
                spans.append((start, end))
        self._blocks = [(start, self._range(start, end)) for start, end in spans]

    def _range(self, start: int, end: int) -> bytes:
        try:
            return self._store.get_range(self._path, start, end)
        except LakeError as error:
            self.failed = error  # Arrow replaces it with its own error, without our message
            raise OSError(str(error)) from error

    def end(self) -> bytes:
        """Return the footer as :func:`parquet_files.end_of` does; it is cached completely from then on."""
        size = int.from_bytes(self._tail[-8:-4], "little") + 8
        begin = self._size - size
        if 0 <= begin < self._tail_from:
            self._tail = self._store.get_range(self._path, begin, self._size)
            self._tail_from = begin
        return parquet_files.end_of(self._tail)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = begin + offset
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        end = self._size if size is None or size < 0 else min(self._at + size, self._size)
        content = self._fetched(end)
        if content is None:
            content = self._range(self._at, end)
        self._at += len(content)
        return content

    def _fetched(self, end: int) -> bytes | None:
        for start, block in (*self._blocks, (self._tail_from, self._tail)):
            if start <= self._at and end <= start + len(block):
                return block[self._at - start : end - start]
        return None


class RowGroupFile:
    """A Parquet file of which the footer is read and rows are read on request."""

    def __init__(
        self,
        store: RangeReader,
        file: UnitFile,
        table: Table,
        end_sha256: str = "",
    ) -> None:
        """Read the footer.

        Args:
            store: The store that contains the file.
            end_sha256: SHA-256 of the footer, if known: modified statistics would hide rows.

        Raises:
            LakeDamaged: The file is missing, truncated, damaged, does not fit its table, or has larger row groups than
                kquota writes: each is decoded as a whole.
            LakeError: It cannot be fetched.
        """
        self._shown = store.display_path(file.path)
        self._table = table
        self._ranges = _RangeFile(store, file.path, file.size)
        if end_sha256 and hashlib.sha256(self._ranges.end()).hexdigest() != end_sha256:
            raise LakeDamaged(
                "is not a complete Parquet file, or not the one that was written",
                path=self._shown,
                hint=parquet_files.WRITE_ANEW,
            )
        texts = [column.name for column in table.columns if column.kind is ColumnKind.TEXT]
        try:
            self._file = pq.ParquetFile(
                pa.PythonFile(self._ranges, mode="r"),
                read_dictionary=texts,
                pre_buffer=False,
                page_checksum_verification=True,
            )
        except (pa.ArrowException, OSError, KeyError, UnicodeDecodeError) as error:
            raise self._failed(error) from error
        metadata = self._file.metadata
        if metadata.num_rows != file.rows:
            raise LakeDamaged(
                f"has {metadata.num_rows} rows where {file.rows} are expected",
                path=self._shown,
                hint=parquet_files.WRITE_ANEW,
            )
        rows, size = parquet_files.largest_group(metadata)
        if rows > 2 * parquet_files.ROW_GROUP or size > parquet_files.MOST_GROUP_BYTES:
            raise LakeDamaged(
                f"has row groups of up to {rows:,} rows and {size:,} bytes; {2 * parquet_files.ROW_GROUP:,} rows and"
                f" {parquet_files.MOST_GROUP_BYTES:,} bytes are allowed",
                path=self._shown,
                hint=parquet_files.WRITE_ANEW,
            )
        arrow_tables.check_columns(table, self._file.schema_arrow, self._shown)
        self._places = {metadata.schema.column(at).path: at for at in range(metadata.num_columns)}
        self._leaves: dict[str, list[int]] = {}  # the leaf of a list column is NAME.list.element
        for path, at in self._places.items():
            self._leaves.setdefault(path.partition(".")[0], []).append(at)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self._file.metadata.num_rows)

    @property
    def row_groups(self) -> int:
        """The number of row groups."""
        return int(self._file.metadata.num_row_groups)

    def groups(self, names: Sequence[str], keys: SearchKeys) -> list[int]:
        """Return the row groups that may contain one of the keys in these columns."""
        return [at for at in range(self.row_groups) if self._may_hold(at, names, keys)]

    def equal_rows(self, at: int, names: Sequence[str]) -> int:
        """Return the number of rows of a row group if its statistics show equal values in these columns; otherwise 0."""
        group = self._file.metadata.row_group(at)
        statistics_of_columns = (group.column(self._places[name]).statistics for name in names)
        equal = all(
            statistics is not None and statistics.has_min_max and statistics.min == statistics.max
            for statistics in statistics_of_columns
        )
        return int(group.num_rows) if equal else 0

    def _may_hold(self, at: int, names: Sequence[str], keys: SearchKeys) -> bool:
        group = self._file.metadata.row_group(at)
        candidate_keys = keys
        for place, name in enumerate(names):
            statistics = group.column(self._places[name]).statistics
            if statistics is None or not statistics.has_min_max:
                continue  # values of many KiB have no statistics
            low, high = statistics.min, statistics.max
            candidate_keys = [key for key in candidate_keys if low <= key[place] <= high]
            if not candidate_keys:
                return False
        return True

    def read(self, groups: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """Return the rows of some row groups; strings are dictionaries shared by all chunks.

        Raises:
            LakeError: They are damaged or cannot be fetched.
        """
        try:
            self._ranges.fetch(self._chunks(groups, columns))
            rows = self._file.read_row_groups(
                list(groups), columns=list(columns), use_threads=False
            )
        except (pa.ArrowException, OSError) as error:
            raise self._failed(error) from error
        return rows.unify_dictionaries()

    def _chunks(self, groups: Sequence[int], columns: Sequence[str]) -> list[tuple[int, int]]:
        """Return the byte ranges (start, exclusive end) of these columns in these row groups."""
        chunks = []
        for group in groups:
            metadata = self._file.metadata.row_group(group)
            for at in (leaf for name in columns for leaf in self._leaves.get(name, ())):
                chunk = metadata.column(at)
                dictionary = chunk.dictionary_page_offset
                start = chunk.data_page_offset
                start = start if dictionary is None else min(start, dictionary)
                chunks.append((start, start + chunk.total_compressed_size))
        return chunks

    def batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield all rows, one row group at a time.

        Raises:
            LakeError: As in :meth:`read`.
        """
        for at in range(self.row_groups):
            yield self.read([at], columns)

    def _failed(self, error: Exception) -> LakeError:
        return self._ranges.failed or parquet_files.damaged(self._shown, error)


def matches(rows: pa.Table, names: Sequence[str], keys: Sequence[tuple[str, ...]]) -> pa.Array:
    """Return for each row the index of the key that equals its columns; null if none does.

    Strings are compared once per dictionary entry, not per row; the rest is integer arithmetic.

    Args:
        rows: With dictionaries shared by all chunks, at least one row.
        names: The columns.
        keys: Distinct tuples with one value per column, at least one.
    """
    code: pa.Array | None = None
    wanted_codes = [0] * len(keys)
    for place, name in enumerate(names):
        values = sorted({key[place] for key in keys})
        number = {value: at for at, value in enumerate(values)}
        column = rows.column(name)
        key_codes = pc.index_in(column.chunk(0).dictionary, value_set=pa.array(values, pa.string()))
        indices = pa.chunked_array([chunk.indices for chunk in column.chunks]).combine_chunks()
        row_codes = pc.take(key_codes.cast(pa.int64()), indices)
        code = row_codes if code is None else pc.add(pc.multiply(code, len(values)), row_codes)
        wanted_codes = [
            old * len(values) + number[key[place]]
            for old, key in zip(wanted_codes, keys, strict=True)
        ]
    return pc.index_in(code, value_set=pa.array(wanted_codes, pa.int64()))
