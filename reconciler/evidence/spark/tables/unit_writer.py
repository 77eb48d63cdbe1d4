"""Writes frames to a lake: Spark writes a folder that is not read, then each unit is committed separately.

A job that ends at any point leaves every unit old or new as a whole; ``kquota spark expire`` removes its folder.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import unquote

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from reconciler.base.protocols import Progress
from reconciler.errors import LakeError
from reconciler.evidence.spark.tables import schemas
from reconciler.evidence.spark.tables.time_window import TimeWindow
from reconciler.evidence.store.files.parquet_files import ROW_GROUP
from reconciler.evidence.store.lake import Lake, UnitContent
from reconciler.evidence.store.manifest import Manifest, Unit, UnitFile
from reconciler.usage.tables import Table

_CLUSTER: Final = "unit_cluster"
_DAY: Final = "unit_day"
_PART: Final = ".parquet"


def commit_results(
    lake: Lake,
    frame: DataFrame,
    table: Table,
    clusters: Iterable[str],
    *,
    span: TimeWindow,
    progress: Progress,
    snapshots: Mapping[str, str] | None = None,
) -> tuple[Manifest, ...]:
    """Commit the rows of a result: one unit per cluster, on the last day of the window.

    A cluster without rows gets an empty unit, which is a result too. The newest result of a day replaces others.

    Args:
        frame: Rows of these clusters and of the last day of the window.
        clusters: Cluster ids.
        progress: Called after each unit.
        snapshots: Ids of the snapshots that the rows rely on, by cluster, for the manifests.

    Raises:
        LakeError: The lake cannot be read or written.
    """
    contents: dict[Unit, UnitContent] = {}
    for cluster_id in sorted(set(clusters)):
        inputs = {"from_ms": str(span.from_ms), "to_ms": str(span.to_ms)}
        if snapshots is not None:
            inputs["snapshot_id"] = snapshots[cluster_id]
        unit = Unit(table=table, cluster_id=cluster_id, day=span.last_day)
        contents[unit] = UnitContent(inputs=inputs)
    rows = frame.where(frame.cluster_id.isin([unit.cluster_id for unit in contents]))
    return commit_frame(lake, rows, table, contents, progress)


def commit_frame(
    lake: Lake,
    frame: DataFrame,
    table: Table,
    contents: Mapping[Unit, UnitContent],
    progress: Progress,
) -> tuple[Manifest, ...]:
    """Commit a frame as the content of units of one table. Units without rows are committed empty.

    Of two writers of a unit, the later one replaces the rows of the other.

    Args:
        frame: All rows of these units, and no others.
        contents: What the units are made from, without rows and files.
        progress: Called after each unit.

    Raises:
        LakeError: There are rows of other units, or the store fails.
    """
    progress(f"writing {table.name}", 0, len(contents))
    files = write_frame(lake, frame, table) if contents else {}
    misplaced = files.keys() - {_key(unit) for unit in contents}
    if misplaced:
        cluster, day = min(misplaced)
        raise LakeError(f"there are rows of {table.name} for {cluster} on {day}, where none belong")
    manifests: list[Manifest] = []
    for number, (unit, content) in enumerate(contents.items(), 1):
        of_unit = files.get(_key(unit), ())
        manifests.append(lake.replace(unit, replace(content, files=of_unit)))
        progress(f"writing {table.name}", number, len(contents))
    return tuple(manifests)


def write_frame(
    lake: Lake, frame: DataFrame, table: Table
) -> dict[tuple[str, str], tuple[UnitFile, ...]]:
    """Write the rows of a table to a new folder, one file per unit, and measure the files.

    Args:
        lake: The lake; its contents do not change, because no manifest lists the files yet.
        frame: The rows; :func:`~reconciler.evidence.spark.tables.schemas.conforming` is applied.

    Returns:
        The files by cluster id and day (ISO).

    Raises:
        LakeError: The store fails, or a file is incomplete.
    """
    folder = f"{table.name}/{lake.new_name()}"
    # Folders use copies of the columns: Spark omits partition columns from files, and files must contain cluster and day.
    keyed = schemas.conforming(frame, table).select(
        "*", fn.col("cluster_id").alias(_CLUSTER), fn.col("day").cast("string").alias(_DAY)
    )
    (
        keyed.repartition(_CLUSTER, _DAY)
        .sortWithinPartitions(_CLUSTER, _DAY, *table.key)
        .write.partitionBy(_CLUSTER, _DAY)
        .option("compression", "zstd")
        .option("parquet.block.row.count.limit", str(ROW_GROUP))
        .mode("error")
        .parquet(lake.store.uri(folder))
    )
    files_by_unit: dict[tuple[str, str], tuple[UnitFile, ...]] = {}
    for path in lake.store.paths(folder):
        if path.endswith(_PART):
            key = _unit_of(path.removeprefix(f"{folder}/"))
            files_by_unit[key] = (*files_by_unit.get(key, ()), lake.measure_file(path))
    return files_by_unit


def _unit_of(path: str) -> tuple[str, str]:
    """Return cluster and day of ``unit_cluster=…/unit_day=…/part…``, which Spark escapes as in a URL."""
    cluster, day, _ = path.split("/", 2)
    return unquote(cluster.removeprefix(f"{_CLUSTER}=")), unquote(day.removeprefix(f"{_DAY}="))


def _key(unit: Unit) -> tuple[str, str]:
    return unit.cluster_id, unit.day.isoformat()
