"""Frames into a lake: Spark writes a folder that nobody reads, then each unit is committed by itself.

A job that dies at any point leaves every unit as it was, or whole and new; its folder goes with ``kquota spark expire``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from reconciler.errors import LakeConflict, LakeError
from reconciler.lake.lake import Lake
from reconciler.lake.manifest import File, Manifest, Unit
from reconciler.lake.parquet import ROW_GROUP
from reconciler.ports import Progress
from reconciler.spark import schemas
from reconciler.spark.job import silent
from reconciler.usage.tables import Table

_CLUSTER: Final = "unit_cluster"
_DAY: Final = "unit_day"
_PART: Final = ".parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """What shall come after a generation of a unit.

    Attributes:
        unit: Which unit.
        after: Its newest generation when the work began; ``None`` = there was none.
        inputs: What the rows are made from, by name.
        counts: Named states of what went in.
        partial: What is missing of them, in sentences.
    """

    unit: Unit
    after: Manifest | None
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    partial: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What became of units.

    Attributes:
        made: Their new generations.
        lost: Units that somebody else committed meanwhile: look at them anew.
    """

    made: tuple[Manifest, ...] = ()
    lost: tuple[Unit, ...] = ()

    @property
    def rows(self) -> int:
        """How many rows were committed."""
        return sum(one.rows for one in self.made)


def written(lake: Lake, frame: DataFrame, table: Table) -> dict[tuple[str, str], tuple[File, ...]]:
    """Write the rows of a table into a new folder, one file for each unit, and measure the files.

    Args:
        lake: Where. Nothing in it changes: no manifest names the files yet.
        frame: The rows; :func:`~reconciler.spark.schemas.conforming` is applied.
        table: Which table.

    Returns:
        The files by cluster id and day (ISO).

    Raises:
        LakeError: The store refuses, or a file is not whole.
    """
    folder = f"{table.name}/{lake.new_name()}"
    # Folders are named after copies: a file must hold its cluster and day itself, and Spark leaves out what folders name.
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
    found: dict[tuple[str, str], tuple[File, ...]] = {}
    for path, _ in sorted(lake.store.paths(folder)):
        if path.endswith(_PART):
            key = _unit_of(path.removeprefix(f"{folder}/"))
            found[key] = (*found.get(key, ()), lake.taken(path))
    return found


def _unit_of(path: str) -> tuple[str, str]:
    """Cluster and day of ``unit_cluster=…/unit_day=…/part…``; Spark escapes as in an address."""
    cluster, day, _ = path.split("/", 2)
    return unquote(cluster.removeprefix(f"{_CLUSTER}=")), unquote(day.removeprefix(f"{_DAY}="))


def committed(
    lake: Lake,
    frame: DataFrame,
    wanted: Iterable[Next],
    progress: Progress = silent,
) -> Committed:
    """Make a frame the content of units of one table. Units without rows are committed empty.

    Two writers: the one who is late loses the unit, and is told; what it wrote for it is removed.

    Args:
        lake: Where.
        frame: All rows of these units, and no others.
        wanted: The units, of one table.
        progress: Told of each.

    Raises:
        LakeError: There are rows of other units, or the store refuses.
    """
    units = tuple(wanted)
    tables = {one.unit.table.name: one.unit.table for one in units}
    if not units:
        return Committed()
    if len(tables) != 1:
        raise LakeError(f"units of {' and '.join(sorted(tables))} cannot be written as one table")
    (table,) = tables.values()
    progress(f"writing {table.name}", 0, len(units))
    files = written(lake, frame, table)
    strange = files.keys() - {_key(one.unit) for one in units}
    if strange:
        cluster, day = min(strange)
        raise LakeError(f"there are rows of {table.name} for {cluster} on {day}, where none belong")
    made: list[Manifest] = []
    lost: list[Unit] = []
    for number, one in enumerate(units, 1):
        mine = files.get(_key(one.unit), ())
        try:
            made.append(
                lake.commit_files(
                    one.unit, mine, one.after,
                    counts=one.counts, inputs=one.inputs, partial=one.partial,
                )
            )  # fmt: skip
        except LakeConflict:
            lost.append(one.unit)
            lake.store.delete(file.path for file in mine)
        progress(f"writing {table.name}", number, len(units))
    return Committed(made=tuple(made), lost=tuple(lost))


def _key(unit: Unit) -> tuple[str, str]:
    return unit.cluster_id, unit.day.isoformat()
