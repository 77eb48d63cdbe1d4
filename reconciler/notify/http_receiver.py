"""A receiver with an HTTP address: a shape of message, and its POST. Needs aiohttp, unlike the rest of the package."""

from reconciler.base.http.client import HttpClient
from reconciler.base.protocols import Clock
from reconciler.notify.delivery import TRY_SECONDS, Random, deliver
from reconciler.notify.endpoint import Endpoint
from reconciler.notify.message import Message
from reconciler.notify.shapes import MessageShape, request_of


class HttpReceiver:
    """A receiver with an HTTP address."""

    def __init__(self, shape: MessageShape, to: Endpoint, *, clock: Clock, random: Random) -> None:
        self._shape = shape
        self._to = to
        self._clock = clock
        self._random = random

    @property
    def name(self) -> str:
        """The name of its endpoint."""
        return self._to.name

    async def take(self, message: Message) -> None:
        """Post a message.

        Raises:
            NotifyError: The receiver refused it, or did not accept it in time.
        """
        request = request_of(self._shape, message, self._to, at=self._clock.now())
        async with HttpClient(seconds=TRY_SECONDS) as client:
            await deliver(client, self._to, request, clock=self._clock, random=self._random)
