"""Right-sizing of one bucket from its series: limits are tried on every span of the evidence, and the result is proven."""

from collections.abc import Iterable, Sequence

from reconciler.usage.kernel.series import SampleSeries
from reconciler.usage.kernel.throttling import demand_of, simulate
from reconciler.usage.recommendation.limit_sizes import (
    WEEK_MS,
    BucketObservation,
    Recommendation,
    SizingCase,
    Tier,
    evidence_of,
    proven,
    sized,
    week_spans,
)
from reconciler.usage.recommendation.trial import LimitTrial
from reconciler.usage.samples import QuotaType


def recommend(case: SizingCase, tier: Tier, brokers: Iterable[SampleSeries]) -> Recommendation:
    """A limit for one bucket, with its evidence.

    Args:
        case: The bucket.
        tier: What is promised to it.
        brokers: What each broker recorded of it.

    Raises:
        QuotaValueError: Rates that cannot be counted.
    """
    split = case.to_ms - WEEK_MS
    recorded = [series.between(case.from_ms, case.to_ms) for series in brokers]
    series = [broker_series for broker_series in recorded if len(broker_series)]
    evidence = evidence_of(case, [observation(broker_series) for broker_series in series])
    train, test = (
        trial(case.kind, series, from_ms, to_ms, case.max_gap_ms)
        for from_ms, to_ms in ((case.from_ms, split), (split, case.to_ms))
    )
    weeks = [
        trial(case.kind, series, from_ms, to_ms, case.max_gap_ms)
        for from_ms, to_ms in week_spans(case)
    ]
    planned = sized(case, tier, evidence, train, weeks, tested=test.brokers > 0)
    target = planned.target
    if target is None:
        return planned
    return proven(case, tier, planned, train.proof(target), test.proof(target))


def observation(series: SampleSeries) -> BucketObservation:
    """What one broker saw; the series holds a sample at least."""
    return BucketObservation(
        samples=len(series),
        begins_ms=int(series.ts_ms[0] - series.dt_ms[0]),
        ends_ms=int(series.ts_ms[-1]),
        covered_ms=series.covered_ms,
        censored_ms=series.censored_ms,
    )


def trial(
    kind: QuotaType, series: Sequence[SampleSeries], from_ms: int, to_ms: int, max_gap_ms: int
) -> LimitTrial:
    """A trial of what each broker saw in a span of time, its end not included.

    Raises:
        QuotaValueError: Rates that cannot be counted.
    """
    spans = (broker_series.between(from_ms, to_ms) for broker_series in series)
    demands = [demand_of(span, max_gap_ms) for span in spans if len(span)]
    return LimitTrial(
        brokers=len(demands),
        peak=max((demand.peak for demand in demands), default=0),
        simulated=lambda limit: tuple(simulate(kind, demand, limit) for demand in demands),
    )
