"""The requests of the clients of a bucket: what is stated about them, and what is plausible where nothing is. Values only.

A broker records bytes, and neither requests nor connections. What a limit does depends on both:

- A fetch holds many seconds of a limit or few, and connections compete for it (:mod:`reconciler.usage.kernel.request_loop`).
- A broker counts whole requests. What a request has beside its records is large for small records, and nearly vanishes
  once a client that waits puts many into one request.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from reconciler.errors import QuotaValueError

WINDOW_SECONDS: Final = 12
"""Longest time over which a quota rate is computed: one more than quota.window.num x quota.window.size.seconds, at their defaults."""

DEFAULT_PARTITION_BYTES: Final = 1_048_576
"""Default of ``max.partition.fetch.bytes`` of a consumer."""

DEFAULT_FETCH_BYTES: Final = 52_428_800
"""Default of ``fetch.max.bytes`` of a consumer."""

DEFAULT_BATCH_BYTES: Final = 16_384
"""Default of ``batch.size`` of a producer."""

PRODUCE_OVERHEAD: Final = 120
"""Bytes of a produce request with one batch beside its records: headers, the names of client and topic, the batch's header
of 61 bytes. 107 to 130 by the lengths of names."""

FETCH_OVERHEAD: Final = 73
"""Bytes of a response to a fetch of one partition beside its batches (FetchResponse, versions 12 to 18)."""

RECORD_OVERHEAD: Final = 9
"""Bytes of a record in a batch beside its key, value and headers."""

ROUND_TRIP_MS: Final = 1
"""Time from a request to the next of the same connection; records that arrive meanwhile share a request."""


class Span(NamedTuple):
    """The least and the greatest plausible number; equal if it is stated."""

    least: int
    most: int


SMALLEST_RECORD: Final = 100
"""Smaller records are not expected."""

NO_LINGER: Final = Span(0, 0)
DEFAULT_LINGER_MS: Final = Span(0, 5)
"""Defaults of ``linger.ms`` of a producer, before 4.0 and since."""

CONNECTIONS: Final = Span(1, 6)
"""Connections of a bucket to one broker, where they are not stated. More may be; they have less effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """The requests of all connections of a bucket to one broker."""

    is_produce: bool
    connections: int
    most_bytes: int  # of records in one request while more waits
    # Of records that a request does not divide: a record of producers, a batch of consumers. 0 = small against a request, and
    # so many in each that nothing else counts.
    part_bytes: int
    linger_ms: int = 0  # time in which a producer collects records for a request

    @property
    def overhead(self) -> int:
        """Bytes of a request beside its records."""
        return PRODUCE_OVERHEAD if self.is_produce else FETCH_OVERHEAD


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """What is known about the requests of the clients of a bucket.

    Raises:
        QuotaValueError: The numbers contradict each other.
    """

    is_produce: bool
    connections: Span = CONNECTIONS
    most_bytes: Span
    part_bytes: Span  # 0 as the greatest = so many parts in each request that nothing else counts
    linger_ms: Span = NO_LINGER

    def __post_init__(self) -> None:
        least, most = self.most_bytes
        if not 1 <= least <= most:
            raise QuotaValueError(f"a request of {least:,} to {most:,} bytes is none")
        if not 1 <= self.connections.least <= self.connections.most:
            raise QuotaValueError(f"{self.connections.least:,} connections are none")
        if not self.is_produce and self.part_bytes.most > least:
            raise QuotaValueError(
                f"a fetch of {least:,} bytes does not hold a batch of {self.part_bytes.most:,}"
            )

    @property
    def is_stated(self) -> bool:
        """Whether everything is known."""
        return all(
            span.least == span.most
            for span in (self.connections, self.most_bytes, self.part_bytes, self.linger_ms)
        )

    def best(self) -> Iterator[Requests]:
        """Yield the cases in which clients wait least: small requests, of which much is not records."""
        yield from self._cases(self.most_bytes.least, self.part_bytes.least, self.linger_ms.least)

    def worst(self, limit: int) -> Iterator[Requests]:
        """Yield the cases in which clients wait longest. Unstated records are no larger than a second of the limit."""
        least, most = self.part_bytes
        part_bytes = most if least == most else min(most, limit)
        yield from self._cases(self.most_bytes.most, part_bytes, self.linger_ms.most)

    def _cases(self, most_bytes: int, part_bytes: int, linger_ms: int) -> Iterator[Requests]:
        for connections in sorted(set(self.connections)):
            yield Requests(
                is_produce=self.is_produce,
                connections=connections,
                most_bytes=most_bytes,
                part_bytes=part_bytes,
                linger_ms=linger_ms,
            )


UNSTATED_CONSUMERS: Final = Clients(
    is_produce=False,
    most_bytes=Span(DEFAULT_PARTITION_BYTES // 16, DEFAULT_FETCH_BYTES),
    part_bytes=Span(SMALLEST_RECORD + RECORD_OVERHEAD + 61, 0),
)
UNSTATED_PRODUCERS: Final = Clients(
    is_produce=True,
    most_bytes=Span(DEFAULT_BATCH_BYTES, DEFAULT_BATCH_BYTES),
    part_bytes=Span(SMALLEST_RECORD + RECORD_OVERHEAD, DEFAULT_BATCH_BYTES),
    linger_ms=DEFAULT_LINGER_MS,
)
