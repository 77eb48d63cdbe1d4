"""The effect of changed limits on one bucket on one broker: a verdict with its evidence; and the tolerance of a policy.

Every figure has a bound. The recursion grows with demand, and recorded use is at most the demand, so use gives a lower bound
where it is censored; and the sum of series that include other clients gives an upper bound. If both would be needed,
there is no figure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from reconciler.usage.demand_bounds import FigureBound, LimitMove, move
from reconciler.usage.impact.bucket_mapping import Identifiability
from reconciler.usage.samples import QuotaType
from reconciler.usage.throttle_models import Forecast

MINUTES_PER_DAY: Final = 1_440


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
    bound: FigureBound  # the relation of `after` to the true value
    # The forecast under current limits; of several parts the one throttled longest, never a sum.
    before: Forecast | None
    # Throttled time recorded by the broker, of several parts the longest; None = not recorded.
    observed_throttled_ms: int | None
    # The forecast under the new limit in the best case; None = no figure is possible.
    after: Forecast | None
    covered_ms: int
    censored_ms: int  # the part of `covered_ms` in which the clients wanted more than was recorded
    worst: Forecast | None = None  # the same in the worst case; None if there is only one figure


class ForecastRange(NamedTuple):
    """The forecasts of a limit in the best and in the worst case; equal if all is known."""

    best: Forecast
    worst: Forecast


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpactFacts:
    """The facts of samples that a verdict needs."""

    kind: QuotaType
    samples: int  # number of moments in the sum of the parts
    covered_ms: int
    censored_ms: int  # the part of `covered_ms` in which clients wanted more than was recorded
    wanted_more: bool
    may_have_wanted_more: bool  # whether they ever did, or may have
    before: tuple[ForecastRange, ...]
    # Throttled time of each part as recorded by the broker; None = not recorded.
    observed_ms: tuple[int | None, ...]
    # Forecasts of the sum of the parts under the new limit; None if the answer allows no figure.
    after: ForecastRange | None


def no_facts(kind: QuotaType) -> ImpactFacts:
    """Return the facts of a bucket whose samples are not read."""
    return ImpactFacts(
        kind=kind,
        samples=0,
        covered_ms=0,
        censored_ms=0,
        wanted_more=False,
        may_have_wanted_more=False,
        before=(),
        observed_ms=(),
        after=None,
    )


def weighed(
    answer: Identifiability, limits: Sequence[int | None], limit: int | None, facts: ImpactFacts
) -> BucketImpact:
    """Return the verdict on the facts.

    Args:
        answer: How far the parts determine the use of the bucket.
        limits: Current limits of the parts, in units; ``None`` = unlimited.
        limit: The new limit.
        facts: Facts of the parts, in the order of ``limits``, and of their sum.
    """
    longest = max(facts.before, key=lambda forecasts: _length(forecasts.best), default=None)
    judged: Judged
    if not facts.samples or longest is None or answer is Identifiability.NO_DATA:
        judged = ImpactVerdict.NO_DATA, FigureBound.EXACT, None
    elif answer is Identifiability.NOT_IDENTIFIABLE or facts.after is None:
        judged = ImpactVerdict.NOT_IDENTIFIABLE, FigureBound.EXACT, None
    elif answer is Identifiability.BOUND:
        judged = _by_bound(facts, limit, facts.after)
    else:
        limit_move = move(limits[0], limit) if len(limits) == 1 else None
        judged = _exactly(facts, limit, longest, facts.after, limit_move)
    verdict, bound, figure = judged
    worst = facts.after.worst if facts.after and bound is FigureBound.BETWEEN else None
    return BucketImpact(
        verdict=verdict,
        bound=bound,
        before=longest.best if longest else None,
        observed_throttled_ms=max(
            (observed_ms for observed_ms in facts.observed_ms if observed_ms is not None),
            default=None,
        ),
        after=figure,
        covered_ms=facts.covered_ms,
        censored_ms=facts.censored_ms,
        worst=worst,
    )


Judged: TypeAlias = tuple[ImpactVerdict, FigureBound, Forecast | None]
"""Verdict, the relation of the figure to the true value, and the figure."""


def _exactly(
    facts: ImpactFacts,
    limit: int | None,
    before: ForecastRange,
    after: ForecastRange,
    limit_move: LimitMove | None,
) -> Judged:
    """Judge a bucket by its own series. Under a looser limit a censored series gives "better" without a figure."""
    best = after.best
    if limit_move is LimitMove.LOOSER and limit is not None and facts.wanted_more:
        return ImpactVerdict.BETTER, FigureBound.AT_MOST, None
    low = limit is not None and (best.is_lower_bound or facts.may_have_wanted_more)
    bound = FigureBound.EXACT if _length(best) == _length(after.worst) else FigureBound.BETWEEN
    if low:
        bound = FigureBound.AT_LEAST
    verdicts = {compared(before.best, best), compared(before.worst, after.worst)}
    if ImpactVerdict.WORSE in verdicts:
        return ImpactVerdict.WORSE, bound, best
    return verdicts.pop() if len(verdicts) == 1 else ImpactVerdict.SAME, bound, best


def _by_bound(facts: ImpactFacts, limit: int | None, forecast_range: ForecastRange) -> Judged:
    """Return "safe by bound" if the sum would not be throttled; a sum of censored rates is no bound."""
    after = forecast_range.worst
    bounded = limit is None or not facts.may_have_wanted_more
    if bounded and not after.throttled_ms and not after.is_lower_bound:
        return ImpactVerdict.SAFE_BY_BOUND, FigureBound.AT_MOST, after
    return ImpactVerdict.NOT_IDENTIFIABLE, FigureBound.AT_MOST, None


def _length(forecast: Forecast) -> tuple[int, int]:
    return forecast.throttled_ms, forecast.max_delay_ms or 0


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
