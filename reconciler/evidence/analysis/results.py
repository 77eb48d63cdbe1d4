"""The window of an analysis, and its results: stored as one unit for each cluster, on the last day of the window, and read as values."""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.codecs.row_values import read_row
from reconciler.errors import UsageError
from reconciler.evidence.store.files import arrow_tables
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.stored_days import StoredDay, Unit, UnitContent
from reconciler.usage.capacity import CapacityOfCluster
from reconciler.usage.samples import DAY_MS, day_of
from reconciler.usage.tables import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindow:
    """From and to (exclusive), milliseconds since the epoch."""

    from_ms: int
    to_ms: int

    def __post_init__(self) -> None:
        if not 0 <= self.from_ms < self.to_ms:
            raise UsageError(
                f"the window from {self.from_ms} to {self.to_ms} is empty",
                hint="both are milliseconds since 1970, and it must end after it begins",
            )

    @property
    def span(self) -> tuple[int, int]:
        """From and to."""
        return self.from_ms, self.to_ms

    @property
    def first_day(self) -> dt.date:
        """The UTC day of the begin."""
        return day_of(self.from_ms)

    @property
    def last_day(self) -> dt.date:
        """The UTC day of the end; results are stored under it."""
        return day_of(self.to_ms - 1)

    @property
    def whole_days(self) -> "TimeWindow":
        """The same window extended to whole days, for daily histograms."""
        return TimeWindow(
            from_ms=self.from_ms // DAY_MS * DAY_MS, to_ms=-(-self.to_ms // DAY_MS) * DAY_MS
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportWindow(TimeWindow):
    """A window with the clusters and the size of its report."""

    clusters: tuple[str, ...]  # cluster ids
    most: int = 200  # maximum number of rows of each table in the report
    capacity: tuple[CapacityOfCluster, ...] = ()  # for budgets


T = TypeVar("T")


def store(
    lake: Lake,
    table: Table,
    rows: Mapping[str, pa.Table],
    clusters: Iterable[str],
    *,
    window: TimeWindow,
    snapshots: Mapping[str, str] | None = None,
) -> None:
    """Store the rows of each cluster. A cluster without rows gets an empty unit, which is a result too.

    The newest result of a day replaces others.

    Args:
        rows: Rows by cluster id.
        snapshots: Ids of the snapshots that the rows rely on, by cluster.

    Raises:
        LakeError: The lake cannot be written.
    """
    for cluster_id in sorted(set(clusters)):
        inputs = {"from_ms": str(window.from_ms), "to_ms": str(window.to_ms)}
        if snapshots is not None:
            inputs["snapshot_id"] = snapshots[cluster_id]
        unit = Unit(table=table, cluster_id=cluster_id, day=window.last_day)
        of_cluster = rows.get(cluster_id, arrow_tables.schema(table).empty_table())
        _ = lake.replace(unit, UnitContent(rows=of_cluster, inputs=inputs))


def newest(
    lake: Lake, table: Table, clusters: Iterable[str], window: TimeWindow
) -> list[StoredDay]:
    """Return the newest result of each cluster up to the last day of the window; it may be of a much earlier one.

    Raises:
        LakeError: The lake cannot be read.
    """
    days: list[StoredDay] = []
    for cluster_id in sorted(set(clusters)):
        units = lake.units(table, [cluster_id], to_day=window.last_day)
        if units:
            days += lake.days(table, [cluster_id], units[-1].day, units[-1].day)
    return days


def values_of(rows: pa.Table, kind: type[T]) -> tuple[T, ...]:
    """Return rows of the table of a class as its values."""
    return tuple(read_row(row, kind) for row in rows.to_pylist())


def first_values(
    rows: pa.Table, kind: type[T], order: Sequence[tuple[Any, str]], most: int
) -> tuple[tuple[T, ...], int]:
    """Return the first rows as values, and the number of remaining rows.

    Args:
        order: Columns of sort keys with ``ascending`` or ``descending``, the most significant first; a total order.
    """
    if not rows.num_rows:
        return (), 0
    keys = pa.table({str(at): column for at, (column, _) in enumerate(order)})
    names = [(str(at), direction) for at, (_, direction) in enumerate(order)]
    places = pc.sort_indices(keys, sort_keys=names)[:most]
    return values_of(rows.take(places), kind), max(0, rows.num_rows - most)


def ranks(column: pa.ChunkedArray, words: Mapping[Any, int]) -> pa.ChunkedArray:
    """Return the number of each word of a column."""
    numbers = pa.array(list(words.values()))
    return numbers.take(
        pc.index_in(column, pa.array([str(word) for word in words])).combine_chunks()
    )
