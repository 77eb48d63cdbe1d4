"""The work of ``kquota spark ingest``: sources from project and options, then read, keep, assemble, publish."""

from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.cli.console import Console, ProgressLine
from reconciler.cli.files import read_text
from reconciler.cli.ingest_told import AllTold, Told
from reconciler.cli.running import run
from reconciler.cli.spark_options import Chosen, Window
from reconciler.cli.where import place_of
from reconciler.client.clock import SystemClock
from reconciler.errors import LakeError, TelemetryError, UsageError
from reconciler.inventory.audit import read_entries
from reconciler.lake import mending, publish, store
from reconciler.lake.lake import Lake
from reconciler.lake.looks import begin_ms, day_of
from reconciler.telemetry import (
    applied,
    dialect_table,
    from_files,
    from_server,
    http_config,
    matchers,
    settings,
    snapshots,
)
from reconciler.telemetry.arriving import ALWAYS, Arrived
from reconciler.telemetry.days import DayReport, Days
from reconciler.telemetry.series import Counts
from reconciler.telemetry.settings import BrokerRule, Source
from reconciler.telemetry.times import TimeUnit
from reconciler.usage.tables import POINT, TARGET_UP

if TYPE_CHECKING:
    from reconciler.ports import Clock, Progress
    from reconciler.telemetry.dialects import Dialects


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What was typed instead of the project's settings; ``None`` = nothing. Times in seconds."""

    prometheus: str | None = None
    matchers: str | None = None
    broker_id: str | None = None
    step: float | None = None
    max_gap: float | None = None
    evidence: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is to be done; fields as the options say."""

    lake: str
    sources: tuple[Source, ...]
    window: Window
    http_config: Path | None
    files: tuple[Path, ...]
    form: str
    time_unit: str
    dialect: str
    snapshots: tuple[Path, ...]
    audit_logs: tuple[Path, ...]
    publish: bool
    rebuild: bool

    @property
    def asks(self) -> bool:
        """Whether a Prometheus is asked: unless files are read, or only what the lake has is wanted anew."""
        return not self.files and not self.rebuild and self.wants_use

    @property
    def wants_use(self) -> bool:
        """Whether recorded use is read: looks and logs can also be brought in alone, where no Prometheus is known."""
        only_limits = bool(self.snapshots or self.audit_logs)
        return not only_limits or any(one.prometheus for one in self.sources)


def source(chosen: Chosen, given: Given) -> Source:
    """Where the recorded use of a cluster comes from: options first, then the project.

    Raises:
        TelemetryError: A setting cannot be read.
    """
    made = (
        Source(cluster=chosen.shown, cluster_id=chosen.id)
        if chosen.settings is None
        else settings.source_of(chosen.settings)
    )
    made = replace(made, evidence_uri=place_of(chosen.root, made.evidence_uri))
    if given.prometheus is not None:
        made = replace(made, prometheus=given.prometheus)
    if given.matchers is not None:
        made = replace(made, matchers=matchers.parsed(given.matchers))
    if given.broker_id is not None:
        made = replace(made, broker_rule=BrokerRule.parsed(given.broker_id))
    if given.step is not None:
        made = replace(made, scrape_ms=round(given.step * 1000))
    if given.max_gap is not None:
        made = replace(made, max_gap_ms=round(given.max_gap * 1000))
    return made if given.evidence is None else replace(made, evidence_uri=given.evidence)


def done(console: Console, work: Work, clock: "Clock | None" = None) -> AllTold:
    """Does it. What went wrong for one cluster is told, and the others are done all the same.

    Raises:
        UsageError: Options contradict each other.
        TelemetryError: A setting, a look or a log cannot be used.
        LakeError: The lake cannot be opened, or looks and logs not be kept.
    """
    now = clock or SystemClock()
    for one in work.sources:
        _ = one.cadence  # a cluster without a step is refused before anything is read
        if work.publish and not one.evidence_uri:
            raise UsageError(
                f"--publish: nothing says where evidence of {one.cluster} goes",
                hint="set telemetry.evidenceUri, or name a place: --publish URI",
            )
    lake = Lake(store.opened(work.lake, create=True), clock=now)
    ids = {one.cluster_id for one in work.sources}
    anew = {one.cluster_id: _begun_anew(lake, work, one, now) for one in work.sources}
    taken = [snapshots.read(read_text(path), where=str(path)) for path in work.snapshots]
    own = [one for one in taken if one.cluster_id in ids]
    new_looks = snapshots.keep(lake, own)
    new_applies, strange = 0, len(taken) - len(own)
    for path in work.audit_logs:
        new, others = applied.keep(lake, ids, read_entries(path), where=str(path))
        new_applies, strange = new_applies + new, strange + others
    with ProgressLine(console) as progress:
        brought = from_files.Brought(arrived={one: Arrived() for one in ids}, counts=Counts())
        if work.files:
            brought = _from_files(lake, work, now, progress)
        clusters = tuple(
            _one(lake, work, one, brought.arrived[one.cluster_id], clock=now, progress=progress)
            for one in work.sources
        )
    for told in clusters:
        told.arrived.remarks[:0] = anew[told.cluster_id]
    return AllTold(
        lake=lake.store.shown,
        clusters=clusters,
        looks=new_looks,
        applies=new_applies,
        strange=strange,
        counts=brought.counts,
        failures=brought.failures,
    )


def _begun_anew(lake: Lake, work: Work, one: Source, clock: "Clock") -> list[str]:
    """What is damaged in the window is given up where its begin was typed; else damage is an error, and nothing is lost."""
    if work.window.from_ms is None:
        return []
    begin, end = work.window.span(clock)
    days = day_of(begin), day_of(end - 1)
    return [
        str(found)
        for table in mending.BROUGHT
        for found in mending.given_up(lake, table, one.cluster_id, *days)
    ]


def _one(
    lake: Lake,
    work: Work,
    one: Source,
    arrived: Arrived,
    *,
    clock: "Clock",
    progress: "Progress",
) -> Told:
    window: tuple[int, int] | None = None
    days: tuple[DayReport, ...] = ()
    published: tuple[str, int, int] | None = None
    failures: list[str] = []
    try:
        if work.asks:
            window = _span(lake, work, one, clock)
            arrived = run(
                from_server.fetched(
                    lake,
                    one,
                    from_server.stretch(lake, one.cluster_id, *_typed(work, clock)),
                    _asking(work),
                    clock=clock,
                    progress=progress,
                )
            )
        first = min(
            (made.unit.day for made in lake.manifests(POINT, [one.cluster_id])), default=None
        )
        looks = snapshots.looks(lake, one.cluster_id, first) if first else ()
        days = Days(lake, one.cluster_id, one.cadence, looks).bring_up(
            rebuild=work.rebuild, progress=progress
        )
        if work.publish:
            published = _published(lake, one, days, clock, check_all=work.rebuild)
    except (TelemetryError, LakeError) as error:
        failures.append(error.message + (f" ({error.hint})" if error.hint else ""))
    return Told(
        shown=one.cluster,
        cluster_id=one.cluster_id,
        window=window,
        arrived=arrived,
        days=days,
        published=published,
        failures=(*arrived.failures, *failures),
    )


def _typed(work: Work, clock: "Clock") -> tuple[int | None, int]:
    """Begin, ``None`` = where the last run ended, and end."""
    begin, end = work.window.span(clock)
    return (None if work.window.from_ms is None else begin), end


def _span(lake: Lake, work: Work, one: Source, clock: "Clock") -> tuple[int, int]:
    found = from_server.stretch(lake, one.cluster_id, *_typed(work, clock))
    return found.from_ms, found.to_ms


def _asking(work: Work) -> from_server.Asking:
    dialects, name = _dialects(work.dialect)
    config = None if work.http_config is None else http_config.read(work.http_config)
    return from_server.Asking(
        dialects=dialects, dialect=name, config=config, neighbours=tuple(work.sources)
    )


def _dialects(dialect: str) -> "tuple[Dialects, str]":
    """All dialects and the chosen one's name; a file holds one of one's own, which is then the choice if it is alone."""
    if "/" not in dialect and not dialect.endswith(".toml"):
        return dialect_table.shipped(), dialect
    own = dialect_table.read(Path(dialect))
    shipped = {one.name for one in dialect_table.shipped().all}
    names = [one.name for one in own.all if one.name not in shipped]
    return own, names[0] if len(names) == 1 else ""


def _from_files(lake: Lake, work: Work, clock: "Clock", progress: "Progress") -> from_files.Brought:
    dialects, name = _dialects(work.dialect)
    window = work.window.span(clock, 2**62) if work.window.given else ALWAYS
    files = from_files.Files(
        paths=work.files,
        form=from_files.Form(work.form),
        dialects=dialects,
        dialect=name,
        window=window,
        unit=TimeUnit(work.time_unit),
    )
    return from_files.read(lake, work.sources, files, clock=clock, progress=progress)


def _published(
    lake: Lake, one: Source, days: tuple[DayReport, ...], clock: "Clock", *, check_all: bool
) -> tuple[str, int, int]:
    """Publishes the evidence up to the last moment that the lake has, which may be long ago."""
    last = max((day.day for day in days), default=None)
    end = None if last is None else _last_moment(lake, one.cluster_id, last)
    if end is None:
        raise LakeError(f"there is nothing to publish of {one.cluster}: the lake has no day of it")
    to = store.opened(one.evidence_uri, create=True)
    made = publish.publish(
        lake,
        one.cluster_id,
        to,
        None,
        end,
        pace=one.cadence,
        now_ms=round(clock.now() * 1000),
        check_all=check_all,
    )
    return to.shown, made.from_ms, made.to_ms


def _last_moment(lake: Lake, cluster_id: str, day: date) -> int | None:
    rows = lake.read(lake.manifests(TARGET_UP, [cluster_id], day, day), ["ts_ms"], table=TARGET_UP)
    return max(rows["ts_ms"].to_pylist(), default=begin_ms(day)) + 1
