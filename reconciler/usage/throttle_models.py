"""The throttle models by name, their constants, and what they forecast. The arithmetic is :mod:`reconciler.usage.kernel.throttling`."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from reconciler.usage.samples import MILLION, QuotaType

MIN_DELAY_MS: Final = 1_000
"""A shorter delay is no throttling; without this bound one byte over the limit would count for a whole day."""

DELIVERY_TIMEOUT_MS: Final = 120_000
"""``delivery.timeout.ms`` of the Java producer: records that wait longer are lost."""

BURST_WINDOWS: Final = 11
"""How many seconds of its limit the controller lets pass at once (controller.quota.window.num x size)."""


LONGEST_MS: Final = 1_000_000_000_000_000
"""Delays are cut to this, some 30,000 years: the backlog of a cut rate over a tiny limit would not fit 64 bits."""


class ThrottleModel(StrEnum):
    """How the broker treats what is over the limit."""

    BACKLOG = "backlog"  # delayed until it fits: produce and fetch
    TOKENS = "tokens"  # a token bucket: partition mutations, on the active controller
    REJECTED = "rejected"  # closed, not queued: connections of an address
    APPROXIMATE = (
        "approximate"  # delayed by 1 s at most: request time; says how long, not how badly
    )


MODEL_OF: Final[dict[QuotaType, ThrottleModel]] = {
    QuotaType.PRODUCE: ThrottleModel.BACKLOG,
    QuotaType.FETCH: ThrottleModel.BACKLOG,
    QuotaType.REQUEST: ThrottleModel.APPROXIMATE,
    QuotaType.CONTROLLER_MUTATION: ThrottleModel.TOKENS,
    QuotaType.IP: ThrottleModel.REJECTED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a limit does to one bucket on one broker over all samples.

    Attributes:
        throttled_ms: Time throttled; where the model is approximate, time over the limit.
        max_delay_ms: The worst delay; ``None`` where the model knows none.
        over_timeout_ms: Time with a delay above :data:`DELIVERY_TIMEOUT_MS`; ``None`` as before.
        delayed_units: What had to wait; refused connections where those are closed.
        unfinished: Sessions that end with a backlog: the true figures are higher.
    """

    model: ThrottleModel
    samples: int
    covered_ms: int
    arrived_units: int
    throttled_ms: int
    max_delay_ms: int | None
    over_timeout_ms: int | None
    delayed_units: int
    unfinished: int

    @property
    def is_lower_bound(self) -> bool:
        """Whether a backlog outlives the evidence."""
        return self.unfinished > 0


def share_ppm(part_ms: int, whole_ms: int) -> int:
    """A share in millionths, rounded up, so that a little is never nothing; 0 of no time at all is 0."""
    return -(-part_ms * MILLION // whole_ms) if whole_ms else 0
