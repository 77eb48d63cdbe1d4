"""Replays recorded series under changed limits: the facts of each bucket on each broker, and its row."""

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
    """Return one row for each affected bucket on each broker, in the order of the query.

    Args:
        series: The samples of each broker, of every bucket that :attr:`ImpactQuery.reads` lists.
        max_gap_ms: A longer gap starts a new session.
        min_delay_ms: A shorter delay is not counted as throttling.
        consumers: The sizes of consumer fetches.

    Raises:
        QuotaValueError: Rates are out of range, or a limit cannot be simulated.
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
    """Return one row: the old buckets under current limits, and their sum under the new limit.

    Args:
        request: The future row.
        parts: The samples of the old buckets on the broker, in the order of the request's parts.
        max_gap_ms: A longer gap starts a new session.
        min_delay_ms: A shorter delay is not counted as throttling.
        consumers: The sizes of consumer fetches.

    Raises:
        QuotaValueError: Rates are out of range, or a limit cannot be simulated.
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
    """An old bucket: its samples, its current limit in units (``None`` = unlimited), and the fetch size of its consumers."""

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
    """Compute the effect of a limit on a bucket on one broker.

    Args:
        answer: How far the parts determine the use of the bucket (:func:`~reconciler.usage.impact.bucket_mapping.regroup`).
        parts: The old buckets it consists of, with the samples of this broker.
        limit: The new limit in units; ``None`` = unlimited.
        max_gap_ms: A longer gap starts a new session.
        min_delay_ms: A shorter delay is not counted as throttling.
        fetch: The fetch size of the bucket; ``None`` for types other than fetch.

    Raises:
        QuotaValueError: Rates are out of range, or a limit cannot be simulated.
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
    """Return the best and the worst forecast of a limit for one bucket on one broker; equal if all is known.

    Args:
        demand: The recorded demand.
        limit: Units; ``None`` = unlimited.
        fetch: The fetch size; ``None`` for types other than fetch.
        min_delay_ms: A shorter delay is not counted as throttling.

    Raises:
        QuotaValueError: The limit cannot be simulated.
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
