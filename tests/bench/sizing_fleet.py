"""Right-sizing of a synthetic fleet with known demand: the promise in the unseen week, and the excess of limits.

For each group: `usage.sizing.recommend` sees 21 days, the last 7 held out. The oracle knows the true demand of the
held-out week and takes the smallest limit that keeps the tier's promise there. Reported are the throttled share of
the true demand under the recommended limit, and the limit divided by the oracle's; the bounds are 2 x the tier's
share and 1.3, in the median.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from reconciler.usage.recommendation.limit_sizes import BATCH, GOLD, SILVER, WEEK_MS, Tier
from reconciler.usage.samples import Censored, QuotaType
from tests.bench.harness import Figures, Row, say
from tests.fleet import demand
from tests.fleet.spec import Fleet
from tests.usage.recorded import SizingCase, recommend, simulate
from tests.usage.reference import Sample, UntimedSample, timed

FLEET = Fleet(
    clusters=3, brokers=3, groups=12, days=21, step_ms=60_000, seed=13, kinds=(QuotaType.PRODUCE,)
)
TIERS = (GOLD, SILVER, BATCH)
SHARE_BAR, QUOTA_BAR = 2.0, 1.3

Series = dict[str, tuple[Sample, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """One group under one tier."""

    cluster: int
    group: int  # its number
    tier: str
    target: int | None  # the recommended limit; None = none
    oracle: int  # the smallest limit that keeps the promise on the true demand of the held-out week
    # Throttled share of the true demand of that week under the target, of the worst broker, as a multiple of what the
    # tier allows.
    share: float | None

    @property
    def ratio(self) -> float | None:
        """The recommended limit divided by the oracle's."""
        return None if self.target is None else self.target / self.oracle


def recorded(fleet: Fleet, cluster: int) -> Iterator[tuple[int, int | None, Series, Series]]:
    """(group, last limit, recorded rates, demand) of each group; series by broker."""
    parts = list(demand.days(fleet, cluster))
    ts = np.concatenate([part.ts for part in parts])
    up = np.concatenate([part.up for part in parts], axis=1)
    demand_units = np.concatenate([part.demand for part in parts], axis=-1)[0]
    served = np.concatenate([part.served for part in parts], axis=-1)[0]
    waits = np.concatenate([part.waits_ms for part in parts], axis=-1)[0]
    limits = np.concatenate([part.limit for part in parts], axis=-1)[0]
    for group in range(fleet.groups):
        series: Series = {}
        true: Series = {}
        for broker in range(fleet.brokers):
            cells = served[group, broker], waits[group, broker], limits[group]
            series[str(broker)] = _samples(fleet, ts, up[broker], *cells)
            nothing = np.zeros_like(ts)
            true[str(broker)] = _samples(
                fleet, ts, up[broker] | True, demand_units[group, broker], nothing, nothing
            )
        yield group, int(limits[group][-1]) or None, series, true


def _samples(
    fleet: Fleet,
    ts: np.ndarray,
    up: np.ndarray,
    rates: np.ndarray,
    waits: np.ndarray,
    limits: np.ndarray,
) -> tuple[Sample, ...]:
    readings = [
        UntimedSample(
            at, rate, wait, Censored.YES if wait and 10 * rate >= 9 * limit else Censored.NO
        )
        for at, rate, wait, limit in zip(
            ts[up].tolist(),
            rates[up].tolist(),
            waits[up].tolist(),
            limits[up].tolist(),
            strict=True,
        )
    ]
    return timed(readings, fleet.pace)


def share(fleet: Fleet, series: Series, limit: int, tier: Tier) -> tuple[float, bool]:
    """Throttled share of the worst broker as a multiple of the promise, and whether its delay is within the promise."""
    forecasts = [
        simulate(QuotaType.PRODUCE, samples, limit, fleet.pace.max_gap_ms)
        for samples in series.values()
    ]
    worst = (
        max(forecast.throttled_ms / forecast.covered_ms for forecast in forecasts)
        * 1_000_000
        / tier.share_ppm
    )
    late = tier.max_delay_ms is not None and any(
        (forecast.max_delay_ms or 0) > tier.max_delay_ms for forecast in forecasts
    )
    return worst, not late


def oracle(fleet: Fleet, series: Series, tier: Tier) -> int:
    """The smallest limit, to a thousandth, that keeps the promise on these series."""
    peak = max(sample.rate_units for samples in series.values() for sample in samples)
    low, high = 1, max(2, peak + 1)
    while high - low > max(1, high // 1_000):
        middle = (low + high) // 2
        worst, in_time = share(fleet, series, middle, tier)
        low, high = (low, middle) if worst <= 1 and in_time else (middle, high)
    return high


def sized(fleet: Fleet) -> Iterator[Sized]:
    """Every group of the fleet under every tier."""
    split = fleet.to_ms - WEEK_MS
    for cluster in range(fleet.clusters):
        for group, current, recorded_series, true in recorded(fleet, cluster):
            unseen = {
                name: tuple(item for item in series if item.ts_ms >= split)
                for name, series in true.items()
            }
            for tier in TIERS:
                case = SizingCase(
                    kind=QuotaType.PRODUCE,
                    series=recorded_series,
                    from_ms=fleet.from_ms,
                    to_ms=fleet.to_ms,
                    max_gap_ms=fleet.pace.max_gap_ms,
                    current=current,
                )
                recommendation = recommend(case, tier)
                target = (
                    recommendation.target_units if recommendation.target_units is not None else None
                )
                yield Sized(
                    cluster=cluster,
                    group=group,
                    tier=tier.name,
                    target=target,
                    oracle=oracle(fleet, unseen, tier),
                    share=None if target is None else share(fleet, unseen, target, tier)[0],
                )


def rows() -> Iterator[Row]:
    """Two rows for each tier, the medians against the bounds; groups without a limit are only counted."""
    say(f"sizing {FLEET.clusters * FLEET.groups} groups under {len(TIERS)} tiers")
    results = list(sized(FLEET))
    for tier in TIERS:
        groups = [result for result in results if result.tier == tier.name]
        shares = [result.share for result in groups if result.share is not None]
        ratios = [result.ratio for result in groups if result.ratio is not None]
        who = f"fleet with known demand, tier {tier.name}: {len(ratios)} of {len(groups)} groups given a limit"
        for values, what, unit, bar in (
            (shares, "throttled on the unseen week", "of the promise", SHARE_BAR),
            (ratios, "limit", "of the oracle's", QUOTA_BAR),
        ):
            figures = Figures(samples=tuple(values))
            yield Row(
                work=f"{who}: {what}",
                peer="",
                figures=figures,
                peer_figures=None,
                unit=unit,
                bar=f"<= {bar:g}",
                verdict=lambda value, bar=bar: value <= bar,
                value=figures.median,
            )
