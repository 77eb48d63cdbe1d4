"""What a plan does to recorded use: one row for each bucket that changes on each broker, tenants made of them, the policy's word."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from reconciler.usage.buckets import (
    CUSTOM_CALLBACK,
    FOREIGN_ENTITIES,
    HISTORY_BREAKS,
    NOTHING_SEEN,
    ONLY_PARTLY,
    UNKNOWN_CLIENTS,
    UNKNOWN_USERS,
    Answer,
)
from reconciler.usage.censoring import Bound
from reconciler.usage.findings import Evidence, ImpactRow, Simulation, TierBreach, verdicts_of
from reconciler.usage.question import (
    INVALID_LIMIT,
    NOBODY_HELD,
    NOT_MEASURED,
    Asked,
    Question,
)
from reconciler.usage.samples import Cadence, QuotaType, Sample
from reconciler.usage.tags import Bucket
from reconciler.usage.throttle import MIN_DELAY_MS, MODEL_OF, Forecast
from reconciler.usage.tiers import Elastic, WhatIfPolicy
from reconciler.usage.verdict import Breach, Impact, Part, Verdict, breaches, impact

NO_SAMPLES: Final = "no sample of it lies in the window"
NO_EVIDENCE: Final = "no evidence counts"
TOO_MANY: Final = (
    "a preview does not read so many series; `kquota spark simulate` reads all of them"
)
REASONS: Final = frozenset(
    {
        "", NO_SAMPLES, NO_EVIDENCE, TOO_MANY, NOT_MEASURED, NOBODY_HELD, INVALID_LIMIT, UNKNOWN_USERS,
        UNKNOWN_CLIENTS, ONLY_PARTLY, HISTORY_BREAKS, NOTHING_SEEN, CUSTOM_CALLBACK, FOREIGN_ENTITIES,
    }
)  # fmt: skip
"""Every sentence that a row of a preview may give for itself."""

MOST_ROWS: Final = 200
"""More rows than this nobody reads in a preview; the rest is counted."""

CONSUMERS: Final = "tenants are consumers, which use what they are let, and are not shown"
"""Told where elastic types are ignored."""

MOST_NAMES: Final = 50
"""So many buckets that are only noticed are named."""


def judged(
    question: Question,
    series: Mapping[QuotaType, Mapping[Bucket, Mapping[str, Sequence[Sample]]]],
    cadence: Cadence,
    min_delay_ms: int = MIN_DELAY_MS,
) -> tuple[ImpactRow, ...]:
    """One row for each bucket that changes on each broker, in the order of the question.

    Args:
        question: What is asked.
        series: The samples of each broker in time order, of every bucket that :attr:`Question.reads` lists.
        cadence: How often they were read; a longer gap begins a session.
        min_delay_ms: A shorter delay is no throttling.

    Raises:
        QuotaValueError: Samples out of order or out of range.
    """
    found: list[ImpactRow] = []
    for one in question.asked:
        of_type = series.get(one.quota_type, {})
        sources = [
            Part(samples=of_type.get(part.bucket, {}).get(one.broker_id, ()), limit=part.limit)
            for part in one.parts
        ]
        told = impact(
            one.quota_type,
            one.answer,
            sources,
            one.after_units,
            max_gap_ms=cadence.max_gap_ms,
            min_delay_ms=min_delay_ms,
        )
        found.append(row_of(question.cluster_id, one, told))
    return tuple(found)


def unread(question: Question, why: str) -> tuple[ImpactRow, ...]:
    """The rows of a question whose series are not read, for one reason; what has a better reason keeps it."""
    return judged(
        replace(
            question,
            asked=tuple(
                replace(one, answer=Answer.NO_DATA, parts=(), why=why) if one.parts else one
                for one in question.asked
            ),
        ),
        {},
        _ANY,
    )


_ANY: Final = Cadence(step_ms=1, max_gap_ms=1)
"""Of no sample at all."""


def portions(
    question: Question, *, at_once: int, most: int
) -> tuple[tuple[Question, ...], Question]:
    """A question in parts that are read one after the other, so that a large one needs no more memory than a small one.

    Args:
        question: What is asked.
        at_once: How many series (of a bucket on a broker) one part may read; a single row may need more.
        most: How many may be read in all.

    Returns:
        The parts, and what goes beyond ``most``.
    """
    parts: list[list[Asked]] = [[]]
    beyond: list[Asked] = []
    total = size = 0
    for one in question.asked:
        need = len(one.parts)
        if need and (beyond or total + need > most):
            beyond.append(one)
            continue
        if size and size + need > at_once:
            parts.append([])
            size = 0
        parts[-1].append(one)
        size += need
        total += need
    return (
        tuple(replace(question, asked=tuple(each)) for each in parts if each),
        replace(question, asked=tuple(beyond)),
    )


def row_of(cluster_id: str, one: Asked, told: Impact) -> ImpactRow:
    """What was asked with what came of it; what cannot be identified stays that, seen or not."""
    if one.answer is Answer.NOT_IDENTIFIABLE:
        told = replace(told, verdict=Verdict.NOT_IDENTIFIABLE, bound=Bound.EXACT)
    before, after = told.before, told.after
    unseen = told.verdict is Verdict.NO_DATA and one.answer is not Answer.NO_DATA
    return ImpactRow(
        cluster_id=cluster_id,
        quota_type=one.quota_type,
        bucket=one.bucket,
        any_name=one.any_name,
        broker_id=one.broker_id,
        before_units=one.before_units,
        after_units=one.after_units,
        source_entity=one.source_entity,
        answer=one.answer,
        verdict=told.verdict,
        bound=told.bound,
        model=MODEL_OF[one.quota_type],
        before_throttled_ms=before.throttled_ms if before and not unseen else None,
        before_max_delay_ms=before.max_delay_ms if before and not unseen else None,
        observed_throttled_ms=None if unseen else told.observed_throttled_ms,
        after_throttled_ms=after.throttled_ms if after else None,
        after_max_delay_ms=after.max_delay_ms if after else None,
        after_over_timeout_ms=after.over_timeout_ms if after else None,
        delayed_units=after.delayed_units if after else None,
        unfinished=after.unfinished if after else None,
        covered_ms=told.covered_ms,
        censored_ms=told.censored_ms,
        why=NO_SAMPLES if unseen else one.why,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One bucket on all brokers: the worst one and how many, never a sum of minutes.

    Attributes:
        worst: The row of the worst broker; the lowest id of equal ones.
        brokers: How many brokers saw it.
        throttled: How many of them will throttle it, as far as is known.
    """

    worst: ImpactRow
    brokers: int
    throttled: int


