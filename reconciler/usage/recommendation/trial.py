"""The search for the smallest sufficient limit, its rounding, and trials of a limit on a span of evidence, broker by broker: whether it meets a promise, and its effect."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from reconciler.usage.samples import MAX_UNITS, MILLION
from reconciler.usage.throttle_models import Forecast, share_ppm

LEAST_PART: Final = 8
"""No limit below this part of the peak is tried."""

PRECISION: Final = 128
"""A found limit is too large by less than this part of it."""


def smallest(peak: int, holds: Callable[[int], bool]) -> int | None:
    """Return the smallest limit that passes; ``None`` if not even one unit above the peak does, which only rounding can cause.

    Args:
        peak: Largest rate in units, above 0.
        holds: Whether a limit passes; must be true for every limit above a passing one.
    """
    if not holds(peak):
        return peak + 1 if holds(peak + 1) else None
    too_small, sufficient = peak // LEAST_PART, peak
    while sufficient - too_small > max(1, sufficient // PRECISION):
        middle = (too_small + sufficient) // 2
        if holds(middle):
            sufficient = middle
        else:
            too_small = middle
    return sufficient


def three_digits(value: int, *, up: bool) -> int:
    """Round to three significant digits, up or down."""
    step: int = 10 ** max(0, len(str(value)) - 3)
    return -(-value // step) * step if up else value // step * step


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottlePromise:
    """The maximum share of throttled time, ``share_ppm / parts`` millionths, and the maximum delay."""

    share_ppm: int
    parts: int = 1
    max_delay_ms: int | None = None

    def is_met_by(self, forecast: Forecast) -> bool:
        """Whether a forecast meets the promise; integer comparison. A model without delays meets any maximum delay."""
        share = forecast.throttled_ms * MILLION * self.parts <= self.share_ppm * forecast.covered_ms
        return share and (
            self.max_delay_ms is None or (forecast.max_delay_ms or 0) <= self.max_delay_ms
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitTrial:
    """A span of the evidence of one bucket, prepared for any limit. Each limit is simulated once."""

    brokers: int
    peak: int  # the largest rate on any broker; 0 without use
    # Forecasts of a limit on each broker; None = unlimited.
    simulated: Callable[[int | None], tuple[Forecast, ...]] = field(repr=False, compare=False)
    _forecasts: dict[int, tuple[Forecast, ...]] = field(
        default_factory=dict[int, tuple[Forecast, ...]], repr=False, compare=False
    )

    def forecasts(self, limit: int) -> tuple[Forecast, ...]:
        """Return the forecasts of a limit on each broker; a limit of at least :data:`MAX_UNITS` is unlimited."""
        if limit not in self._forecasts:
            self._forecasts[limit] = self.simulated(limit if limit < MAX_UNITS else None)
        return self._forecasts[limit]

    def keeps(self, limit: int, promise: ThrottlePromise) -> bool:
        """Whether a limit meets a promise on every broker; a larger one then does too."""
        return all(map(promise.is_met_by, self.forecasts(limit)))

    def smallest(self, promise: ThrottlePromise) -> int | None:
        """Return the smallest candidate that meets a promise; ``None`` without use or if none meets it."""
        peak = self.peak
        return smallest(peak, lambda limit: self.keeps(limit, promise)) if peak else None

    def proof(self, limit: int) -> tuple[int, int | None]:
        """Return the throttled share of the time in millionths, rounded up, and the worst delay, each of the worst broker.

        Without any broker nothing is throttled. ``None`` = there are no delays, or the model has none.
        """
        forecasts = self.forecasts(limit)
        shares = (share_ppm(forecast.throttled_ms, forecast.covered_ms) for forecast in forecasts)
        delays = (forecast.max_delay_ms for forecast in forecasts)
        return max(shares, default=0), max(
            (delay for delay in delays if delay is not None), default=None
        )
