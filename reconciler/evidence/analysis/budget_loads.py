"""Recorded use of budgets under the limits of a plan: the coincident load of the worst broker.

The rates of all counted clients are added up moment by moment, then the rate is taken that is not exceeded in 99.9 % of
the time. Of the whole cluster the total rate of each broker is recorded, so only clients whose limit the plan changes are
read; of a namespace or of some entities, all counted clients are.

Recorded use is at most demand: what a limit held back was not seen, so a raise adds nothing here.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from reconciler.errors import LakeError, QuotaValueError
from reconciler.evidence.store.published_evidence import PublishedEvidence
from reconciler.evidence.store.recorded_window import LimitBook
from reconciler.quota.entity import Entity
from reconciler.quota.planner.budgets import BudgetMeasure, BudgetUse, observed
from reconciler.quota.state import QuotaState
from reconciler.usage.kernel.broker_load import COINCIDENT_PPM, CoincidentRates, weighted
from reconciler.usage.kernel.throttling import demand_of, served
from reconciler.usage.samples import DAY_MS, TYPE_OF, in_kafka_units

FAR_ABOVE: Final = 2
"""A limit of so many times its recorded use could give room."""

MOST_CLIENTS: Final = 10
"""The use of a default limit is read for at most so many clients."""

MOST_SERIES: Final = 600
"""Series that one budget reads at most: 24 million samples of a fortnight at 30 s."""

AT_ONCE: Final = 24
"""Clients whose series are in memory at one time."""


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

    What cannot be read for one budget leaves its promised sum, with the reason; the others are compared.
    """
    old, new = LimitBook(before), LimitBook(after)
    return tuple(_compared(published, use, old, new) for use in uses)


def _compared(
    published: PublishedEvidence, use: BudgetUse, old: LimitBook, new: LimitBook
) -> BudgetUse:
    try:
        if use.budget.basis is BudgetMeasure.OBSERVED:
            use = _observed(published, use, old, new)
        spare = tuple(_spare(published, use, new)) if use.is_exceeded else ()
    except (LakeError, QuotaValueError) as error:  # damaged, or samples that cannot be
        return use if use.is_judged else replace(use, note=error.message)
    return replace(use, spare=spare) if use.is_exceeded else use


def _spare(
    published: PublishedEvidence, use: BudgetUse, limits: LimitBook
) -> Iterator[tuple[Entity, float]]:
    """Yield the largest limits that are at least :data:`FAR_ABOVE` times their recorded use, with the use of one client."""
    kind = TYPE_OF[use.budget.key]
    sources = {
        bucket: limits.source(kind, bucket)
        for of_broker in published.buckets_by_broker(kind).values()
        for bucket in of_broker
    }
    for share in use.largest:
        buckets = [bucket for bucket, source in sources.items() if source == share.entity]
        if len(buckets) > MOST_CLIENTS:
            continue
        rates = [
            weighted(series.rate_units, series.dt_ms, COINCIDENT_PPM)
            for of_broker in published.series(kind, buckets).values()
            for series in of_broker.values()
        ]
        if rates and in_kafka_units(kind, max(rates)) * FAR_ABOVE <= share.limit:
            yield share.entity, in_kafka_units(kind, max(rates))


def _observed(
    published: PublishedEvidence, use: BudgetUse, old: LimitBook, new: LimitBook
) -> BudgetUse:
    budget = use.budget
    kind = TYPE_OF[budget.key]
    if not published.measured(kind):
        return replace(use, note="the brokers recorded no use of this kind")
    totals = published.broker_rates(kind) if budget.is_whole else {}
    series_by_broker = published.buckets_by_broker(kind)
    buckets = sorted(
        {
            bucket
            for of_broker in series_by_broker.values()
            for bucket in of_broker
            if (
                old.units(kind, bucket) != new.units(kind, bucket)
                if totals
                else budget.is_whole or new.source(kind, bucket) in use.counted
            )
        }
    )
    number = sum(len(of_broker & set(buckets)) for of_broker in series_by_broker.values())
    if number > MOST_SERIES:
        return replace(use, note=f"{number:,} series would have to be read")
    loads = {broker: CoincidentRates(total) for broker, total in totals.items()}
    for begin in range(0, len(buckets), AT_ONCE):
        portion = published.series(kind, buckets[begin : begin + AT_ONCE])
        for bucket, of_broker in portion.items():
            limit = new.units(kind, bucket)
            for broker, series in of_broker.items():
                demand = demand_of(series, published.cadence.max_gap_ms)
                rates = served(demand, limit) * 1000 // series.dt_ms
                of_all = loads.setdefault(broker, CoincidentRates())
                of_all.add(series.ts_ms, series.rate_units, rates)
    figures = {broker: load.figures for broker, load in loads.items()}
    if not figures:
        return observed(use, before=0.0, after=0.0, note="no counted client was seen")
    worst = max(figures, key=lambda broker: figures[broker][1])
    days = (published.note.to_ms - published.note.from_ms) / DAY_MS
    return observed(
        use,
        before=in_kafka_units(kind, max(figure[0] for figure in figures.values())),
        after=in_kafka_units(kind, figures[worst][1]),
        note=f"not exceeded in 99.9 % of {days:.1f} days on the worst broker, {worst}; clients that were throttled may want more",
    )