def tenants(rows: Iterable[ImpactRow]) -> tuple[Tenant, ...]:
    """The rows by tenant, worst first; equal ones by cluster and name."""
    return tuple(_tenant(group) for group in _grouped(rows))


def _tenant(group: Sequence[ImpactRow]) -> Tenant:
    return Tenant(
        worst=group[0],
        brokers=sum(bool(one.broker_id) for one in group),
        throttled=sum((one.after_throttled_ms or 0) > 0 for one in group),
    )


def _grouped(rows: Iterable[ImpactRow]) -> list[list[ImpactRow]]:
    """The rows of each tenant, worst broker first, and the worst tenant first."""
    found: defaultdict[tuple[str, QuotaType, Bucket, bool], list[ImpactRow]] = defaultdict(list)
    for one in rows:
        found[one.cluster_id, one.quota_type, one.bucket, one.any_name].append(one)
    groups = [sorted(group, key=_worst_first) for _, group in sorted(found.items())]
    return sorted(groups, key=lambda group: _worst_first(group[0])[:3])


def _worst_first(one: ImpactRow) -> tuple[int, int, int, str]:
    return (
        -one.severity,
        -(one.after_throttled_ms or 0),
        -(one.after_max_delay_ms or 0),
        one.broker_id,
    )


class Noticed(NamedTuple):
    """How many buckets lose their history, and how many series limits cannot explain: :class:`Question` names them."""

    flipped: int
    unexplained: int


