"""Trials of a limit on a span of evidence, broker by broker: whether it keeps a promise, and what it does."""

from collections.abc import Callable
from dataclasses import dataclass, field

from reconciler.usage.recommendation.candidate_limits import smallest
from reconciler.usage.samples import MAX_UNITS, MILLION
from reconciler.usage.throttle_models import Forecast, share_ppm


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """What a number does on one part of the evidence: the worst broker of each.

    Attributes:
        share_ppm: Throttled share of the time, in millionths, rounded up.
        max_delay_ms: Worst delay; ``None`` where the model knows none.
        covered_ms: Time that all brokers together were seen.
    """

    share_ppm: int
    max_delay_ms: int | None
    covered_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottlePromise:
    """How much of the time may be throttled, as ``share_ppm / parts`` millionths, and how long a delay may be."""

    share_ppm: int
    parts: int = 1
    max_delay_ms: int | None = None

    def is_met_by(self, forecast: Forecast) -> bool:
        """Whether a forecast keeps it; compared as whole numbers. A model that knows no delay keeps any."""
        share = forecast.throttled_ms * MILLION * self.parts <= self.share_ppm * forecast.covered_ms
        return share and (
            self.max_delay_ms is None or (forecast.max_delay_ms or 0) <= self.max_delay_ms
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitTrial:
    """A span of the evidence of one bucket, ready for any limit. Each limit is simulated once.

    Attributes:
        peak: The largest rate on any of them; 0 where nothing was used.
        simulated: What a limit does on each broker; ``None`` = unlimited.
    """

    brokers: int
    peak: int
    simulated: Callable[[int | None], tuple[Forecast, ...]] = field(repr=False, compare=False)
    _forecasts: dict[int, tuple[Forecast, ...]] = field(
        default_factory=dict[int, tuple[Forecast, ...]], repr=False, compare=False
    )

    def forecasts(self, limit: int) -> tuple[Forecast, ...]:
        """What a limit does on each broker; one that reaches the cut of all rates is none."""
        if limit not in self._forecasts:
            self._forecasts[limit] = self.simulated(limit if limit < MAX_UNITS else None)
        return self._forecasts[limit]

    def keeps(self, limit: int, promise: ThrottlePromise) -> bool:
        """Whether a limit keeps a promise on every broker; a larger one then does too."""
        return all(map(promise.is_met_by, self.forecasts(limit)))

    def smallest(self, promise: ThrottlePromise) -> int | None:
        """The smallest candidate that keeps a promise; ``None`` where nothing was used."""
        peak = self.peak
        return smallest(peak, lambda limit: self.keeps(limit, promise)) if peak else None

    def proof(self, limit: int) -> TrialResult | None:
        """What a limit does on the worst broker of each figure; ``None`` without any broker."""
        broker_forecasts = self.forecasts(limit)
        if not broker_forecasts:
            return None
        delays = [
            forecast.max_delay_ms
            for forecast in broker_forecasts
            if forecast.max_delay_ms is not None
        ]
        return TrialResult(
            share_ppm=max(
                share_ppm(forecast.throttled_ms, forecast.covered_ms)
                for forecast in broker_forecasts
            ),
            max_delay_ms=max(delays, default=None),
            covered_ms=sum(forecast.covered_ms for forecast in broker_forecasts),
        )
