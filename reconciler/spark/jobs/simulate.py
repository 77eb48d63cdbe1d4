"""The job ``simulate``: what changes of limits would have done to the recorded use of many clusters; makes ``impact_row``."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from reconciler.errors import LakeConflict, UsageError
from reconciler.lake import replay
from reconciler.lake.lake import Lake
from reconciler.lake.manifest import Unit
from reconciler.lake.replay import Replay
from reconciler.manifest.project import parse
from reconciler.manifest.whatif_policy import policy_of
from reconciler.ports import Progress
from reconciler.spark import question, reading, simulate, told, writing
from reconciler.spark import windows as windows_
from reconciler.spark.candidates import Candidate, Work, inputs_of, read, text_of
from reconciler.spark.job import Job, asked
from reconciler.spark.wide import tried
from reconciler.usage.findings import Simulation
from reconciler.usage.samples import DAY_MS
from reconciler.usage.tables import IMPACT_ROW
from reconciler.usage.tiers import WhatIfPolicy
from reconciler.usage.whatif import MOST_ROWS

DAYS: Final = 14
"""The window unless another is asked for."""

MOST_BROADCAST: Final = 500_000
"""More series to read than this are joined by a shuffle: every executor would have to hold them."""

NO_LABELS: Final = "labels of documents (tiers) were not read: tiers are those of the project file alone; kquota spark simulate reads both"
"""Told by spark-submit, where there are plans and snapshots and no documents."""


def simulated(spark: SparkSession, lake: Lake, settings: Work, progress: Progress) -> Simulation:
    """Simulate, commit all rows, and tell the worst.

    Raises:
        LakeError: The lake cannot be read or written.
        LakeConflict: Another run committed the same day of the same cluster meanwhile.
    """
    work = settings
    progress("looking at the lake", 0, 0)
    windows = [
        replay.opened(lake, one.cluster_id, work.from_ms, work.to_ms) for one in work.candidates
    ]
    notes = windows_.evidence(spark, lake, windows, source=work.source, now_ms=work.now_ms)
    counting = [pair for pair in zip(work.candidates, windows, strict=True) if not pair[1].why]
    if not counting:
        return Simulation(evidence=notes, rows=())
    samples = windows_.samples(spark, lake, [window for _, window in counting])
    rows = question.seen(samples).unionByName(
        spark.createDataFrame([row for pair in counting for row in _facts(*pair)], question.FACTS)
    )
    asked_rows = question.questions(rows).persist()
    try:
        progress("what the change asks for", 0, 0)
        broadcast = fits(asked_rows)
        before = {one.cluster_id: _next(lake, one, work) for _, one in counting}
        done = _committed(
            lake, samples, asked_rows, work, before, broadcast=broadcast, progress=progress
        )
        if done.lost:
            raise LakeConflict(
                f"another run wrote {IMPACT_ROW.name} of {work.day} meanwhile", hint="run it again"
            )
        progress("what is worst", 0, 0)
        kept = reading.of(spark, lake, IMPACT_ROW, done.made).persist()
        try:
            return told.simulation(kept, asked_rows, notes, work.policy, most=work.most)
        finally:
            kept.unpersist()
    finally:
        asked_rows.unpersist()


def fits(questions: DataFrame) -> bool:
    """Whether what is read of samples fits every executor: one row that is asked for may stand for thousands of old buckets."""
    return simulate.parts_of(questions).count() <= MOST_BROADCAST


def _committed(
    lake: Lake,
    samples: DataFrame,
    questions: DataFrame,
    work: Work,
    wanted: Mapping[str, writing.Next],
    *,
    broadcast: bool,
    progress: Progress,
) -> writing.Committed:
    """All rows, into the lake; where a series is too large for 64 bits, once more in 38 digits."""

    def attempt(*, wide: bool) -> writing.Committed:
        made = simulate.impacts(
            samples,
            questions,
            work.day,
            min_delay_ms=work.min_delay_ms,
            wide=wide,
            broadcast=broadcast,
        )
        return writing.committed(lake, made, wanted.values(), progress)

    return tried(attempt, progress)


def _facts(candidate: Candidate, window: Replay) -> list[question.FactRow]:
    return question.told(
        window.cluster_id,
        window.cadence,
        callback=candidate.callback,
        states={question.BEFORE: window.state, question.AFTER: candidate.after(window.state)},
        recorded=window.limits.recorded(window.cluster_id),
    )


def _next(lake: Lake, window: Replay, work: Work) -> writing.Next:
    unit = Unit(table=IMPACT_ROW, cluster_id=window.cluster_id, day=work.day)
    return writing.Next(
        unit=unit,
        after=lake.manifest(unit),
        inputs=inputs_of(window),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to simulate, as words."""

    plan: tuple[str, ...] = asked(
        "a plan saved by kquota plan --out; may be repeated", default=(), metavar="FILE"
    )
    after: tuple[str, ...] = asked(
        "a snapshot of the limits to come; may be repeated", default=(), metavar="FILE"
    )
    project: str | None = asked(
        "project file with the what-if policy", default=None, metavar="FILE"
    )
    to_day: dt.date = asked("last day of the window, included", metavar="DAY")
    days: int = asked("length of the window in days", default=DAYS, metavar="N")
    most: int = asked(
        "rows to show, of whole tenants; all are kept in the lake", default=MOST_ROWS, metavar="N"
    )


def run(spark: SparkSession, lake: Lake, settings: Settings, progress: Progress) -> Simulation:
    """The job of spark-submit: files are read where it begins. Of documents it knows nothing (:data:`NO_LABELS`).

    Raises:
        UsageError: There is nothing to simulate, or a file cannot be read.
    """
    found = read([Path(one) for one in settings.plan], [Path(one) for one in settings.after])
    if not found:
        raise UsageError("there is nothing to simulate", hint="give --plan or --after")
    policy = WhatIfPolicy()
    if settings.project is not None:
        policy = policy_of(parse(text_of(Path(settings.project)), settings.project).simulate)
    to_ms = ((settings.to_day - dt.date(1970, 1, 1)).days + 1) * DAY_MS
    work = Work(
        candidates=found,
        from_ms=to_ms - settings.days * DAY_MS,
        to_ms=to_ms,
        policy=policy,
        most=settings.most,
        source=lake.store.shown,
        now_ms=lake.now_ms,
    )
    made = simulated(spark, lake, work, progress)
    return replace(made, notes=(*made.notes, NO_LABELS))


JOB: Final = Job(
    name="simulate",
    summary="What changes of limits would have done to recorded use.",
    settings=Settings,
    run=run,
    example="--plan prod.json --to-day 2026-11-14",
)
