"""The job ``rollup``: writes ``usage_5m`` and ``usage_hist_d`` of days whose samples changed, and only of those."""

import datetime as dt
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from reconciler.base.protocols import Progress
from reconciler.evidence.spark.tables import reader, unit_writer
from reconciler.evidence.spark.tables.time_window import TimeWindow
from reconciler.evidence.spark.usage import rollup
from reconciler.evidence.store.lake import Lake, UnitContent
from reconciler.evidence.store.manifest import Manifest, Unit
from reconciler.usage.tables import USAGE_5M, USAGE_HIST_D, USAGE_SAMPLE, Table

AT_ONCE: Final = 400
"""Maximum number of units in one run of Spark; units already committed stay if a later run fails."""

_ROLLUPS: Final[tuple[tuple[Table, Callable[[DataFrame], DataFrame]], ...]] = (
    (USAGE_5M, rollup.usage_5m),
    (USAGE_HIST_D, rollup.usage_hist_d),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupSettings:
    """Clusters and days to roll up."""

    cluster: tuple[str, ...] = ()
    from_day: dt.date | None = None
    to_day: dt.date | None = None
    rebuild: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRollup:
    """The result for one table."""

    table: str
    units: int = 0
    rows: int = 0
    unchanged: int = 0
    again: int = 0  # days that another writer committed meanwhile, and whose rows were replaced


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupReport:
    """The result of the job, by table."""

    tables: tuple[TableRollup, ...]


def run(
    spark: SparkSession, lake: Lake, settings: RollupSettings, progress: Progress
) -> RollupReport:
    """Write units that are missing or outdated.

    Raises:
        LakeError: The lake cannot be read or written.
    """
    return RollupReport(
        tables=tuple(
            _table(spark, lake, settings, progress, rollup_definition=rollup_definition)
            for rollup_definition in _ROLLUPS
        )
    )


def five_minutes(
    spark: SparkSession, lake: Lake, clusters: tuple[str, ...], span: TimeWindow, progress: Progress
) -> DataFrame:
    """Return ``usage_5m`` of the days of a window; days without a current rollup are rolled up first.

    Args:
        clusters: Cluster ids; empty = all.

    Raises:
        LakeError: The lake cannot be read or written.
    """
    settings = RollupSettings(cluster=clusters, from_day=span.first_day, to_day=span.last_day)
    _ = run(spark, lake, settings, progress)
    return reader.frame(
        spark, lake, USAGE_5M, clusters or None, from_day=span.first_day, to_day=span.last_day
    )


def _table(
    spark: SparkSession,
    lake: Lake,
    settings: RollupSettings,
    progress: Progress,
    *,
    rollup_definition: tuple[Table, Callable[[DataFrame], DataFrame]],
) -> TableRollup:
    table, make = rollup_definition
    samples = _manifests_by_day(lake, USAGE_SAMPLE, settings)
    before = _manifests_by_day(lake, table, settings)
    contents = {
        Unit(table=table, cluster_id=cluster_id, day=day): UnitContent(
            inputs=inputs, partial=manifest.partial
        )
        for (cluster_id, day), manifest in samples.items()
        if (inputs := _inputs(manifest)) != _inputs_of(before.get((cluster_id, day)))
        or settings.rebuild
    }
    manifests: list[Manifest] = []
    units = list(contents)
    for first in range(0, len(units), AT_ONCE):
        part = {unit: contents[unit] for unit in units[first : first + AT_ONCE]}
        rows = make(reader.of(spark, lake, USAGE_SAMPLE, (samples[_key(unit)] for unit in part)))
        manifests += unit_writer.commit_frame(lake, rows, table, part, progress)
    generations = {key: manifest.generation for key, manifest in before.items()}
    return TableRollup(
        table=table.name,
        units=len(manifests),
        rows=sum(manifest.rows for manifest in manifests),
        unchanged=len(samples) - len(units),
        again=sum(
            manifest.generation > generations.get(_key(manifest.unit), 0) + 1
            for manifest in manifests
        ),
    )


def _manifests_by_day(
    lake: Lake, table: Table, settings: RollupSettings
) -> dict[tuple[str, dt.date], Manifest]:
    manifests = lake.manifests(table, settings.cluster or None, settings.from_day, settings.to_day)
    return {_key(manifest.unit): manifest for manifest in manifests}


def _inputs(samples: Manifest) -> dict[str, str]:
    """Return what the rollup of a day is made from: its samples, and the rule."""
    return {USAGE_SAMPLE.name: generation_digest(samples), "rule": rollup.RULE}


def _inputs_of(rollup_of_day: Manifest | None) -> dict[str, str] | None:
    return None if rollup_of_day is None else dict(rollup_of_day.inputs)


def generation_digest(samples: Manifest) -> str:
    """Identify a generation by its number and files, because an emptied and refilled lake counts from one again."""
    content = "".join(file.sha256 for file in samples.files)
    return f"{samples.generation} {hashlib.sha256(content.encode()).hexdigest()[:16]}"


def _key(unit: Unit) -> tuple[str, dt.date]:
    return unit.cluster_id, unit.day
