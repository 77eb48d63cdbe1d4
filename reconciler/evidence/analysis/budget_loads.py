"""Recorded use of budgets under the limits of a plan: the coincident load of the worst broker.

The rates of all counted clients are added up moment by moment, then the rate is taken that is not exceeded in 99.9 % of
the time. Of the whole cluster the total rate of each broker is recorded, so only clients whose limit the plan changes are
read; of a namespace or of some entities, all counted clients are.

Recorded use is at most demand: what a limit held back was not seen, so a raise adds nothing here.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from reconciler.evidence.store.published_evidence import PublishedEvidence
from reconciler.quota.entity import Entity
from reconciler.quota.planner.budgets import BudgetMeasure, BudgetUse, observed
from reconciler.quota.state import QuotaState
from reconciler.usage.kernel.broker_load import COINCIDENT_PPM, CoincidentRates, weighted
from reconciler.usage.kernel.throttling import demand_of, served
from reconciler.usage.samples import (
    DAY_MS,
    TYPE_OF,
    QuotaType,
    ValueState,
    in_kafka_units,
    limit_state,
    limit_units,
)
from reconciler.usage.tags import Bucket, KeyLimits, book, limit_of

FAR_ABOVE: Final = 2
MOST_CLIENTS: Final = 10
"""The use of a default limit is read for at most so many clients."""

MOST_SERIES: Final = 600
"""Series that one budget reads at most: 24 million samples of a fortnight at 30 s."""


def observed_uses(
    published: PublishedEvidence,
    uses: Iterable[BudgetUse],
    before: QuotaState,
    after: QuotaState,
) -> tuple[BudgetUse, ...]:
    """Return the uses with recorded use in place of the promised sum, where a budget asks for it and it was recorded.

    Of an exceeded budget, the largest limits that are far above their use are named, whatever its basis.

    Args:
        before: The limits before the plan.
        after: The limits after it.

    Raises:
        LakeError: The evidence cannot be read.
    """
    compared = (
        _observed(published, use, before, after)
        if use.budget.basis is BudgetMeasure.OBSERVED
        else use
        for use in uses
    )
    return tuple(
        replace(use, spare=tuple(_spare(published, use, after))) if use.is_exceeded else use
        for use in compared
    )


def _spare(
    published: PublishedEvidence, use: BudgetUse, after: QuotaState
) -> Iterator[tuple[Entity, float]]:
    """Yield the largest limits that are at least :data:`FAR_ABOVE` times their recorded use, with the use of one client."""
    kind, limits = TYPE_OF[use.budget.key], book(after, use.budget.key)
    sources = {
        bucket: effective[0]
        for of_broker in published.buckets_by_broker(kind).values()
        for bucket in of_broker
        if (effective := limit_of(limits, bucket)) is not None
    }
    for share in use.largest:
        buckets = [bucket for bucket, source in sources.items() if source == share.entity]
        if not 0 < len(buckets) <= MOST_CLIENTS:
            continue
        used = max(
            weighted(series.rate_units, series.dt_ms, COINCIDENT_PPM)
            for of_broker in published.series(kind, buckets).values()
            for series in of_broker.values()
        )
        if in_kafka_units(kind, used) * FAR_ABOVE <= share.limit:
            yield share.entity, in_kafka_units(kind, used)


def _observed(
    published: PublishedEvidence, use: BudgetUse, before: QuotaState, after: QuotaState
) -> BudgetUse:
    budget = use.budget
    kind = TYPE_OF[budget.key]
    if not published.measured(kind):
        return replace(use, note="the brokers recorded no use of this kind")
    old, new = book(before, budget.key), book(after, budget.key)
    is_whole = not (budget.namespaces or budget.entities)
    totals = published.broker_rates(kind) if is_whole else {}
    series_by_broker = published.buckets_by_broker(kind)
    buckets = sorted(
        {
            bucket
            for of_broker in series_by_broker.values()
            for bucket in of_broker
            if (
                _units(kind, old, bucket) != _units(kind, new, bucket)
                if totals
                else is_whole or _is_counted(use, new, bucket)
            )
        }
    )
    number = sum(len(of_broker & set(buckets)) for of_broker in series_by_broker.values())
    if number > MOST_SERIES:
        return replace(use, note=f"{number:,} series would have to be read")
    step_ms, gap_ms = published.cadence.step_ms, published.cadence.max_gap_ms
    window = published.note.from_ms, published.note.to_ms
    loads = {broker: CoincidentRates(window, step_ms, total) for broker, total in totals.items()}
    for bucket, of_broker in published.series(kind, buckets).items():
        limit = _units(kind, new, bucket)
        for broker, series in of_broker.items():
            load = loads.setdefault(broker, CoincidentRates(window, step_ms, None))
            rates = served(demand_of(series, gap_ms), limit) * 1000 // series.dt_ms
            load.add(series.ts_ms, series.rate_units, rates)
    figures = {broker: load.figures for broker, load in loads.items()}
    if not figures:
        return observed(use, before=0.0, after=0.0, note="no counted client was seen")
    worst = max(figures, key=lambda broker: figures[broker][1])
    days = (window[1] - window[0]) / DAY_MS
    return observed(
        use,
        before=in_kafka_units(kind, max(figure[0] for figure in figures.values())),
        after=in_kafka_units(kind, figures[worst][1]),
        note=f"not exceeded in 99.9 % of {days:.1f} days on the worst broker, {worst}; clients that were throttled may want more",
    )


def _is_counted(use: BudgetUse, limits: KeyLimits, bucket: Bucket) -> bool:
    effective = limit_of(limits, bucket)
    return effective is not None and effective[0] in use.counted


def _units(kind: QuotaType, limits: KeyLimits, bucket: Bucket) -> int | None:
    """Return the finite limit of a bucket in units; ``None`` = it has none."""
    effective = limit_of(limits, bucket)
    if effective is None or limit_state(kind, effective[1]) is not ValueState.FINITE:
        return None
    return limit_units(kind, effective[1])
