"""Writes frames to a lake: Spark writes a folder that is not read, then each unit is committed separately.

A job that ends at any point leaves every unit old or new as a whole; ``kquota spark expire`` removes its folder.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from reconciler.base.protocols import Progress
from reconciler.errors import LakeConflict, LakeError
from reconciler.evidence.spark.runtime.job import silent
from reconciler.evidence.spark.tables import schemas
from reconciler.evidence.store.files.parquet_files import ROW_GROUP
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.manifest import Manifest, Unit, UnitFile
from reconciler.usage.tables import Table

_CLUSTER: Final = "unit_cluster"
_DAY: Final = "unit_day"
_PART: Final = ".parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class NextGeneration:
    """The next generation of a unit."""

    unit: Unit
    after: Manifest | None  # its newest generation when the work began; None = none
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    partial: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """The results of the commits of units."""

    manifests: tuple[Manifest, ...] = ()
    # Units that another writer committed in the meantime; read them again.
    conflicts: tuple[Unit, ...] = ()

    @property
    def rows(self) -> int:
        """The number of committed rows."""
        return sum(manifest.rows for manifest in self.manifests)


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
    for path, _ in sorted(lake.store.paths(folder)):
        if path.endswith(_PART):
            key = _unit_of(path.removeprefix(f"{folder}/"))
            files_by_unit[key] = (*files_by_unit.get(key, ()), lake.measure_file(path))
    return files_by_unit


def _unit_of(path: str) -> tuple[str, str]:
    """Return cluster and day of ``unit_cluster=…/unit_day=…/part…``, which Spark escapes as in a URL."""
    cluster, day, _ = path.split("/", 2)
    return unquote(cluster.removeprefix(f"{_CLUSTER}=")), unquote(day.removeprefix(f"{_DAY}="))


def committed(
    lake: Lake,
    frame: DataFrame,
    generations: Iterable[NextGeneration],
    progress: Progress = silent,
) -> CommitResult:
    """Commit a frame as the content of units of one table. Units without rows are committed empty.

    Of two writers of a unit, the later one fails with a conflict, which is reported; its files are deleted.

    Args:
        frame: All rows of these units, and no others.
        generations: The units, of one table.
        progress: Called after each unit.

    Raises:
        LakeError: There are rows of other units, units of several tables, or the store fails.
    """
    units = tuple(generations)
    tables = {generation.unit.table.name: generation.unit.table for generation in units}
    if not units:
        return CommitResult()
    if len(tables) != 1:
        raise LakeError(f"units of {' and '.join(sorted(tables))} cannot be written as one table")
    (table,) = tables.values()
    progress(f"writing {table.name}", 0, len(units))
    files = write_frame(lake, frame, table)
    misplaced = files.keys() - {_key(generation.unit) for generation in units}
    if misplaced:
        cluster, day = min(misplaced)
        raise LakeError(f"there are rows of {table.name} for {cluster} on {day}, where none belong")
    manifests: list[Manifest] = []
    conflicts: list[Unit] = []
    for number, generation in enumerate(units, 1):
        unit_files = files.get(_key(generation.unit), ())
        try:
            manifests.append(
                lake.commit_files(
                    generation.unit,
                    unit_files,
                    generation.after,
                    inputs=generation.inputs,
                    partial=generation.partial,
                )
            )
        except LakeConflict:
            conflicts.append(generation.unit)
            lake.store.delete(file.path for file in unit_files)
        progress(f"writing {table.name}", number, len(units))
    return CommitResult(manifests=tuple(manifests), conflicts=tuple(conflicts))


def _key(unit: Unit) -> tuple[str, str]:
    return unit.cluster_id, unit.day.isoformat()
