"""A change of limits replayed on recorded series: the facts of each bucket on each broker, and the row that is made of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reconciler.usage.fetches import FetchSize
from reconciler.usage.impact.bucket_mapping import Identifiability
from reconciler.usage.impact.query import ImpactQuery, ImpactRequest
from reconciler.usage.impact.result_rows import ImpactRow
from reconciler.usage.impact.tier_policy import NOT_STATED, ConsumerFetches
from reconciler.usage.impact.verdict import BucketImpact, ForecastRange, ImpactFacts, weighed
from reconciler.usage.impact.what_if import row_of
from reconciler.usage.kernel.series import NOTHING, SampleSeries, summed
from reconciler.usage.kernel.throttling import Demand, demand_of, simulate
from reconciler.usage.samples import QuotaType
from reconciler.usage.tags import Bucket
from reconciler.usage.throttle_models import MIN_DELAY_MS


def judged(
    question: ImpactQuery,
    series: Mapping[QuotaType, Mapping[Bucket, Mapping[str, SampleSeries]]],
    max_gap_ms: int,
    min_delay_ms: int = MIN_DELAY_MS,
    consumers: ConsumerFetches = NOT_STATED,
) -> tuple[ImpactRow, ...]:
    """One row for each bucket that changes on each broker, in the order of the question.

    Args:
        question: What is asked.
        series: The samples of each broker, of every bucket that :attr:`ImpactQuery.reads` lists.
        max_gap_ms: A longer gap begins a session.
        min_delay_ms: A shorter delay is no throttling.
        consumers: How large the fetches of consumers are.

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
            consumers=consumers,
        )
        for request in question.requests
    )


def replayed(
    cluster_id: str,
    request: ImpactRequest,
    parts: Sequence[SampleSeries],
    max_gap_ms: int,
    min_delay_ms: int = MIN_DELAY_MS,
    *,
    consumers: ConsumerFetches = NOT_STATED,
) -> ImpactRow:
    """One row: the old buckets under their limits of today, and their sum under the limit to come.

    Args:
        cluster_id: Which cluster.
        request: What is asked.
        parts: The samples of the old buckets on the broker, in the order of its parts.
        max_gap_ms: A longer gap begins a session.
        min_delay_ms: A shorter delay is no throttling.
        consumers: How large the fetches of consumers are.

    Raises:
        QuotaValueError: Rates that cannot be counted, or a limit that cannot be simulated.
    """
    buckets = [
        OldBucket(
            samples=samples,
            limit=part.limit,
            fetch=consumers.of(request.quota_type, part.bucket),
        )
        for samples, part in zip(parts, request.parts, strict=True)
    ]
    bucket_impact = impact(
        request.quota_type,
        request.answer,
        buckets,
        request.after_units,
        max_gap_ms=max_gap_ms,
        min_delay_ms=min_delay_ms,
        fetch=consumers.of(request.quota_type, request.bucket),
    )
    return row_of(cluster_id, request, bucket_impact)


@dataclass(frozen=True, slots=True, kw_only=True)
class OldBucket:
    """An old bucket: its samples, the limit that it has now, in units (``None`` = unlimited), and what its consumers fetch."""

    samples: SampleSeries
    limit: int | None
    fetch: FetchSize | None = None


def impact(
    kind: QuotaType,
    answer: Identifiability,
    parts: Sequence[OldBucket],
    limit: int | None,
    *,
    max_gap_ms: int,
    min_delay_ms: int = MIN_DELAY_MS,
    fetch: FetchSize | None = None,
) -> BucketImpact:
    """What a limit will do to a bucket on one broker.

    Args:
        kind: What is limited.
        answer: How far the parts say what the bucket will use (:func:`~reconciler.usage.impact.bucket_mapping.regroup`).
        parts: The old buckets that it is made of, with the samples of this broker.
        limit: To come, in units; ``None`` = unlimited.
        max_gap_ms: A longer gap begins a session.
        min_delay_ms: A shorter delay is no throttling.
        fetch: How large the fetches of the bucket are; ``None`` where nothing is fetched.

    Raises:
        QuotaValueError: Rates that cannot be counted, or a limit that cannot be simulated.
    """
    combined = summed([part.samples for part in parts])
    readable = len(combined) > 0 and answer in (Identifiability.EXACT, Identifiability.BOUND)
    after = None
    if readable:
        after = forecasts(kind, demand_of(combined, max_gap_ms), limit, fetch, min_delay_ms)
    facts = ImpactFacts(
        kind=kind,
        samples=len(combined),
        covered_ms=combined.covered_ms,
        censored_ms=combined.censored_ms,
        wanted_more=combined.wanted_more,
        may_have_wanted_more=combined.may_have_wanted_more,
        before=tuple(
            forecasts(
                kind, demand_of(part.samples, max_gap_ms), part.limit, part.fetch, min_delay_ms
            )
            for part in parts
        ),
        observed_ms=tuple(part.samples.throttled_ms for part in parts),
        after=after,
    )
    return weighed(answer, [part.limit for part in parts], limit, facts)


def forecasts(
    kind: QuotaType,
    demand: Demand,
    limit: int | None,
    fetch: FetchSize | None,
    min_delay_ms: int = MIN_DELAY_MS,
) -> ForecastRange:
    """The best and the worst that a limit can do to one bucket on one broker; the same where all is known.

    Args:
        kind: What is limited.
        demand: What was recorded.
        limit: In units; ``None`` = unlimited.
        fetch: How large the fetches are; ``None`` where nothing is fetched.
        min_delay_ms: A shorter delay is no throttling.

    Raises:
        QuotaValueError: A limit that cannot be simulated.
    """
    if fetch is None or limit is None:
        forecast = simulate(kind, demand, limit, min_delay_ms)
        return ForecastRange(best=forecast, worst=forecast)
    obtained = fetch.obtained(limit)
    best = simulate(kind, demand, limit, min_delay_ms, obtained.most)
    if obtained.least == obtained.most:
        return ForecastRange(best=best, worst=best)
    return ForecastRange(
        best=best, worst=simulate(kind, demand, limit, min_delay_ms, obtained.least)
    )
