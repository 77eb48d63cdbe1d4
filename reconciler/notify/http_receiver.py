"""A receiver with an HTTP address: a format of message, and its POST. Needs aiohttp, unlike the rest of the package."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

from reconciler.base.http.client import HttpClient
from reconciler.base.protocols import Clock
from reconciler.notify import cloudevents, slack, webhook
from reconciler.notify.delivery import TRY_SECONDS, Random, deliver
from reconciler.notify.endpoint import Endpoint, WebhookRequest
from reconciler.notify.message import Message


class MessageFormat(StrEnum):
    """Format of a receiver's messages."""

    WEBHOOK = "webhook"
    SLACK = "slack"
    CLOUDEVENTS = "cloudevents"


SHAPES: Final[Mapping[MessageFormat, Callable[..., WebhookRequest]]] = {
    MessageFormat.WEBHOOK: webhook.request,
    MessageFormat.SLACK: slack.request,
    MessageFormat.CLOUDEVENTS: cloudevents.request,
}


class HttpReceiver:
    """A receiver with an HTTP address.

    Args:
        shape: The format of its messages.
        to: Its address.
        clock: Time.
        random: Random numbers, for pauses.
    """

    def __init__(
        self,
        shape: MessageFormat,
        to: Endpoint,
        *,
        clock: Clock,
        random: Random,
    ) -> None:
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
        request = SHAPES[self._shape](message, self._to, at=self._clock.now())
        async with HttpClient(seconds=TRY_SECONDS) as client:
            await deliver(client, self._to, request, clock=self._clock, random=self._random)
