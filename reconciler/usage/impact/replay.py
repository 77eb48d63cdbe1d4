"""A change of limits replayed on recorded series: the facts of each bucket on each broker, and the row that is made of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reconciler.usage.impact.bucket_mapping import Identifiability
from reconciler.usage.impact.query import ImpactQuery, ImpactRequest
from reconciler.usage.impact.result_rows import ImpactRow
from reconciler.usage.impact.verdict import BucketImpact, ImpactFacts, weighed
from reconciler.usage.impact.what_if import row_of
from reconciler.usage.kernel.series import NOTHING, SampleSeries, summed
from reconciler.usage.kernel.throttling import demand_of, simulate
from reconciler.usage.samples import QuotaType
from reconciler.usage.tags import Bucket
from reconciler.usage.throttle_models import MIN_DELAY_MS


def judged(
    question: ImpactQuery,
    series: Mapping[QuotaType, Mapping[Bucket, Mapping[str, SampleSeries]]],
    max_gap_ms: int,
    min_delay_ms: int = MIN_DELAY_MS,
) -> tuple[ImpactRow, ...]:
    """One row for each bucket that changes on each broker, in the order of the question.

    Args:
        question: What is asked.
        series: The samples of each broker, of every bucket that :attr:`ImpactQuery.reads` lists.
        max_gap_ms: A longer gap begins a session.
        min_delay_ms: A shorter delay is no throttling.

    Raises:
        QuotaValueError: Rates that cannot be counted.
    """
    return tuple(
        replayed(
            question.cluster_id,
            request,
            [
                series.get(request.quota_type, {})
                .get(part.bucket, {})
                .get(request.broker_id, NOTHING)
                for part in request.parts
            ],
            max_gap_ms,
            min_delay_ms,
        )
        for request in question.requests
    )


def replayed(
    cluster_id: str,
    request: ImpactRequest,
    parts: Sequence[SampleSeries],
    max_gap_ms: int,
    min_delay_ms: int = MIN_DELAY_MS,
) -> ImpactRow:
    """One row: the old buckets under their limits of today, and their sum under the limit to come.

    Args:
        cluster_id: Which cluster.
        request: What is asked.
        parts: The samples of the old buckets on the broker, in the order of its parts.
        max_gap_ms: A longer gap begins a session.
        min_delay_ms: A shorter delay is no throttling.

    Raises:
        QuotaValueError: Rates that cannot be counted, or a limit that cannot be simulated.
    """
    buckets = [
        OldBucket(samples=samples, limit=part.limit)
        for samples, part in zip(parts, request.parts, strict=True)
    ]
    bucket_impact = impact(
        request.quota_type,
        request.answer,
        buckets,
        request.after_units,
        max_gap_ms=max_gap_ms,
        min_delay_ms=min_delay_ms,
    )
    return row_of(cluster_id, request, bucket_impact)


@dataclass(frozen=True, slots=True, kw_only=True)
class OldBucket:
    """An old bucket: its samples, and the limit that it has now, in units (``None`` = unlimited)."""

    samples: SampleSeries
    limit: int | None


def impact(
    kind: QuotaType,
    answer: Identifiability,
    parts: Sequence[OldBucket],
    limit: int | None,
    *,
    max_gap_ms: int,
    min_delay_ms: int = MIN_DELAY_MS,
) -> BucketImpact:
    """What a limit will do to a bucket on one broker.

    Args:
        kind: What is limited.
        answer: How far the parts say what the bucket will use (:func:`~reconciler.usage.impact.bucket_mapping.regroup`).
        parts: The old buckets that it is made of, with the samples of this broker.
        limit: To come, in units; ``None`` = unlimited.
        max_gap_ms: A longer gap begins a session.
        min_delay_ms: A shorter delay is no throttling.

    Raises:
        QuotaValueError: Rates that cannot be counted, or a limit that cannot be simulated.
    """
    combined = summed([part.samples for part in parts])
    readable = len(combined) > 0 and answer in (Identifiability.EXACT, Identifiability.BOUND)
    facts = ImpactFacts(
        kind=kind,
        samples=len(combined),
        covered_ms=combined.covered_ms,
        censored_ms=combined.censored_ms,
        wanted_more=combined.wanted_more,
        may_have_wanted_more=combined.may_have_wanted_more,
        before=tuple(
            simulate(kind, demand_of(part.samples, max_gap_ms), part.limit, min_delay_ms)
            for part in parts
        ),
        observed_ms=tuple(part.samples.throttled_ms for part in parts),
        after=(
            simulate(kind, demand_of(combined, max_gap_ms), limit, min_delay_ms)
            if readable
            else None
        ),
    )
    return weighed(answer, [part.limit for part in parts], limit, facts)
