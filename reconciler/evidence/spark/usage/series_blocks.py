"""Series packed for the kernel: each run of samples is one row, so that joins and shuffles move no single samples.

Python workers read files of a folder themselves (:mod:`reconciler.evidence.store.sample_runs`): Spark distributes parts of
files, and no sample becomes a row of Spark. Object stores are read through Hadoop's connectors, which have the credentials,
so Spark hands over rows, which workers pack.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.serializers import CPickleSerializer
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from reconciler.evidence.spark.tables import bounded_rows, reader
from reconciler.evidence.store import sample_runs
from reconciler.evidence.store.files.local_files import FolderReader
from reconciler.evidence.store.files.row_groups import RangeReader, SearchKeys
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.manifest import Manifest
from reconciler.evidence.store.sample_runs import SERIES, FilePart, RunQuery
from reconciler.usage.kernel import runs
from reconciler.usage.kernel.series import CENSORED, COLUMNS, NOT_RECORDED, UNKNOWN, SampleSeries
from reconciler.usage.tables import USAGE_SAMPLE

MOST_KEYS: Final = 1_000
"""Maximum number of series that workers look up in files; if more are asked for, workers return all series."""

_SHORTEST: Final = 8
"""If runs are shorter on average, a batch of Spark's rows is not in file order and is sorted first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleFiles:
    """The samples of some units in a window; nothing is read until a frame is used."""

    spark: SparkSession  # any session; its machines must reach the files
    lake: Lake
    units: tuple[Manifest, ...]  # of `usage_sample`
    from_ms: int
    to_ms: int  # exclusive

    def series(self) -> DataFrame:
        """Return the distinct series: :data:`SERIES`."""
        if (folder := self.lake.store.folder) is None:
            return self._samples().select(*SERIES).distinct()
        query = RunQuery(from_ms=self.from_ms, to_ms=self.to_ms, columns=())
        return self._read_by_workers(folder, query).distinct()

    def runs(self, only: DataFrame | None = None) -> DataFrame:
        """Return the samples in runs, as :func:`packed`.

        Args:
            only: The series that are needed, as few as a broadcast join allows; all by default. Other series may be
                returned as well.
        """
        if (folder := self.lake.store.folder) is None:
            samples = self._samples()
            return packed(
                samples
                if only is None
                else samples.join(fn.broadcast(only), [*SERIES], "left_semi")
            )
        keys = None if only is None else _keys(only)
        query = RunQuery(from_ms=self.from_ms, to_ms=self.to_ms, series=keys)
        return self._read_by_workers(folder, query)

    def _samples(self) -> DataFrame:
        ts = fn.col("ts_ms")
        frame = reader.of(self.spark, self.lake, USAGE_SAMPLE, self.units)
        return frame.where((ts >= self.from_ms) & (ts < self.to_ms))

    def _read_by_workers(self, folder: Path, query: RunQuery) -> DataFrame:
        schema = _struct(query.columns)
        tasks = sample_runs.tasks_of(file for unit in self.units for file in unit.files)
        if not tasks:
            return self.spark.createDataFrame([], schema)
        numbers = self.spark.range(0, len(tasks), 1, len(tasks))
        encoded = [_SERIALIZER.dumps(task) for task in tasks]
        return numbers.mapInArrow(_reading(FolderReader(folder), encoded, query), schema)


def _struct(columns: Sequence[str]) -> StructType:
    return StructType(
        [
            *(StructField(name, StringType(), nullable=False) for name in SERIES),
            *(StructField(name, BinaryType(), nullable=False) for name in columns),
        ]
    )


def _keys(series: DataFrame) -> SearchKeys | None:
    """Return few series as values; ``None`` if there are more than :data:`MOST_KEYS`."""
    rows = bounded_rows.rows(series.limit(MOST_KEYS + 1), MOST_KEYS + 1, "series")
    return [tuple(row) for row in rows] if len(rows) <= MOST_KEYS else None


_SERIALIZER: Final[Any] = CPickleSerializer()


def _reading(
    store: RangeReader, encoded_tasks: Sequence[bytes], query: RunQuery
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of workers that maps numbers of tasks to runs.

    Args:
        encoded_tasks: The parts of files of each task. Every worker gets all tasks, which may have 100,000 files, and decodes
            only its own.
    """

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                parts: list[FilePart] = _SERIALIZER.loads(encoded_tasks[number])
                for part in parts:
                    yield from query.read(store, part)

    return read


def packed(samples: DataFrame) -> DataFrame:
    """Pack samples into runs.

    Args:
        samples: Columns of ``usage_sample``, in any order.

    Returns:
        :data:`SERIES`, and the columns of :data:`~reconciler.usage.kernel.series.COLUMNS` as bytes.
    """
    code = fn.lit(UNKNOWN)
    for place, word in enumerate(CENSORED):
        code = fn.when(fn.col("censored") == str(word), fn.lit(place)).otherwise(code)
    return samples.select(
        *SERIES,
        "ts_ms",
        "dt_ms",
        "rate_units",
        fn.coalesce("throttle_ms", fn.lit(NOT_RECORDED)).cast("bigint").alias("throttle_ms"),
        code.cast("tinyint").alias("censored"),
    ).mapInArrow(_pack, _struct(COLUMNS))


def _pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if not batch.num_rows:
            continue
        is_in_order = sample_runs.beginnings(batch).size * _SHORTEST <= batch.num_rows
        keys = [(name, "ascending") for name in SERIES]
        yield sample_runs.pack(batch if is_in_order else batch.sort_by(keys))


def portion(rows: int) -> Column:
    """Return the portion of a row: its number ``n`` divided by ``rows``, rounded down."""
    return fn.floor(fn.col("n") / fn.lit(rows)).cast("int").alias("portion")


def series_by(blocks: pa.Table, names: Sequence[str]) -> dict[tuple[Any, ...], SampleSeries]:
    """Return the series of runs, by the values of some columns; other columns must not differ within a series.

    Raises:
        QuotaValueError: A sample is duplicated or out of range.
    """
    runs_by_series: defaultdict[tuple[Any, ...], list[tuple[Any, ...]]] = defaultdict(list)
    keys = zip(*(blocks.column(name).to_pylist() for name in names), strict=True)
    buffers = ([run.as_buffer() for run in blocks.column(name)] for name in COLUMNS)
    for key, run in zip(keys, zip(*buffers, strict=True), strict=True):
        runs_by_series[key].append(run)
    return {key: runs.read(of_series) for key, of_series in runs_by_series.items()}
