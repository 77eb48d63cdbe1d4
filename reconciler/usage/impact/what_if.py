"""The impact of a plan on recorded use: one row for each affected bucket on each broker, tenants, and breaches of the policy."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from reconciler.usage.impact.bucket_mapping import (
    CUSTOM_CALLBACK,
    HISTORY_BREAKS,
    NOTHING_SEEN,
    ONLY_PARTLY,
    UNKNOWN_CLIENTS,
    UNKNOWN_USERS,
    Identifiability,
)
from reconciler.usage.impact.query import (
    FOREIGN_ENTITIES,
    INVALID_LIMIT,
    NO_LIMITED_CLIENT,
    NOT_MEASURED,
    ImpactQuery,
    ImpactRequest,
)
from reconciler.usage.impact.result_rows import (
    EvidenceNote,
    ImpactRow,
    Simulation,
    TierBreach,
    verdicts_of,
)
from reconciler.usage.impact.tier_policy import ElasticHandling, WhatIfPolicy
from reconciler.usage.impact.verdict import (
    HIDDEN_BURSTS,
    REQUESTS_UNSTATED,
    TOO_MANY_REQUESTS,
    BucketImpact,
    ImpactVerdict,
    Tolerance,
    ToleranceBreach,
)
from reconciler.usage.samples import DAY_MS, MODEL_OF, QuotaType, ThrottleModel
from reconciler.usage.tags import Bucket
from reconciler.usage.throttle_models import FigureBound

NO_SAMPLES: Final = "no sample of it lies in the window"
NO_EVIDENCE: Final = "no evidence counts"
TOO_MANY: Final = (
    "a preview does not read that number of series; `kquota usage simulate` reads all of them"
)
REASONS: Final = frozenset(
    {
        "",
        NO_SAMPLES,
        NO_EVIDENCE,
        TOO_MANY,
        NOT_MEASURED,
        NO_LIMITED_CLIENT,
        INVALID_LIMIT,
        UNKNOWN_USERS,
        UNKNOWN_CLIENTS,
        ONLY_PARTLY,
        HISTORY_BREAKS,
        TOO_MANY_REQUESTS,
        REQUESTS_UNSTATED,
        HIDDEN_BURSTS,
        NOTHING_SEEN,
        CUSTOM_CALLBACK,
        FOREIGN_ENTITIES,
    }
)
"""All reasons that a row of a preview may have."""

MOST_ROWS: Final = 200
"""Maximum number of rows in a preview; the rest is counted."""

CONSUMERS: Final = "tenants are consumers, whose use follows their limit, and are not shown"
"""The note if elastic types are ignored."""


def unread(question: ImpactQuery, reason: str) -> tuple[ImpactRow, ...]:
    """Return the rows of a query whose series are not read, with the reason; requests without parts keep their own reason."""
    requests = (
        replace(request, answer=Identifiability.NO_DATA, parts=(), reason=reason)
        if request.parts
        else request
        for request in question.requests
    )
    nothing = BucketImpact(verdict=ImpactVerdict.NO_DATA)
    return tuple(row_of(question.cluster_id, request, nothing) for request in requests)


def portions(
    question: ImpactQuery, *, at_once: int, max_buckets: int
) -> tuple[tuple[ImpactQuery, ...], ImpactQuery]:
    """Split a query into parts that are read one after the other, to bound memory.

    Args:
        at_once: Maximum number of series (a bucket on a broker) in one part; a single row may need more.
        max_buckets: Maximum number of series in all parts.

    Returns:
        The parts, and the requests beyond ``max_buckets``.
    """
    parts: list[list[ImpactRequest]] = [[]]
    unread_requests: list[ImpactRequest] = []
    total = size = 0
    for request in question.requests:
        need = len(request.parts)
        if need and (unread_requests or total + need > max_buckets):
            unread_requests.append(request)
            continue
        if size and size + need > at_once:
            parts.append([])
            size = 0
        parts[-1].append(request)
        size += need
        total += need
    return (
        tuple(replace(question, requests=tuple(each)) for each in parts if each),
        replace(question, requests=tuple(unread_requests)),
    )


def row_of(cluster_id: str, request: ImpactRequest, bucket_impact: BucketImpact) -> ImpactRow:
    """Combine a request with its impact; requests that are not identifiable stay so."""
    if request.answer is Identifiability.NOT_IDENTIFIABLE:
        bucket_impact = replace(
            bucket_impact, verdict=ImpactVerdict.NOT_IDENTIFIABLE, bound=FigureBound.EXACT
        )
    before, after, worst = bucket_impact.before, bucket_impact.after, bucket_impact.worst
    unseen = (
        bucket_impact.verdict is ImpactVerdict.NO_DATA
        and request.answer is not Identifiability.NO_DATA
    )
    return ImpactRow(
        cluster_id=cluster_id,
        quota_type=request.quota_type,
        bucket=request.bucket,
        any_name=request.any_name,
        broker_id=request.broker_id,
        before_units=request.before_units,
        after_units=request.after_units,
        source_entity=request.source_entity,
        answer=request.answer,
        verdict=bucket_impact.verdict,
        bound=bucket_impact.bound,
        model=MODEL_OF[request.quota_type],
        before_throttled_ms=before.throttled_ms if before and not unseen else None,
        before_max_delay_ms=before.max_delay_ms if before and not unseen else None,
        observed_throttled_ms=None if unseen else bucket_impact.observed_throttled_ms,
        after_throttled_ms=after.throttled_ms if after else None,
        after_max_delay_ms=after.max_delay_ms if after else None,
        after_over_timeout_ms=after.over_timeout_ms if after else None,
        delayed_units=after.delayed_units if after else None,
        unfinished=after.unfinished if after else None,
        covered_ms=bucket_impact.covered_ms,
        censored_ms=bucket_impact.censored_ms,
        why=NO_SAMPLES if unseen else request.reason or bucket_impact.reason,
        worst_throttled_ms=worst.throttled_ms if worst else None,
        worst_max_delay_ms=worst.max_delay_ms if worst else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantImpact:
    """One bucket on all brokers: the worst broker and the number of brokers, never a sum of minutes."""

    worst: ImpactRow  # the row of the worst broker; the lowest id of equal ones
    brokers: int
    throttled: int  # number of brokers with a figure that will throttle it


def tenants(rows: Iterable[ImpactRow]) -> tuple[TenantImpact, ...]:
    """Return the rows by tenant, worst first; equal ones by cluster and name."""
    return tuple(_tenant(group) for group in _grouped(rows))


def _tenant(group: Sequence[ImpactRow]) -> TenantImpact:
    return TenantImpact(
        worst=group[0],
        brokers=sum(bool(impact_row.broker_id) for impact_row in group),
        throttled=sum((impact_row.after_throttled_ms or 0) > 0 for impact_row in group),
    )


def _grouped(rows: Iterable[ImpactRow]) -> list[list[ImpactRow]]:
    """Return the rows of each tenant, worst broker first, and the worst tenant first."""
    rows_by_tenant: defaultdict[tuple[str, QuotaType, Bucket, bool], list[ImpactRow]] = defaultdict(
        list
    )
    for impact_row in rows:
        rows_by_tenant[
            impact_row.cluster_id, impact_row.quota_type, impact_row.bucket, impact_row.any_name
        ].append(impact_row)
    groups = [sorted(group, key=_worst_first) for _, group in sorted(rows_by_tenant.items())]
    return sorted(groups, key=lambda group: _worst_first(group[0])[:3])


def _worst_first(impact_row: ImpactRow) -> tuple[int, int, int, str]:
    return (
        -impact_row.severity,
        -(impact_row.after_throttled_ms or 0),
        -(impact_row.after_max_delay_ms or 0),
        impact_row.broker_id,
    )


def summarize(
    rows: Iterable[ImpactRow],
    evidence: Iterable[EvidenceNote],
    policy: WhatIfPolicy,
    *,
    questions: Iterable[ImpactQuery] = (),
    notes: Iterable[str] = (),
    max_rows: int = MOST_ROWS,
) -> Simulation:
    """Return the shown part of a simulation, and its breaches of the policy.

    Args:
        rows: Rows of all clusters.
        evidence: One note per cluster.
        policy: The tiers.
        questions: The queries, for their numbers of flipped and unexplained buckets and notes.
        notes: More sentences about the whole.
        max_rows: Maximum number of rows; tenants are shown whole, and at least one; those that the policy refuses come first.
    """
    elastic = policy.elastic is ElasticHandling.IGNORE
    groups = _grouped(rows)
    shown_groups, ignored = _split(groups, policy) if elastic else (groups, 0)
    refused_groups = [(group, _tier_breaches(group, policy)) for group in shown_groups]
    refused_groups.sort(key=lambda pair: not pair[1])  # stable: worst first within both
    shown_rows: list[ImpactRow] = []
    remaining_rows: list[ImpactRow] = []
    for group, _ in refused_groups:
        into = (
            remaining_rows
            if remaining_rows or (shown_rows and len(shown_rows) + len(group) > max_rows)
            else shown_rows
        )
        into += group
    all_questions = tuple(questions)
    sentences = [*notes, *(note for question in all_questions for note in question.notes)]
    sentences += _count_phrases(
        (ignored, CONSUMERS),
        (
            sum(question.flipped for question in all_questions),
            "buckets without a limit will be counted under other names, and their history ends",
        ),
        (
            sum(question.unexplained for question in all_questions),
            "series were recorded under limits other than the current ones",
        ),
    )
    return Simulation(
        evidence=tuple(sorted(evidence, key=lambda note: note.cluster_id)),
        rows=tuple(shown_rows),
        left_out=len(remaining_rows),
        left_blind=sum(not impact_row.judged for impact_row in remaining_rows),
        verdicts=verdicts_of([*shown_rows, *remaining_rows]),
        breaches=tuple(
            tier_breach for _, tier_breaches in refused_groups for tier_breach in tier_breaches
        ),
        notes=tuple(sentences),
    )


def _count_phrases(*counts: tuple[int, str]) -> list[str]:
    return [f"{amount:,} {words}" for amount, words in counts if amount]


def _split(
    groups: Sequence[list[ImpactRow]], policy: WhatIfPolicy
) -> tuple[list[list[ImpactRow]], int]:
    """Return the tenants that are not elastic, and the number of elastic ones."""
    relevant_groups = [
        group
        for group in groups
        if not policy.tolerance_of(
            group[0].cluster_id, group[0].quota_type, group[0].bucket
        ).elastic
    ]
    return relevant_groups, len(groups) - len(relevant_groups)


def _tier_breaches(group: Sequence[ImpactRow], policy: WhatIfPolicy) -> list[TierBreach]:
    """Return the breaches of one tenant: for each figure that of the worst broker."""
    first = group[0]
    tier = policy.tier_of(first.cluster_id, first.bucket)
    tolerance = policy.tolerance_of(first.cluster_id, first.quota_type, first.bucket)
    worst: dict[str, tuple[ImpactRow, ToleranceBreach]] = {}
    for row in group:
        for breach in breaches(row, tolerance):
            worst_so_far = worst.get(breach.what)
            if worst_so_far is None or breach.found_ms > worst_so_far[1].found_ms:
                worst[breach.what] = row, breach
    return [
        TierBreach(row=row, tier=tier.name, breach=tier_breach)
        for row, tier_breach in worst.values()
    ]


def breaches(row: ImpactRow, tolerance: Tolerance) -> tuple[ToleranceBreach, ...]:
    """Return the breaches of a policy by an impact.

    Only figures that the change makes worse: unknown and approximate impacts are printed, not refused, because a gate that
    refuses on uncertain figures would soon be disabled.
    """
    before_ms, after_ms = row.before_throttled_ms, row.after_throttled_ms
    if (
        tolerance.elastic
        or row.verdict is not ImpactVerdict.WORSE
        or before_ms is None
        or after_ms is None
        or row.model is ThrottleModel.APPROXIMATE
    ):
        return ()
    tolerance_breaches: list[ToleranceBreach] = []
    daily = (after_ms - before_ms) * DAY_MS // max(1, row.covered_ms)
    allowed = tolerance.new_throttled_ms_per_day
    if allowed is not None and daily > allowed:
        tolerance_breaches.append(
            ToleranceBreach(what="newly throttled per day", found_ms=daily, allowed_ms=allowed)
        )
    worst, allowed = row.after_max_delay_ms or 0, tolerance.max_delay_ms
    if allowed is not None and worst > max(allowed, row.before_max_delay_ms or 0):
        tolerance_breaches.append(
            ToleranceBreach(what="worst delay", found_ms=worst, allowed_ms=allowed)
        )
    return tuple(tolerance_breaches)
