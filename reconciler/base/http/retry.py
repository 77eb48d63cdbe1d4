"""What is tried again, after which pause, and when it ends. The loop is here once; peers differ by :data:`POLICIES`.

A pause is the longer of the policy's own back-off and what the server asks for.
"""

import math
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, TypeVar

from reconciler.base.backoff import EXACT, Backoff
from reconciler.base.protocols import Clock
from reconciler.errors import KquotaError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and how long a request is tried.

    Attributes:
        backoff: Pauses between tries.
        tries: Most tries.
        total_seconds: No pause begins that would end later than this after the first try began.
    """

    backoff: Backoff
    tries: float = math.inf
    total_seconds: float = math.inf


class Peer(Enum):
    """Kinds of servers with a policy of their own."""

    CODE_HOST = auto()
    KUBERNETES = auto()
    PROMETHEUS = auto()
    RECEIVER = auto()
    TOKEN_ENDPOINT = auto()


POLICIES: Final[Mapping[Peer, RetryPolicy]] = {
    Peer.CODE_HOST: RetryPolicy(backoff=Backoff(first=1.0, cap=4.0, spread=EXACT), tries=4),
    Peer.KUBERNETES: RetryPolicy(backoff=Backoff(first=0.25, cap=2.0, spread=EXACT), tries=4),
    Peer.PROMETHEUS: RetryPolicy(backoff=Backoff(first=1.0, cap=16.0, spread=EXACT), tries=6),
    # Many senders may wait for one receiver: half of each pause is random.
    Peer.RECEIVER: RetryPolicy(
        backoff=Backoff(first=1.0, cap=16.0, spread=(0.5, 1.0)), tries=5, total_seconds=45.0
    ),
    # sasl.login.retry.backoff.ms and .max.ms of Kafka's clients
    Peer.TOKEN_ENDPOINT: RetryPolicy(backoff=Backoff(first=0.1, cap=10.0), total_seconds=10.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A try that failed.

    Attributes:
        error: What is raised if there is no further try.
        is_retriable: Whether another try may help and does no harm.
        wait: Seconds that the server asks for; ``None`` = it asks for none.
        uses_try: Whether it counts as one of the tries. A rate limit does not, where the client bounds the waits.
    """

    error: KquotaError
    is_retriable: bool
    wait: float | None = None
    uses_try: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhausted:
    """No try succeeded, and there is no further one.

    Attributes:
        failure: The last one.
        tries: How many there were.
        pause: Seconds of the pause that would have ended too late; ``None`` = time was not the reason.
    """

    failure: Failure
    tries: int
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
    """The result of the first try that succeeds.

    Args:
        attempt: One try; its argument is how many seconds are left of the policy's total.
        policy: When it is called again.
        clock: Time as an argument.
        uniform: Gives a number in [0, 1).
        before_retry: Called before each pause, for example to count it.
        final_error: Makes the error that is raised; by default the last failure's own.

    Raises:
        KquotaError: No try succeeded.
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
