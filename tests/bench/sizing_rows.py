"""T13 as rows: recommended limits for the synthetic fleet and for seeded clients, the medians against the bounds."""

from collections.abc import Iterator, Sequence

from reconciler.usage.recommendation.limit_sizes import SILVER, Advice
from tests.bench import sizing, sizing_fleet
from tests.bench.harness import Figures, Row, say
from tests.bench.sizing_fleet import QUOTA_BAR, SHARE_BAR
from tests.fleet.spec import Fleet

PROMISED = 2.0
"""`sizing.judged` returns a share of twice the promise; the other module one of the promise."""


def rows(fleet: Fleet, seeds: int) -> Iterator[Row]:
    """Two rows for each tier on the fleet, two for the clients; groups without a limit are only counted."""
    say(f"sizing {fleet.clusters * fleet.groups} groups under {len(sizing_fleet.TIERS)} tiers")
    results = list(sizing_fleet.sized(fleet))
    for tier in sizing_fleet.TIERS:
        pairs = [(result.share, result.ratio) for result in results if result.tier == tier.name]
        sized = [
            (share, ratio) for share, ratio in pairs if share is not None and ratio is not None
        ]
        yield from of_set(
            f"fleet with known demand, tier {tier.name}: {len(sized)} of {len(pairs)} groups", sized
        )
    say(f"sizing {seeds} seeded clients")
    judged = [sizing.judged(sizing.demand(seed)) for seed in range(seeds)]
    numbers = [
        (share * PROMISED, ratio)
        for advice, share, ratio in judged
        if advice in {Advice.CHANGE, Advice.KEEP, Advice.REFUSED}
    ]
    yield from of_set(f"seeded clients, tier {SILVER.name}: {len(numbers)} of {seeds}", numbers)


def of_set(who: str, pairs: Sequence[tuple[float, float]]) -> Iterator[Row]:
    """The throttled share divided by the promise, and the limit divided by the oracle's."""
    for number, what, unit, bar in (
        (0, "throttled on the unseen week", "of the promise", SHARE_BAR),
        (1, "limit", "of the oracle's", QUOTA_BAR),
    ):
        if pairs:
            figures = Figures(samples=tuple(pair[number] for pair in pairs))
            yield Row(
                work=f"{who} given a limit: {what}",
                peer="",
                figures=figures,
                peer_figures=None,
                unit=unit,
                bar=f"<= {bar:g}",
                verdict=lambda value, bar=bar: value <= bar,
                value=figures.median,
            )
