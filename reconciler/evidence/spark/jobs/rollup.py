"""The job ``rollup``: writes ``usage_5m`` and ``usage_hist_d`` of days whose samples changed, and only of those."""

import datetime as dt
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from reconciler.base.protocols import Progress
from reconciler.errors import LakeConflict
from reconciler.evidence.spark.tables import reader, unit_writer
from reconciler.evidence.spark.tables.time_window import TimeWindow
from reconciler.evidence.spark.usage import rollup
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.manifest import Manifest, Unit
from reconciler.usage.tables import USAGE_5M, USAGE_HIST_D, USAGE_SAMPLE, Table

TRIES: Final = 5
"""Maximum number of attempts to commit units; each attempt fails because another writer committed first."""

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
    again: int = 0  # days that another writer committed first, and that were checked again


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupReport:
    """The result of the job, by table."""

    tables: tuple[TableRollup, ...]


def run(
    spark: SparkSession, lake: Lake, settings: RollupSettings, progress: Progress
) -> RollupReport:
    """Write units that are missing or outdated.

    Raises:
        LakeConflict: Another writer committed first :data:`TRIES` times.
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
        LakeConflict: As for :func:`run`.
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
    manifests_by_day = _manifests_by_day(lake, table, settings)
    generations = stale(samples.values(), manifests_by_day, table, anew=settings.rebuild)
    table_rollup = TableRollup(table=table.name, unchanged=len(samples) - len(generations))
    for _ in range(TRIES):
        conflicts: list[Unit] = []
        for first in range(0, len(generations), AT_ONCE):
            part = generations[first : first + AT_ONCE]
            from_ = [samples[_key(generation.unit)] for generation in part]
            result = unit_writer.committed(
                lake, make(reader.of(spark, lake, USAGE_SAMPLE, from_)), part, progress
            )
            table_rollup = replace(
                table_rollup,
                units=table_rollup.units + len(result.manifests),
                rows=table_rollup.rows + result.rows,
            )
            conflicts += result.conflicts
        if not conflicts:
            return table_rollup
        table_rollup = replace(table_rollup, again=table_rollup.again + len(conflicts))
        # If the other writer used the same samples, its rows are equal and nothing remains to do.
        conflicting_keys = set(map(_key, conflicts))
        samples = {
            key: manifest
            for key, manifest in _manifests_by_day(lake, USAGE_SAMPLE, settings).items()
            if key in conflicting_keys
        }
        generations = stale(samples.values(), _manifests_by_day(lake, table, settings), table)
        if not generations:
            return table_rollup
    raise LakeConflict(
        f"{table.name}: another writer committed first {TRIES} times",
        hint="run only one rollup at a time; run it again",
    )


def _manifests_by_day(
    lake: Lake, table: Table, settings: RollupSettings
) -> dict[tuple[str, dt.date], Manifest]:
    manifests = lake.manifests(table, settings.cluster or None, settings.from_day, settings.to_day)
    return {_key(manifest.unit): manifest for manifest in manifests}


def stale(
    samples: Iterable[Manifest],
    manifests_by_day: "dict[tuple[str, dt.date], Manifest]",
    table: Table,
    *,
    anew: bool = False,
) -> list[unit_writer.NextGeneration]:
    """Return the units of a table that are missing or whose samples changed; ``anew`` = all."""
    generations: list[unit_writer.NextGeneration] = []
    for manifest in samples:
        inputs = {USAGE_SAMPLE.name: generation_digest(manifest), "rule": rollup.RULE}
        before = manifests_by_day.get(_key(manifest.unit))
        if anew or before is None or dict(before.inputs) != inputs:
            generations.append(
                unit_writer.NextGeneration(
                    unit=Unit(
                        table=table, cluster_id=manifest.unit.cluster_id, day=manifest.unit.day
                    ),
                    after=before,
                    inputs=inputs,
                    partial=manifest.partial,
                )
            )
    return generations


def generation_digest(samples: Manifest) -> str:
    """Identify a generation by its number and files, because an emptied and refilled lake counts from one again."""
    content = "".join(file.sha256 for file in samples.files)
    return f"{samples.generation} {hashlib.sha256(content.encode()).hexdigest()[:16]}"


def _key(unit: Unit) -> tuple[str, dt.date]:
    return unit.cluster_id, unit.day
