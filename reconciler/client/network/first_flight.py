"""Requests that are sent right after the first one on a new connection, so that a plan needs one round trip for all."""

import asyncio
import math
from collections.abc import Callable, Mapping
from typing import Any

from reconciler.client.network.connection import Connection
from reconciler.client.network.requests import Answer, ClientRequest

RequestSeconds = Mapping[ClientRequest[Any], float]
"""Requests that change nothing, in the order of sending, and the timeout in seconds of each response."""


class FirstFlight:
    """The requests in flight on a new connection; the first caller of each gets its response.

    Args:
        requests: Requests to send after the first request of the next connection.
        remaining: Returns the remaining seconds of the call when they are sent.
    """

    def __init__(
        self,
        requests: RequestSeconds | None = None,
        remaining: Callable[[], float] = lambda: math.inf,
    ) -> None:
        self.requests = requests or {}
        self._remaining = remaining
        self._connection: Connection | None = None
        self._tasks: dict[ClientRequest[Any], asyncio.Task[Any]] = {}

    def send(
        self, connection: Connection, first: ClientRequest[Answer], seconds: float
    ) -> asyncio.Task[Answer]:
        """Send a request and all others right after it.

        Returns:
            The task that waits for the response to the first one.
        """
        self._connection = connection
        first_task = asyncio.create_task(connection.ask(first, seconds=seconds))
        self._tasks = {
            request: asyncio.create_task(
                connection.ask(request, seconds=min(most, self._remaining()))
            )
            for request, most in self.requests.items()
        }
        for task in self._tasks.values():
            task.add_done_callback(_retrieve)
        return first_task

    def take(
        self, connection: Connection, request: ClientRequest[Answer]
    ) -> asyncio.Task[Answer] | None:
        """Return the task that waits for the response to a request; ``None`` if not sent on this connection, or already taken."""
        return self._tasks.pop(request, None) if connection is self._connection else None


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Retrieve the error of a response that no caller takes, so that asyncio does not log it."""
    if not task.cancelled():
        _ = task.exception()
