"""Reads the series of a window from the sample days of a cluster: whole row groups, then runs of adjacent samples.

Files have the samples of a day by series, so a run is a day of a series, or its part in a row group. Runs stay packed
until a series is used.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.evidence.store import lake
from reconciler.evidence.store.files import arrow_tables
from reconciler.evidence.store.files.parquet_files import Key, TableFile
from reconciler.evidence.store.files.table_reader import each
from reconciler.evidence.store.stored_days import BUCKET, SERIES, StoredDay
from reconciler.usage.kernel import series
from reconciler.usage.kernel.series import (
    CENSORED,
    COLUMNS,
    NOT_RECORDED,
    NOTHING,
    UNKNOWN,
    IntColumn,
    SampleSeries,
)
from reconciler.usage.samples import QuotaType
from reconciler.usage.tables import USAGE_SAMPLE
from reconciler.usage.tags import Bucket, bucket_of_row

BucketsByType = dict[QuotaType, dict[str, set[Bucket]]]
"""Buckets by quota type and broker id."""

_WORDS: Final = pa.array([str(word) for word in CENSORED])
_NUMBERS: Final = COLUMNS[:-1]


class SeriesRuns:
    """The runs of some series, packed."""

    def __init__(self) -> None:
        self._runs: dict[Key, list[series.Run]] = {}

    def add(self, key: Key, run: series.Run) -> None:
        """Add a run of a series; files are added by day."""
        self._runs.setdefault(key, []).append(run)

    @property
    def keys(self) -> list[Key]:
        """The series that have a sample, sorted."""
        return sorted(self._runs)

    def series(self, key: Key) -> SampleSeries:
        """Return the samples of a series; none if it has no run.

        Raises:
            QuotaValueError: A sample is duplicated or out of range.
        """
        result = self._runs.get(key)
        return NOTHING if result is None else series.joined(result)

    def by_bucket(self) -> dict[QuotaType, dict[Bucket, dict[str, SampleSeries]]]:
        """Return all series by quota type, bucket and broker; errors as for :meth:`series`."""
        result: dict[QuotaType, dict[Bucket, dict[str, SampleSeries]]] = {}
        for key in self.keys:
            kind, bucket, broker = parts_of(key)
            result.setdefault(kind, {}).setdefault(bucket, {})[broker] = self.series(key)
        return result


def read_runs(
    files: Sequence[TableFile], window: tuple[int, int], wanted_keys: Sequence[Key] | None = None
) -> SeriesRuns:
    """Return the samples of a window, its end exclusive.

    Args:
        files: Files of ``usage_sample`` of one cluster, by day.
        wanted_keys: Series to read, values of :data:`~reconciler.evidence.store.stored_days.SERIES`, sorted; all by default.

    Raises:
        LakeError: A file is damaged or cannot be fetched.
    """
    asked_for = None if wanted_keys is None else frozenset(wanted_keys)

    def read(file: TableFile) -> list[tuple[Key, series.Run]]:
        def runs_of(rows: pa.Table) -> list[tuple[Key, series.Run]]:
            arrow_tables.check_no_nulls(rows, (*SERIES, *_NUMBERS[:-1]), file.shown)
            return [
                (key, run)
                for key, run in _runs_of(lake.within(rows, window), file.shown)
                if asked_for is None or key in asked_for
            ]

        return list(
            chain.from_iterable(file.map_groups([*SERIES, *COLUMNS], runs_of, SERIES, wanted_keys))
        )

    result = SeriesRuns()
    if wanted_keys is None or wanted_keys:
        for key, run in chain.from_iterable(each(read, files)):
            result.add(key, run)
    return result


def _runs_of(rows: pa.Table, path: str) -> Iterator[tuple[Key, series.Run]]:
    """Yield the runs of a row group."""
    if not rows.num_rows:
        return
    keys, begins = _keys_of(rows)
    numbers = arrow_tables.typed(USAGE_SAMPLE, rows, _NUMBERS, path)
    columns = {
        name: pc.fill_null(numbers.column(name), NOT_RECORDED).to_numpy() for name in _NUMBERS
    }
    columns["censored"] = _codes(rows.column("censored")).to_numpy()
    yield from zip(keys, series.cut(columns, begins), strict=True)


def _keys_of(rows: pa.Table) -> tuple[list[Key], IntColumn]:
    """Return the series of each run of rows (at least one), and the indexes at which runs begin."""
    (batch,) = rows.select(SERIES).combine_chunks().to_batches()
    changes = (
        pc.not_equal(column.indices[1:], column.indices[:-1]).to_numpy(zero_copy_only=False)
        for column in batch.columns
    )
    begins = series.beginnings(batch.num_rows, changes)
    names = (column.to_pylist() for column in batch.take(pa.array(begins)).columns)
    return list(zip(*names, strict=True)), begins


def numbered_rows(
    file: TableFile, columns: Sequence[str], wanted_keys: Sequence[Key]
) -> list[pa.Table]:
    """Return the rows of some series of a table, with ``number``, the position of the series, in place of its names.

    Args:
        file: A file of a table that is sorted by series.
        wanted_keys: The series, sorted, at least one.

    Raises:
        LakeError: The file is damaged or cannot be fetched.
    """
    numbers = {key: number for number, key in enumerate(wanted_keys)}

    def of_series(rows: pa.Table) -> pa.Table:
        keys, begins = _keys_of(rows)
        of_rows = series.spread([numbers.get(key, -1) for key in keys], begins, rows.num_rows)
        numbered = rows.select(columns).append_column("number", pa.array(of_rows))
        return numbered.filter(pc.greater_equal(numbered["number"], 0))

    return file.map_groups([*SERIES, *columns], of_series, SERIES, wanted_keys)


def _codes(words: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the index of each word in ``CENSORED``; unknown words become ``UNKNOWN``."""
    places = [pc.index_in(chunk.dictionary, _WORDS).take(chunk.indices) for chunk in words.chunks]
    return pc.fill_null(pa.chunked_array(places, pa.int32()), UNKNOWN)


