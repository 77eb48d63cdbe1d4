"""Replays recorded series under changed limits: the verdict on each bucket on each broker with its figures, and its row.

Every figure has a bound. The recursion grows with demand, and recorded use is at most the demand, so use gives a lower bound
where it is censored; and the sum of series that include other clients gives an upper bound. If both would be needed,
there is no figure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from reconciler.usage.clients import Clients
from reconciler.usage.impact.bucket_mapping import Identifiability
from reconciler.usage.impact.query import ImpactQuery, ImpactRequest
from reconciler.usage.impact.result_rows import ImpactRow
from reconciler.usage.impact.tier_policy import NOT_STATED, StatedClients
from reconciler.usage.impact.verdict import (
    HIDDEN_BURSTS,
    REQUESTS_UNSTATED,
    TOO_MANY_REQUESTS,
    BucketImpact,
    ForecastRange,
    ImpactVerdict,
    compared,
    extremes,
    is_near,
)
from reconciler.usage.impact.what_if import row_of
from reconciler.usage.kernel.request_replay import Spread, likely, limited, replayed
from reconciler.usage.kernel.series import NOTHING, SampleSeries, summed
from reconciler.usage.kernel.throttling import Demand, demand_of, simulate
from reconciler.usage.samples import QuotaType
from reconciler.usage.tags import Bucket
from reconciler.usage.throttle_models import FigureBound, Forecast, LimitMove, move


def judged(
    question: ImpactQuery,
    series: Mapping[QuotaType, Mapping[Bucket, Mapping[str, SampleSeries]]],
    max_gap_ms: int,
    clients: StatedClients = NOT_STATED,
) -> tuple[ImpactRow, ...]:
    """Return one row for each affected bucket on each broker, in the order of the query.

    Args:
        series: The samples of each broker, of every bucket that :attr:`ImpactQuery.reads` lists.
        max_gap_ms: A longer gap starts a new session.
        clients: What is stated about requests.

    Raises:
        QuotaValueError: Rates are out of range, or a limit cannot be simulated.
    """
    rows: list[ImpactRow] = []
    for request in question.requests:
        by_bucket = series.get(request.quota_type, {})
        parts = [
            by_bucket.get(part.bucket, {}).get(request.broker_id, NOTHING) for part in request.parts
        ]
        rows.append(replayed_row(question.cluster_id, request, parts, max_gap_ms, clients))
    return tuple(rows)


def replayed_row(
    cluster_id: str,
    request: ImpactRequest,
    parts: Sequence[SampleSeries],
    max_gap_ms: int,
    clients: StatedClients,
) -> ImpactRow:
    """Return one row: the old buckets under current limits, and their sum under the new limit.

    Args:
        request: The future row.
        parts: The samples of the old buckets on the broker, in the order of the request's parts.
        max_gap_ms: A longer gap starts a new session.
        clients: What is stated about requests.

    Raises:
        QuotaValueError: Rates are out of range, or a limit cannot be simulated.
    """
    kind = request.quota_type
    buckets = [
        OldBucket(samples=samples, limit=part.limit, clients=clients.of(kind, part.bucket))
        for samples, part in zip(parts, request.parts, strict=True)
    ]
    return row_of(
        cluster_id,
        request,
        impact(
            kind,
            request.answer,
            buckets,
            request.after_units,
            max_gap_ms=max_gap_ms,
            clients=clients.of(kind, request.bucket),
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OldBucket:
    """An old bucket: its samples, its current limit in units (``None`` = unlimited), and what is known about its clients."""

    samples: SampleSeries
    limit: int | None
    clients: Clients | None = None


def impact(
    kind: QuotaType,
    answer: Identifiability,
    parts: Sequence[OldBucket],
    limit: int | None,
    *,
    max_gap_ms: int,
    clients: Clients | None = None,
) -> BucketImpact:
    """Compute the effect of a limit on a bucket on one broker.

    Args:
        answer: How far the parts determine the use of the bucket (:func:`~reconciler.usage.impact.bucket_mapping.regroup`).
        parts: The old buckets it consists of, with the samples of this broker.
        limit: The new limit in units; ``None`` = unlimited.
        max_gap_ms: A longer gap starts a new session.
        clients: What is known about the clients of the bucket; ``None`` for types that do not count bytes.

    Raises:
        QuotaValueError: Rates are out of range, or a limit cannot be simulated.
    """
    combined = summed([part.samples for part in parts])
    before = [
        forecasts(kind, demand_of(part.samples, max_gap_ms), part.limit, part.clients)
        for part in parts
    ]
    longest = max(before, key=lambda forecast_range: _length(forecast_range.best), default=None)
    after = None
    judgement: Judgement
    if not len(combined) or longest is None or answer is Identifiability.NO_DATA:
        judgement = ImpactVerdict.NO_DATA, FigureBound.EXACT, None
    elif answer is Identifiability.NOT_IDENTIFIABLE:
        judgement = ImpactVerdict.NOT_IDENTIFIABLE, FigureBound.EXACT, None
    else:
        after = forecasts(kind, demand_of(combined, max_gap_ms), limit, clients)
        if answer is Identifiability.BOUND:
            judgement = _by_bound(combined, limit, after.worst)
        else:
            limit_move = move(parts[0].limit, limit) if len(parts) == 1 else None
            judgement = _exactly(combined, limit, longest, after, limit_move)
    verdict, bound, figure = judgement
    observed = [part.samples.throttled_ms for part in parts]
    return BucketImpact(
        verdict=verdict,
        bound=bound,
        before=longest.best if longest else None,
        observed_throttled_ms=max((ms for ms in observed if ms is not None), default=None),
        after=figure,
        covered_ms=combined.covered_ms,
        censored_ms=combined.censored_ms,
        worst=after.worst if after and bound is FigureBound.BETWEEN else None,
        reason=_doubt(after, clients) if after and figure else "",
    )


def forecasts(
    kind: QuotaType, demand: Demand, limit: int | None, clients: Clients | None
) -> ForecastRange:
    """Return the best and the worst forecast of a limit for one bucket on one broker; equal if there is one figure.

    There is one if all is stated, and if bursts that a reading may hide change little.

    Args:
        demand: The recorded demand.
        limit: Units; ``None`` = unlimited.
        clients: What is known about the clients; ``None`` for types that do not count bytes.

    Raises:
        QuotaValueError: The limit cannot be simulated.
    """
    if clients is None or limit is None:
        forecast = simulate(kind, demand, limit)
        return ForecastRange(best=forecast, worst=forecast)
    work = limited(demand, limit)
    if not clients.is_stated:
        least = [replayed(work, requests, Spread.EVEN) for requests in clients.best()]
        most = [replayed(work, requests, Spread.BURSTS) for requests in clients.worst(limit)]
        return extremes([*least, *most])
    (requests,) = clients.best()
    likely_forecast = likely(work, requests)
    cases = [replayed(work, requests, spread) for spread in (Spread.EVEN, Spread.BURSTS)]
    if all(is_near(case, likely_forecast) for case in cases):
        return ForecastRange(best=likely_forecast, worst=likely_forecast)
    return extremes([likely_forecast, *cases])


def _doubt(after: ForecastRange, clients: Clients | None) -> str:
    if after.best.is_cut:
        return TOO_MANY_REQUESTS
    if after.is_one_figure or clients is None:
        return ""
    return HIDDEN_BURSTS if clients.is_stated else REQUESTS_UNSTATED


Judgement: TypeAlias = tuple[ImpactVerdict, FigureBound, Forecast | None]
"""Verdict, the relation of the figure to the true value, and the figure."""


def _exactly(
    combined: SampleSeries,
    limit: int | None,
    before: ForecastRange,
    after: ForecastRange,
    limit_move: LimitMove | None,
) -> Judgement:
    """Judge a bucket by its own series. Under a looser limit a censored series gives "better" without a figure."""
    best = after.best
    if limit_move is LimitMove.LOOSER and limit is not None and combined.wanted_more:
        return ImpactVerdict.BETTER, FigureBound.AT_MOST, None
    low = limit is not None and (best.is_lower_bound or combined.may_have_wanted_more)
    bound = FigureBound.EXACT if after.is_one_figure else FigureBound.BETWEEN
    if low:
        bound = FigureBound.AT_LEAST
    verdicts = {compared(before.best, best), compared(before.worst, after.worst)}
    if ImpactVerdict.WORSE in verdicts:
        return ImpactVerdict.WORSE, bound, best
    return verdicts.pop() if len(verdicts) == 1 else ImpactVerdict.SAME, bound, best


def _by_bound(combined: SampleSeries, limit: int | None, after: Forecast) -> Judgement:
    """Return "safe by bound" if the sum would not be throttled; a sum of censored rates is no bound."""
    bounded = limit is None or not combined.may_have_wanted_more
    if bounded and not after.throttled_ms and not after.is_lower_bound:
        return ImpactVerdict.SAFE_BY_BOUND, FigureBound.AT_MOST, after
    return ImpactVerdict.NOT_IDENTIFIABLE, FigureBound.AT_MOST, None


def _length(forecast: Forecast) -> tuple[int, int]:
    return forecast.throttled_ms, forecast.max_delay_ms or 0
