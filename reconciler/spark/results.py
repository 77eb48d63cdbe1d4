"""Rows of a result into the lake: one unit per cluster, by the last day of the window; the newest result of a day stands."""

from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.sql import DataFrame

from reconciler.errors import LakeConflict
from reconciler.lake.lake import Lake
from reconciler.lake.manifest import Unit
from reconciler.ports import Progress
from reconciler.spark import writing
from reconciler.spark.span import Span
from reconciler.usage.tables import Table

TRIES: Final = 5


def kept(
    lake: Lake,
    frame: DataFrame,
    table: Table,
    clusters: Iterable[str],
    *,
    span: Span,
    progress: Progress,
    inputs: Mapping[str, str] | None = None,
) -> int:
    """Commit the rows of a result for each cluster; a cluster without rows gets an empty unit, which is a result, too.

    Returns:
        How many rows were committed.

    Raises:
        LakeConflict: Others were quicker :data:`TRIES` times.
        LakeError: The lake cannot be read or written.
    """
    told = {"from_ms": str(span.from_ms), "to_ms": str(span.to_ms), **(inputs or {})}
    units = [Unit(table=table, cluster_id=one, day=span.last_day) for one in sorted(set(clusters))]
    total = 0
    for _ in range(TRIES):
        wanted = [writing.Next(unit=one, after=lake.manifest(one), inputs=told) for one in units]
        names = [one.cluster_id for one in units]
        done = writing.committed(lake, frame.where(frame.cluster_id.isin(names)), wanted, progress)
        total += done.rows
        if not done.lost:
            return total
        units = list(done.lost)  # a result does not depend on what stood there: it replaces that
    raise LakeConflict(f"others were quicker {TRIES} times with {table.name}")
