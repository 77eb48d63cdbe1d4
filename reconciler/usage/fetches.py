"""The sizes of consumer fetches, and the share of its limit that a limited consumer gets because of them. Values only.

A broker records the whole response to a fetch and then checks the rate (KafkaApis.handleFetchRequest, 3.4 to 4.4). If the
rate is above the limit, it subtracts the bytes again (ClientQuotaManager.unrecordQuotaSensor), sends an empty response,
and the client retries after a delay computed as if the bytes had been sent. So a fetch only passes if the window has
room for all of it. While a consumer has more to read than one fetch:

- The window fits k fetches, as many as are less than twelve seconds of the limit (SampledStat keeps eleven windows and
  the current one). The fetch that does not fit costs the time of a whole one, so k of k + 1 parts of the limit are
  used. A fetch never requests more than ten seconds of the limit (getMaxValueInQuotaWindow), so k is at least 1: half
  of the limit.
- A fetch ends at its maximum of bytes, within a record batch. The cut batch is counted and read again: half a batch on average.

``tests/usage/test_consumer_stepper.py`` simulates this request by request, with Kafka's sampled windows.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from reconciler.errors import QuotaValueError

WINDOW_SECONDS: Final = 12
"""Longest time over which a quota rate is computed: one more than quota.window.num x quota.window.size.seconds, at their defaults."""

DEFAULT_PARTITION_BYTES: Final = 1_048_576
"""Default of ``max.partition.fetch.bytes`` of a consumer."""

DEFAULT_FETCH_BYTES: Final = 52_428_800
"""Default of ``fetch.max.bytes`` of a consumer."""


class ObtainedRates(NamedTuple):
    """The least and the greatest rate that a consumer gets while it is held back, in units per second."""

    least: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSize:
    """The size of one fetch from one broker while more data is waiting.

    Raises:
        QuotaValueError: The sizes contradict each other.
    """

    least_bytes: int  # minimum; 0 = as small as a record
    most_bytes: int  # Maximum
    batch_bytes: int = 0  # size of a record batch; 0 = small compared with a fetch

    def __post_init__(self) -> None:
        if not 0 <= self.least_bytes <= self.most_bytes or self.most_bytes < 1:
            raise QuotaValueError(
                f"a fetch of {self.least_bytes:,} to {self.most_bytes:,} bytes is none"
            )
        if self.batch_bytes < 0 or 0 < self.least_bytes < self.batch_bytes:
            raise QuotaValueError(
                f"a fetch of {self.least_bytes:,} bytes does not hold a batch of {self.batch_bytes:,}"
            )

    def obtained(self, limit: int) -> ObtainedRates:
        """Return the rates that such a consumer gets of a limit in bytes per second while more data is waiting; at least 1."""
        return ObtainedRates(
            least=_obtained(limit, self.most_bytes, self.batch_bytes, self.least_bytes),
            most=_obtained(limit, self.least_bytes, self.batch_bytes, self.most_bytes),
        )


def _obtained(limit: int, fetch: int, batch: int, fetch_of_batches: int) -> int:
    """Return the part k / (k + 1) of a limit, minus the cut batches; a fetch of 0 bytes always fits."""
    cut_at = min(fetch_of_batches, 10 * limit)
    if fetch:
        fetches = max(1, (WINDOW_SECONDS * limit - 1) // fetch)
        limit = limit * fetches // (fetches + 1)
    if batch and cut_at:
        limit = limit * (2 * cut_at - min(batch, cut_at)) // (2 * cut_at)
    return max(1, limit)


UNSTATED: Final = FetchSize(least_bytes=0, most_bytes=DEFAULT_FETCH_BYTES)
"""For consumers without a rule: anything up to the default of ``fetch.max.bytes``."""
