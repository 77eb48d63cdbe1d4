"""Constants of the throttle models, forecasts, and what a figure says where clients were held back. The arithmetic is in :mod:`reconciler.usage.kernel.throttling`."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from reconciler.usage.samples import MILLION, ThrottleModel

MIN_DELAY_MS: Final = 1_000
"""A shorter delay is not counted as throttling; without this bound one byte over the limit would count for a whole day."""

DELIVERY_TIMEOUT_MS: Final = 120_000
"""Default ``delivery.timeout.ms`` of the Java producer: records that wait longer are lost."""

BURST_WINDOWS: Final = 11
"""Seconds of its limit that the controller allows at once (controller.quota.window.num x size)."""

LONGEST_MS: Final = 1_000_000_000_000_000
"""Maximum delay, some 30,000 years: the delay of a very large backlog under a tiny limit would not fit 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The effect of a limit on one bucket on one broker over all samples."""

    model: ThrottleModel
    samples: int
    covered_ms: int
    arrived_units: int
    throttled_ms: int  # throttled time; for the approximate model, time over the limit
    max_delay_ms: int | None  # the worst delay; None if the model has no delays
    # Time with a delay above `DELIVERY_TIMEOUT_MS`; None as for `max_delay_ms`.
    over_timeout_ms: int | None
    delayed_units: int  # units that had to wait; for the rejecting model, refused connections
    unfinished: int  # sessions that end with a backlog: the true figures are higher
    is_cut: bool = False  # whether requests were too many to replay all of them

    @property
    def is_lower_bound(self) -> bool:
        """Whether a backlog continues after the evidence."""
        return self.unfinished > 0


def share_ppm(part_ms: int, whole_ms: int) -> int:
    """Return a share in millionths, rounded up, so that a small share is never 0; 0 if the whole is 0."""
    return -(-part_ms * MILLION // whole_ms) if whole_ms else 0


class FigureBound(StrEnum):
    """The relation of a figure to the true value."""

    EXACT = "exact"
    AT_LEAST = "at_least"
    AT_MOST = "at_most"
    BETWEEN = "between"
    """Of two figures one is the best case and the other the worst case."""


class LimitMove(StrEnum):
    """The direction in which a limit changes; no limit is above every limit."""

    TIGHTER = "tighter"
    EQUAL = "equal"
    LOOSER = "looser"


def move(before: int | None, after: int | None) -> LimitMove:
    """Return the direction of a change of a limit, in units; ``None`` = unlimited."""
    if before == after:
        return LimitMove.EQUAL
    if before is None:
        return LimitMove.TIGHTER
    return LimitMove.TIGHTER if after is not None and after < before else LimitMove.LOOSER
