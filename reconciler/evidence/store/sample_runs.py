"""Runs of samples: the samples of a series that are adjacent in a file become one row, each of their columns as bytes.

Files contain the samples of a day by series, so a run is a day of a series, or its part in a row group. The order of
runs does not matter.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.evidence.store import sample_columns
from reconciler.evidence.store.files import arrow_tables
from reconciler.evidence.store.files.parquet_files import ROW_GROUP
from reconciler.evidence.store.files.row_groups import (
    RangeReader,
    RowGroupFile,
    SearchKeys,
    matches,
)
from reconciler.evidence.store.manifest import UnitFile
from reconciler.usage.kernel import runs
from reconciler.usage.kernel.series import COLUMNS, NOT_RECORDED, IntColumn
from reconciler.usage.tables import USAGE_SAMPLE

SERIES: Final = ("cluster_id", "quota_type", *sample_columns.BUCKET, "broker_id")
"""The columns that distinguish series; none is null."""

TASK_ROWS: Final = 16 * ROW_GROUP
"""Samples that one task reads: a large file is read by several tasks, and several small files by one."""

_NUMBERS: Final = COLUMNS[:-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """One of several equal parts of the row groups of a file."""

    file: UnitFile
    number: int = 0  # from 0
    of: int = 1

    @property
    def rows(self) -> int:
        """The approximate number of rows."""
        return self.file.rows // self.of


def tasks_of(files: Iterable[UnitFile]) -> list[list[FilePart]]:
    """Distribute files to tasks of about :data:`TASK_ROWS` rows each, in order."""
    tasks: list[list[FilePart]] = []
    room = 0
    for file in files:
        of = max(1, -(-file.rows // TASK_ROWS))
        for number in range(of):
            part = FilePart(file=file, number=number, of=of)
            if not tasks or part.rows > room:
                tasks.append([])
                room = TASK_ROWS
            tasks[-1].append(part)
            room -= part.rows
    return tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """The runs to read."""

    from_ms: int
    to_ms: int  # end of the window, exclusive
    columns: tuple[str, ...] = COLUMNS  # besides `SERIES`
    # The series to read, as values of `SERIES`: other row groups are not decoded. None = all.
    series: SearchKeys | None = None

    def read(self, store: RangeReader, part: FilePart) -> Iterator[pa.RecordBatch]:
        """Yield the runs of a part of a file of ``usage_sample``, one batch for each row group.

        Raises:
            LakeError: The file is missing, damaged, or cannot be read.
        """
        file = RowGroupFile(store, part.file, USAGE_SAMPLE)
        begin, end = (
            number * file.row_groups // part.of for number in (part.number, part.number + 1)
        )
        groups = list(range(begin, end))
        if self.series is not None:
            groups = [at for at in file.groups(SERIES, self.series) if begin <= at < end]
        names = [*SERIES, *dict.fromkeys(("ts_ms", *self.columns))]
        path = store.display_path(part.file.path)
        for at in groups:
            read_rows = file.read([at], names)
            arrow_tables.check_no_nulls(read_rows, (*SERIES, "ts_ms"), path)
            rows = _in_window(read_rows, self.from_ms, self.to_ms)
            if self.series is not None and rows.num_rows:
                rows = rows.filter(matches(rows, SERIES, sorted(self.series)).is_valid())
            if rows.num_rows:
                yield pack(_numeric(rows, self.columns, path), self.columns)


def _in_window(rows: pa.Table, from_ms: int, to_ms: int) -> pa.Table:
    ts = rows.column("ts_ms")
    is_inside = pc.and_(pc.greater_equal(ts, from_ms), pc.less(ts, to_ms))
    return rows if pc.all(is_inside).as_py() else rows.filter(is_inside)


def _numeric(rows: pa.Table, columns: Sequence[str], path: str) -> pa.RecordBatch:
    """Return rows with the types and codes of the kernel, as one batch."""
    values = rows.select(SERIES)
    if columns:
        numbers = arrow_tables.typed(USAGE_SAMPLE, rows, _NUMBERS, path)
        for name in _NUMBERS:
            values = values.append_column(name, pc.fill_null(numbers.column(name), NOT_RECORDED))
        values = values.append_column("censored", sample_columns.codes(rows.column("censored")))
    (batch,) = values.combine_chunks().to_batches()
    return batch


def pack(rows: pa.RecordBatch, columns: Sequence[str] = COLUMNS) -> pa.RecordBatch:
    """Pack samples into runs.

    Args:
        rows: At least one sample: :data:`SERIES`, and ``columns`` as numbers without nulls.
    """
    begins = beginnings(rows)
    arrays = [
        array.cast(pa.string()) for array in rows.select(SERIES).take(pa.array(begins)).columns
    ]
    for name in columns:
        values, offsets = runs.written(
            name, rows.column(name).to_numpy(zero_copy_only=False), begins
        )
        buffers = [None, *(pa.array(column).buffers()[1] for column in (offsets, values))]
        arrays.append(pa.Array.from_buffers(pa.binary(), len(begins), buffers))
    return pa.RecordBatch.from_arrays(arrays, names=[*SERIES, *columns])


def beginnings(rows: pa.RecordBatch) -> IntColumn:
    """Return the indexes at which runs begin; at least one row."""
    columns = (rows.column(name) for name in SERIES)
    codes = (
        column.indices if pa.types.is_dictionary(column.type) else column for column in columns
    )
    changes = (pc.not_equal(code[1:], code[:-1]) for code in codes)
    return runs.beginnings(
        rows.num_rows, (differs.to_numpy(zero_copy_only=False) for differs in changes)
    )
