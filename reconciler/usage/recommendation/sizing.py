"""Right-sizing of one bucket from its series: tries limits on each span of the evidence and verifies the result."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from reconciler.usage.kernel.series import SampleSeries
from reconciler.usage.kernel.throttling import demand_of, simulate
from reconciler.usage.recommendation.limit_sizes import (
    LEAST_COVERED_PPM,
    LEAST_EVIDENCE_MS,
    LEAST_SAMPLES,
    WEEK_MS,
    Advice,
    SizedLimit,
    SizingCase,
    Tier,
    priced,
)
from reconciler.usage.recommendation.trial import LimitTrial, ThrottlePromise
from reconciler.usage.samples import MILLION, QuotaType


def recommend(case: SizingCase, tier: Tier, brokers: Iterable[SampleSeries]) -> SizedLimit:
    """Return a limit for one bucket with its evidence; no limit without enough evidence.

    Raises:
        QuotaValueError: Rates are out of range.
    """
    split = case.to_ms - WEEK_MS
    recorded = [series.between(case.from_ms, case.to_ms) for series in brokers]
    series = [broker_series for broker_series in recorded if len(broker_series)]

    def tried(from_ms: int, to_ms: int) -> LimitTrial:
        return trial(case.kind, series, from_ms, to_ms, case.max_gap_ms)

    train, test = tried(case.from_ms, split), tried(split, case.to_ms)
    # The weeks before the held-out one, the most recent first.
    weeks = [tried(end - WEEK_MS, end) for end in range(split, case.from_ms, -WEEK_MS)]
    promise = ThrottlePromise(share_ppm=tier.share_ppm, max_delay_ms=tier.max_delay_ms)
    spans = (train, *weeks[:1])
    needed = _needed(spans, promise)
    evidence = replace(_evidence(case, series), needed_units=needed, peak_units=train.peak)
    if (
        evidence.evidence_ms < LEAST_EVIDENCE_MS
        or evidence.samples < LEAST_SAMPLES
        or max((_ratio(each.covered_ms, case.to_ms - case.from_ms) for each in series), default=0)
        < LEAST_COVERED_PPM
        or needed is None
        or not test.brokers
    ):
        return evidence
    target, rules = priced(needed, tier, case, evidence.censored_ppm)
    (train_share, train_delay), (test_share, test_delay) = train.proof(target), test.proof(target)
    advice = Advice.CHANGE
    if test_share > 2 * tier.share_ppm:
        advice = Advice.REFUSED
    elif case.pinned or target == case.current:
        advice = Advice.KEEP
    return replace(
        evidence,
        advice=advice,
        target_units=target,
        lower_units=_needed(spans, replace(promise, share_ppm=2 * tier.share_ppm)),
        upper_units=_needed(spans, replace(promise, parts=2)),
        worst_week_units=max((week.smallest(promise) or 0 for week in weeks), default=None),
        rules=rules,
        train_share_ppm=train_share,
        train_max_delay_ms=train_delay,
        test_share_ppm=test_share,
        test_max_delay_ms=test_delay,
    )


def _evidence(case: SizingCase, brokers: Sequence[SampleSeries]) -> SizedLimit:
    """Return the evidence before any limit is tried, with the advice "insufficient"."""
    window_ms = case.to_ms - case.from_ms
    begins = (int(series.ts_ms[0] - series.dt_ms[0]) for series in brokers)
    covered_ms = [series.covered_ms for series in brokers]
    return SizedLimit(
        advice=Advice.INSUFFICIENT,
        current_units=case.current,
        brokers=len(brokers),
        evidence_ms=max((int(series.ts_ms[-1]) for series in brokers), default=0)
        - min(begins, default=0),
        samples=sum(map(len, brokers)),
        confidence_ppm=min((_ratio(covered, window_ms) for covered in covered_ms), default=0),
        censored_ppm=_ratio(sum(series.censored_ms for series in brokers), sum(covered_ms)),
    )


def _ratio(part: int, total: int) -> int:
    """Return a share in millionths, rounded down, at most one million."""
    return min(MILLION, part * MILLION // total) if total > 0 else 0


def _needed(trials: Sequence[LimitTrial], promise: ThrottlePromise) -> int | None:
    """Return the largest of the smallest limits of the spans; ``None`` if the first span has none."""
    smallest_limits = [span_trial.smallest(promise) for span_trial in trials]
    return max(limit or 0 for limit in smallest_limits) if smallest_limits[0] is not None else None


def trial(
    kind: QuotaType, series: Sequence[SampleSeries], from_ms: int, to_ms: int, max_gap_ms: int
) -> LimitTrial:
    """Return a trial of the series of each broker in a time span, its end exclusive.

    Raises:
        QuotaValueError: Rates are out of range.
    """
    spans = (broker_series.between(from_ms, to_ms) for broker_series in series)
    demands = [demand_of(span, max_gap_ms) for span in spans if len(span)]
    return LimitTrial(
        brokers=len(demands),
        peak=max((demand.peak for demand in demands), default=0),
        simulated=lambda limit: tuple(simulate(kind, demand, limit) for demand in demands),
    )