def parts_of(key: Key) -> tuple[QuotaType, Bucket, str]:
    """Return quota type, bucket and broker of a series.

    Raises:
        ValueError: A quota type or a kind of bucket is unknown.
    """
    bucket = bucket_of_row(dict(zip(BUCKET, key[1:5], strict=True)))
    return QuotaType(key[0]), bucket, key[5]


def key_of(kind: QuotaType, bucket: Bucket, broker: str) -> Key:
    """Return the key of a series."""
    return (str(kind), str(bucket.kind), bucket.user, bucket.client_id, bucket.ip, broker)


def recorded_series(
    days: Iterable[StoredDay], window: tuple[int, int] | None = None
) -> dict[Key, int]:
    """Return the series of days with their numbers of rows, sorted.

    Args:
        window: Only series with a sample from the first to before the second, as far as the lists of the days tell.

    Raises:
        LakeDamaged: A list is damaged.
    """
    tables = [day.series for day in days]
    if not tables:
        return {}
    listed_series = pa.concat_tables(tables)
    if window is not None:
        begins, ends = listed_series["first_ms"], listed_series["last_ms"]
        listed_series = listed_series.filter(
            pc.and_(pc.less(begins, window[1]), pc.greater_equal(ends, window[0]))
        )
    total = listed_series.group_by(list(SERIES), use_threads=False).aggregate([("rows", "sum")])
    columns = [total.column(name).to_pylist() for name in (*SERIES, "rows_sum")]
    return dict(sorted((tuple(row[:-1]), row[-1]) for row in zip(*columns, strict=True)))


def buckets_by_type(keys: Iterable[Key]) -> BucketsByType:
    """Return the buckets of series; each is created once, brokers are sorted.

    Raises:
        ValueError: A quota type or a kind of bucket is unknown.
    """
    buckets: dict[Key, Bucket] = {}
    result: BucketsByType = {}
    for key in sorted(keys, key=lambda key: key[-1]):
        bucket = buckets.get(key[1:5])
        if bucket is None:
            bucket = buckets[key[1:5]] = parts_of(key)[1]
        result.setdefault(QuotaType(key[0]), {}).setdefault(key[5], set()).add(bucket)
    return result
