"""T13 as rows: what `sizing` found on the made-up fleet, the medians of each tier against the bars."""

from collections.abc import Iterator, Sequence

from tests.bench import sizing
from tests.bench.harness import Figures, Row, say
from tests.bench.sizing import QUOTA_BAR, SHARE_BAR, Sized
from tests.fleet.spec import Fleet


def rows(fleet: Fleet) -> Iterator[Row]:
    """Two rows a tier; groups that are given no number are counted, and are in no median."""
    say(f"sizing {fleet.clusters * fleet.groups} groups under {len(sizing.TIERS)} tiers")
    found = list(sizing.sized(fleet))
    for tier in sizing.TIERS:
        yield from of_tier(tier.name, [one for one in found if one.tier == tier.name])


def of_tier(name: str, found: Sequence[Sized]) -> Iterator[Row]:
    """The share of its promise and the limit against the oracle's, of all groups that got a number."""
    numbers = [one for one in found if one.share is not None and one.ratio is not None]
    shares = tuple(one.share for one in numbers if one.share is not None)
    ratios = tuple(one.ratio for one in numbers if one.ratio is not None)
    work = f"limits for tier {name}, {len(numbers)} of {len(found)} groups given one"
    for what, unit, figures, bar in (
        ("throttled on the unseen week", "of the promise", shares, SHARE_BAR),
        ("limit", "of the oracle's", ratios, QUOTA_BAR),
    ):
        if figures:
            ours = Figures(samples=figures)
            yield Row(
                work=f"{work}: {what}", peer="", ours=ours, theirs=None, unit=unit, bar=f"<= {bar:g}",
                verdict=lambda value, bar=bar: value <= bar, value=ours.median,
            )  # fmt: skip
