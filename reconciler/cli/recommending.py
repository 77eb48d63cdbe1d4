"""What ``kquota spark recommend`` does: tiers and marks from the project, limits by Spark, documents with their evidence."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reconciler.cli.console import Console
from reconciler.cli.extras import needs
from reconciler.cli.files import write_text
from reconciler.cli.simulating import opened, policy_for, task_of
from reconciler.cli.spark_options import Chosen, Clusters, Window
from reconciler.cli.spark_running import Running
from reconciler.client.clock import SystemClock
from reconciler.errors import QuotaValueError, UsageError
from reconciler.manifest.write import document_text
from reconciler.quota.desired import Declaration
from reconciler.quota.entity import ABSENT, Entity
from reconciler.quota.state import NO_LIMITS, replaced
from reconciler.render.names import entity_text
from reconciler.render.use_words import length_text, share_text, units_text
from reconciler.usage.findings import Evidence, RecommendationRow
from reconciler.usage.samples import DAY_MS, KEY_OF, in_kafka_units
from reconciler.usage.tiers import own_entity

if TYPE_CHECKING:
    from reconciler.spark.jobs.recommend import Advised

SIZING_LABEL: Final = "kafka-quotas.io/sizing"
PINNED: Final = "pinned"
"""The label of a document whose limits are only reported on: ``kafka-quotas.io/sizing: pinned``."""

WINDOW_MS: Final = 30 * DAY_MS
_UNSAFE: Final = re.compile(r"[^a-z0-9-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What was typed.

    Attributes:
        lake: Its address.
        clusters: Which clusters.
        window: Of evidence; the last week of it is held out.
        running: Where Spark runs.
        most: So many rows are shown.
        out: Where documents go; ``None`` = nowhere.
    """

    lake: str
    clusters: Clusters
    window: Window
    running: Running
    most: int
    out: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What came of it.

    Attributes:
        advised: Report and changes.
        written: Files with documents.
    """

    advised: "Advised"
    written: tuple[Path, ...]


def done(console: Console, given: Given) -> Done:
    """Size, and write documents if that was asked for.

    Raises:
        KquotaError: A file, the lake, or the session.
    """
    needs("spark", "kquota spark recommend")
    from reconciler.spark import running
    from reconciler.spark.job import Job
    from reconciler.spark.jobs import recommend

    clock = SystemClock()
    begin, end = given.window.span(clock, WINDOW_MS)
    chosen = given.clusters.chosen()
    declared = {
        one.id: _declared(console, given.clusters.project, one) if one.name else ()
        for one in chosen
    }
    pinned = frozenset(
        (cluster_id, one.entity)
        for cluster_id, several in declared.items()
        for one in several
        if (SIZING_LABEL, PINNED) in one.labels
    )
    work = recommend.Work(
        clusters=tuple(sorted(one.id for one in chosen)),
        from_ms=begin,
        to_ms=end,
        policy=policy_for(console, given.clusters.project, declared),
        pinned=pinned,
        most=given.most,
        source=opened(given.lake).store.shown,
        now_ms=round(clock.now() * 1000),
    )
    job = Job(name="recommend", summary="", settings=recommend.Work, run=recommend.advised)
    advised: Advised = running.run(job, given.lake, given.running.settings(), work)
    written: list[Path] = []
    if given.out is not None:
        notes = {one.cluster_id: one for one in advised.report.evidence}
        for one in chosen:
            rows = [row for row in advised.changes if row.cluster_id == one.id]
            text = documents(rows, declared[one.id], one.shown, notes[one.id])
            if text:
                path = given.out / f"{_UNSAFE.sub('-', one.shown.lower()).strip('-')}.yaml"
                given.out.mkdir(parents=True, exist_ok=True)
                write_text(path, text)
                written.append(path)
    return Done(advised=advised, written=tuple(written))


def _declared(console: Console, project: Path | None, one: Chosen) -> tuple[Declaration, ...]:
    task = task_of(console, project, one.name, ())
    return tuple(chain.from_iterable(task.desired.claims.values()))


def documents(
    rows: Iterable[RecommendationRow],
    declared: Sequence[Declaration],
    cluster: str,
    evidence: Evidence,
) -> str:
    """ClientQuota documents for changes of one cluster, each with its evidence; "" for none.

    A document that declares the entity already is repeated whole with the new limits, and says which file to put it
    into; for any other entity there is a new one.

    Args:
        rows: Changes.
        declared: What the project's documents say.
        cluster: What documents call the cluster.
        evidence: What all of it rests on.

    Raises:
        UsageError: A name that was recorded cannot stand in a document.
    """
    by_entity: defaultdict[Entity, list[RecommendationRow]] = defaultdict(list)
    for row in rows:
        subject = own_entity(row.bucket)
        if subject is not None:
            by_entity[subject].append(row)
    known = {one.entity: one for one in declared}
    taken = {one.document for one in declared}
    return "".join(
        _document(subject, each, known.get(subject), cluster, evidence, taken=taken)
        for subject, each in sorted(by_entity.items(), key=lambda pair: entity_text(pair[0]))
    )


def _document(
    subject: Entity,
    rows: Sequence[RecommendationRow],
    known: Declaration | None,
    cluster: str,
    evidence: Evidence,
    *,
    taken: set[str],
) -> str:
    limits = known.limits if known else NO_LIMITS
    for row in rows:
        if row.target_units is not None:
            value = in_kafka_units(row.quota_type, row.target_units)
            limits = replaced(limits, KEY_OF[row.quota_type], value)
    made = (
        replace(known, limits=limits)
        if known
        else Declaration(document=_new_name(subject, taken), entity=subject, limits=limits)
    )
    where = f"replaces the document in {known.path}:{known.line}" if known else "a new document"
    lines = [
        f"# Recommended for {entity_text(subject)}: {where}. Nothing is applied before it is merged."
    ]
    lines += [f"# {line}" for line in _window_lines(evidence)]
    lines += [f"# {line}" for row in rows for line in _evidence_lines(row)]
    try:
        text = document_text(made, cluster=cluster)
    except QuotaValueError as wrong:
        raise UsageError(f"{entity_text(subject)} cannot be written: {wrong.message}") from wrong
    head, _, rest = text.partition("\n")
    return "\n".join((head, *map(_one_line, lines), rest))


def _one_line(text: str) -> str:
    """A comment cannot end before its line does: names are bytes of strangers."""
    return "".join(each if each.isprintable() else "?" for each in text)


def _new_name(subject: Entity, taken: set[str]) -> str:
    """A name for a document that no other has; the entity decides, so that a second run gives the same one."""
    words = [each if isinstance(each, str) else "default" for each in subject if each is not ABSENT]
    base = _UNSAFE.sub("-", "-".join(words).lower())[:50].strip("-") or "entity"
    found, number = base, 1
    while f"default/{found}" in taken:
        number += 1
        found = f"{base}-{number}"
    taken.add(f"default/{found}")
    return f"default/{found}"


def _window_lines(evidence: Evidence) -> list[str]:
    begin, end = (
        datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
        for ms in (evidence.from_ms, evidence.to_ms)
    )
    first = (
        f"Evidence: {begin} to {end} UTC of cluster {evidence.cluster_id}, brokers were up"
        f" {share_text(evidence.coverage_ppm)} of it; limits as of look {evidence.snapshot_id}."
    )
    return [first] + [f"Incomplete: {one}." for one in evidence.partial[:3]]


def _evidence_lines(row: RecommendationRow) -> list[str]:
    kind = row.quota_type
    rules = ", ".join(row.rules) or "none"
    moved = f"{units_text(kind, row.current_units)} -> {units_text(kind, row.target_units)}"
    needed = f"needed {units_text(kind, row.needed_units)}" if row.needed_units else ""
    first = (
        f"{KEY_OF[kind]}: {moved} (tier {row.tier}; {needed}; rules: {rules}; {row.samples:,} samples of"
        f" {row.brokers} brokers, confidence {share_text(row.confidence_ppm)}, censored"
        f" {share_text(row.censored_ppm)})."
    )
    second = (
        f"  throttled {share_text(row.train_share_ppm)} of the time it was sized by, worst delay"
        f" {length_text(row.train_max_delay_ms)}; {share_text(row.test_share_ppm)} of the unseen week, worst"
        f" delay {length_text(row.test_max_delay_ms)}."
    )
    return [first, second]
