"""The effect of changed limits on one bucket on one broker: a verdict with its evidence; and the tolerance of a policy. Values only."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from reconciler.usage.throttle_models import MIN_DELAY_MS, FigureBound, Forecast

MINUTES_PER_DAY: Final = 1_440

TOO_MANY_REQUESTS: Final = "the longest throttled times were replayed request by request, and the others by their means: there were too many requests"
REQUESTS_UNSTATED: Final = (
    "how its clients send or fetch is not stated (spec.simulate of the project)"
)
HIDDEN_BURSTS: Final = "bursts shorter than a reading are not recorded, and here they matter"


class ImpactVerdict(StrEnum):
    """The verdict on a bucket."""

    WORSE = "worse"
    BETTER = "better"
    SAME = "same"
    SAFE_BY_BOUND = "safe by bound"
    NOT_IDENTIFIABLE = "not identifiable"
    NO_DATA = "no data"


SEVERITY: Final = (
    ImpactVerdict.SAFE_BY_BOUND,
    ImpactVerdict.SAME,
    ImpactVerdict.BETTER,
    ImpactVerdict.NO_DATA,
    ImpactVerdict.NOT_IDENTIFIABLE,
    ImpactVerdict.WORSE,
)
"""In ascending order of display priority."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketImpact:
    """One bucket on one broker before and after."""

    verdict: ImpactVerdict
    bound: FigureBound = FigureBound.EXACT  # the relation of `after` to the true value
    # The forecast under current limits; of several parts the one throttled longest, never a sum.
    before: Forecast | None = None
    # Throttled time recorded by the broker, of several parts the longest; None = not recorded.
    observed_throttled_ms: int | None = None
    # The forecast under the new limit in the best case; None = no figure is possible.
    after: Forecast | None = None
    covered_ms: int = 0
    # The part of `covered_ms` in which the clients wanted more than was recorded.
    censored_ms: int = 0
    worst: Forecast | None = None  # the same in the worst case; None if there is only one figure
    reason: str = ""  # why there are two figures, or why one is less sure


class ForecastRange(NamedTuple):
    """The forecasts of a limit in the best and in the worst case; equal if there is one figure."""

    best: Forecast
    worst: Forecast

    @property
    def is_one_figure(self) -> bool:
        """Whether best and worst case are the same."""
        return self.best == self.worst


def extremes(cases: Sequence[Forecast]) -> ForecastRange:
    """Return the least and the greatest of each figure of several forecasts of one limit."""
    return ForecastRange(*(_extreme(cases, choose) for choose in (min, max)))


def _extreme(cases: Sequence[Forecast], choose: Callable[[Iterable[int]], int]) -> Forecast:
    return replace(
        cases[0],
        throttled_ms=choose(case.throttled_ms for case in cases),
        max_delay_ms=choose(case.max_delay_ms or 0 for case in cases),
        over_timeout_ms=choose(case.over_timeout_ms or 0 for case in cases),
        delayed_units=choose(case.delayed_units for case in cases),
        unfinished=choose(case.unfinished for case in cases),
        is_cut=any(case.is_cut for case in cases),
    )


def is_near(case: Forecast, likely: Forecast) -> bool:
    """Whether a forecast is so near to the likely one that their difference is no finding of its own.

    That is the accuracy which real brokers showed: 15 % of throttled time, or a minute a day, and 20 % of the worst delay, or
    a second.
    """
    throttled_ms, delay_ms = likely.throttled_ms, likely.max_delay_ms or 0
    return abs(case.throttled_ms - throttled_ms) <= max(
        throttled_ms * 15 // 100, likely.covered_ms // MINUTES_PER_DAY
    ) and abs((case.max_delay_ms or 0) - delay_ms) <= max(delay_ms * 20 // 100, MIN_DELAY_MS)


def compared(before: Forecast, after: Forecast) -> ImpactVerdict:
    """Compare forecasts: better or worse only by more than a minute a day and more than a tenth, else the same."""
    additional_ms = after.throttled_ms - before.throttled_ms
    if (
        abs(additional_ms) * MINUTES_PER_DAY <= after.covered_ms
        or abs(additional_ms) * 10 <= before.throttled_ms
    ):
        return ImpactVerdict.SAME
    return ImpactVerdict.WORSE if additional_ms > 0 else ImpactVerdict.BETTER


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """The tolerance of a tier of clients."""

    new_throttled_ms_per_day: int | None = None  # additional throttled time per day; None = any
    max_delay_ms: int | None = None  # the worst delay; None = any
    # Whether clients catch up with waiting data, as consumers do: reported, never refused.
    elastic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToleranceBreach:
    """A figure beyond the tolerance, both in milliseconds (per day for throttled time)."""

    what: str
    found_ms: int
    allowed_ms: int
