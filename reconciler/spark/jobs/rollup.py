"""The job ``rollup``: makes ``usage_5m`` and ``usage_hist_d`` of days whose samples changed, and only of those."""

import datetime as dt
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from reconciler.errors import LakeConflict
from reconciler.lake.lake import Lake
from reconciler.lake.manifest import Manifest, Unit
from reconciler.ports import Progress
from reconciler.spark import reading, rollup, writing
from reconciler.spark.job import Job, asked
from reconciler.usage.tables import USAGE_5M, USAGE_HIST_D, USAGE_SAMPLE, Table

TRIES: Final = 5
"""So often units that another writer committed first are looked at again."""

AT_ONCE: Final = 400
"""Units of one run of Spark: its files are measured one by one, and what is committed stays if a later run dies."""

_MADE: Final[tuple[tuple[Table, Callable[[DataFrame], DataFrame]], ...]] = (
    (USAGE_5M, rollup.usage_5m),
    (USAGE_HIST_D, rollup.usage_hist_d),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to roll up."""

    cluster: tuple[str, ...] = asked(
        "only this cluster id; may be repeated", default=(), metavar="ID"
    )
    from_day: dt.date | None = asked("first day", default=None, metavar="DAY")
    to_day: dt.date | None = asked("last day, included", default=None, metavar="DAY")
    rebuild: bool = asked("make all units anew, changed or not", default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDone:
    """What was done for one table.

    Attributes:
        table: Its name.
        units: Days of clusters that were made.
        rows: Their rows.
        unchanged: Days of clusters that were up to date.
        again: Days that another writer committed first, and that were looked at again.
    """

    table: str
    units: int = 0
    rows: int = 0
    unchanged: int = 0
    again: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What was done."""

    tables: tuple[TableDone, ...]


def run(spark: SparkSession, lake: Lake, settings: Settings, progress: Progress) -> Done:
    """Make what is missing or out of date.

    Raises:
        LakeConflict: Another writer was quicker :data:`TRIES` times.
        LakeError: The lake cannot be read or written.
    """
    return Done(tables=tuple(_table(spark, lake, settings, progress, made=made) for made in _MADE))


def _table(
    spark: SparkSession,
    lake: Lake,
    settings: Settings,
    progress: Progress,
    *,
    made: tuple[Table, Callable[[DataFrame], DataFrame]],
) -> TableDone:
    table, make = made
    samples = _found(lake, USAGE_SAMPLE, settings)
    known = _found(lake, table, settings)
    todo = stale(samples.values(), known, table, anew=settings.rebuild)
    done = TableDone(table=table.name, unchanged=len(samples) - len(todo))
    for _ in range(TRIES):
        lost: list[Unit] = []
        for first in range(0, len(todo), AT_ONCE):
            part = todo[first : first + AT_ONCE]
            from_ = [samples[_key(one.unit)] for one in part]
            result = writing.committed(
                lake, make(reading.of(spark, lake, USAGE_SAMPLE, from_)), part, progress
            )
            done = replace(done, units=done.units + len(result.made), rows=done.rows + result.rows)
            lost += result.lost
        if not lost:
            return done
        done = replace(done, again=done.again + len(lost))
        # The other writer may have had the same samples: then its rows are ours, and nothing is left to do.
        wanted = set(map(_key, lost))
        samples = {
            key: one for key, one in _found(lake, USAGE_SAMPLE, settings).items() if key in wanted
        }
        todo = stale(samples.values(), _found(lake, table, settings), table)
        if not todo:
            return done
    raise LakeConflict(
        f"others were quicker {TRIES} times with {table.name}",
        hint="one rollup at a time is enough; run it again",
    )


def _found(lake: Lake, table: Table, settings: Settings) -> dict[tuple[str, dt.date], Manifest]:
    manifests = lake.manifests(table, settings.cluster or None, settings.from_day, settings.to_day)
    return {_key(one.unit): one for one in manifests}


def stale(
    samples: Iterable[Manifest],
    known: "dict[tuple[str, dt.date], Manifest]",
    table: Table,
    *,
    anew: bool = False,
) -> list[writing.Next]:
    """The units of a table that samples changed under, or that are not there; ``anew`` = all."""
    found: list[writing.Next] = []
    for one in samples:
        inputs = {USAGE_SAMPLE.name: told(one), "rule": rollup.RULE}
        before = known.get(_key(one.unit))
        if anew or before is None or dict(before.inputs) != inputs:
            found.append(
                writing.Next(
                    unit=Unit(table=table, cluster_id=one.unit.cluster_id, day=one.unit.day),
                    after=before,
                    inputs=inputs,
                    partial=one.partial,
                )
            )
    return found


def told(samples: Manifest) -> str:
    """A generation by its number and its files: a lake that was emptied and filled again counts from one, too."""
    content = "".join(file.sha256 for file in samples.files)
    return f"{samples.generation} {hashlib.sha256(content.encode()).hexdigest()[:16]}"


def _key(unit: Unit) -> tuple[str, dt.date]:
    return unit.cluster_id, unit.day


JOB: Final = Job(
    name="rollup",
    summary="Five-minute sums and daily histograms of what changed.",
    settings=Settings,
    run=run,
    example="--from-day 2026-11-01 --to-day 2026-11-14",
)