def told(
    rows: Iterable[ImpactRow],
    evidence: Iterable[Evidence],
    policy: WhatIfPolicy,
    *,
    questions: Iterable[Question] = (),
    notes: Iterable[str] = (),
    noticed: Noticed | None = None,
    most: int = MOST_ROWS,
) -> Simulation:
    """What is to be shown of a simulation, and what the policy refuses of it.

    Args:
        rows: Of all clusters.
        evidence: One per cluster.
        policy: The tiers.
        questions: What was asked, for what they noticed on the way.
        notes: More sentences about the whole.
        noticed: How much was noticed in all, where questions name only a part of it; ``None`` = what they name.
        most: Whole tenants are shown up to so many rows, at least one; those that the policy refuses come first.
    """
    elastic = policy.elastic is Elastic.IGNORE
    groups = _grouped(rows)
    shown, ignored = _split(groups, policy) if elastic else (groups, 0)
    refused = [(group, _refused(group, policy)) for group in shown]
    refused.sort(key=lambda pair: not pair[1])  # stable: worst first within both
    kept: list[ImpactRow] = []
    left: list[ImpactRow] = []
    for group, _ in refused:
        into = left if left or (kept and len(kept) + len(group) > most) else kept
        into += group
    asked = tuple(questions)
    flipped = sorted(one for each in asked for one in each.flipped)
    unexplained = sorted(one for each in asked for one in each.unexplained)
    said = [*notes, *(note for one in asked for note in one.notes)]
    whole = noticed or Noticed(len(flipped), len(unexplained))
    said += _counted(
        (ignored, CONSUMERS),
        (whole.flipped, "buckets without a limit will be counted under other names, and their history ends"),
        (whole.unexplained, "series cannot have been recorded under the limits of today"),
    )  # fmt: skip
    return Simulation(
        evidence=tuple(sorted(evidence, key=lambda one: one.cluster_id)),
        rows=tuple(kept),
        left_out=len(left),
        left_blind=sum(not one.judged for one in left),
        verdicts=verdicts_of([*kept, *left]),
        breaches=tuple(one for _, found in refused for one in found),
        flipped=tuple(flipped[:MOST_NAMES]),
        unexplained=tuple(unexplained[:MOST_NAMES]),
        notes=tuple(said),
    )


def _counted(*counts: tuple[int, str]) -> list[str]:
    return [f"{amount:,} {words}" for amount, words in counts if amount]


def _split(
    groups: Sequence[list[ImpactRow]], policy: WhatIfPolicy
) -> tuple[list[list[ImpactRow]], int]:
    """The tenants that are not elastic, and how many are."""
    kept = [
        group
        for group in groups
        if not policy.tolerance_of(
            group[0].cluster_id, group[0].quota_type, group[0].bucket
        ).elastic
    ]
    return kept, len(groups) - len(kept)


def _refused(group: Sequence[ImpactRow], policy: WhatIfPolicy) -> list[TierBreach]:
    """What is refused of one tenant: of every figure the worst broker's."""
    first = group[0]
    tier = policy.tier_of(first.cluster_id, first.bucket)
    tolerance = policy.tolerance_of(first.cluster_id, first.quota_type, first.bucket)
    worst: dict[str, tuple[ImpactRow, Breach]] = {}
    for row in group:
        for found in breaches(_impact_of(row), tolerance):
            other = worst.get(found.what)
            if other is None or found.found_ms > other[1].found_ms:
                worst[found.what] = row, found
    return [TierBreach(row=row, tier=tier.name, breach=one) for row, one in worst.values()]


def _impact_of(row: ImpactRow) -> Impact:
    """A row as the verdict knows it."""
    return Impact(
        verdict=row.verdict,
        bound=row.bound,
        before=_forecast(row, row.before_throttled_ms, row.before_max_delay_ms),
        observed_throttled_ms=row.observed_throttled_ms,
        after=_forecast(row, row.after_throttled_ms, row.after_max_delay_ms),
        covered_ms=row.covered_ms,
        censored_ms=row.censored_ms,
    )


def _forecast(
    row: ImpactRow, throttled_ms: int | None, max_delay_ms: int | None
) -> Forecast | None:
    if throttled_ms is None:
        return None
    return Forecast(
        model=row.model,
        samples=0,
        covered_ms=row.covered_ms,
        arrived_units=0,
        throttled_ms=throttled_ms,
        max_delay_ms=max_delay_ms,
        over_timeout_ms=row.after_over_timeout_ms,
        delayed_units=row.delayed_units or 0,
        unfinished=row.unfinished or 0,
    )
