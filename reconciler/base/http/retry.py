"""Retries with back-off and one deadline for all attempts. There is one loop; peers differ by :data:`POLICIES`.

A server that sends a byte now and then keeps an attempt waiting until its limit, so each attempt also ends at the deadline.

A pause is the longer of the policy's own back-off and the server's ``Retry-After``.
"""

import math
import random
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum, auto
from typing import Final, TypeVar

from msgspec import Struct

from reconciler.base.backoff import EXACT, Backoff
from reconciler.base.protocols import Clock
from reconciler.errors import KquotaError

T = TypeVar("T")


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """How often and how long a request is retried."""

    backoff: Backoff
    tries: float = math.inf
    total_seconds: float  # maximum seconds from the first attempt to the end of the last one


class Peer(Enum):
    """Kinds of servers with separate policies."""

    CODE_HOST = auto()
    KUBERNETES = auto()
    PROMETHEUS = auto()
    TOKEN_ENDPOINT = auto()


# One table and one loop, not a library: docs/adr/http-and-retries.md.
POLICIES: Final[Mapping[Peer, RetryPolicy]] = {
    # Half of it for waits that the host requires.
    Peer.CODE_HOST: RetryPolicy(
        backoff=Backoff(first=1.0, cap=4.0, spread=EXACT), tries=4, total_seconds=360.0
    ),
    Peer.KUBERNETES: RetryPolicy(
        backoff=Backoff(first=0.25, cap=2.0, spread=EXACT), tries=4, total_seconds=60.0
    ),
    # Samples that time out are asked for in parts at once.
    Peer.PROMETHEUS: RetryPolicy(
        backoff=Backoff(first=1.0, cap=16.0, spread=EXACT), tries=6, total_seconds=600.0
    ),
    # sasl.login.retry.backoff.ms and .max.ms of Kafka's clients
    Peer.TOKEN_ENDPOINT: RetryPolicy(backoff=Backoff(first=0.1, cap=10.0), total_seconds=10.0),
}


class Failure(Struct, frozen=True, kw_only=True):
    """A failed attempt."""

    error: KquotaError  # raised if there is no further attempt
    is_retriable: bool  # whether another attempt may succeed and is harmless
    wait: float | None = None  # seconds that the server requests; None = none
    # Whether it counts as an attempt. A rate limit does not, if the client limits the waits.
    uses_try: bool = True


class Exhausted(Struct, frozen=True, kw_only=True):
    """No attempt succeeded, and there is no further one."""

    failure: Failure
    tries: int
    # Seconds of the pause that would have ended too late; None = time was not the reason.
    pause: float | None = None


async def with_retries(
    attempt: Callable[[float], Awaitable[T | Failure]],
    policy: RetryPolicy,
    *,
    clock: Clock,
    uniform: Callable[[], float] = random.random,
    before_retry: Callable[[Failure], None] = lambda _: None,
    final_error: Callable[[Exhausted], KquotaError] = lambda exhausted: exhausted.failure.error,
) -> T:
    """Return the result of the first successful attempt.

    Args:
        attempt: One attempt; it ends within its argument, the seconds until the deadline.
        uniform: Returns a random number in [0, 1).
        before_retry: Called before each pause, for example to count it.
        final_error: Returns the error to raise; by default the last failure's own.

    Raises:
        KquotaError: No attempt succeeded.
    """
    began = clock.monotonic()
    tries, used = 0, 0
    while True:
        result = await attempt(policy.total_seconds - (clock.monotonic() - began))
        tries += 1
        if not isinstance(result, Failure):
            return result
        used += result.uses_try
        if not result.is_retriable or used >= policy.tries:
            raise final_error(Exhausted(failure=result, tries=tries))
        pause = max(policy.backoff.pause(max(used, 1), uniform), result.wait or 0.0)
        if clock.monotonic() - began + pause > policy.total_seconds:
            raise final_error(Exhausted(failure=result, tries=tries, pause=pause))
        before_retry(result)
        await clock.sleep(pause)
