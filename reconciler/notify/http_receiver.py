"""A receiver with an HTTP address: a shape of message, and its POST. Needs aiohttp, unlike the rest of the package."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from reconciler.base.http.client import HttpClient
from reconciler.base.protocols import Clock
from reconciler.notify import cloudevents, slack, webhook
from reconciler.notify.delivery import TRY_SECONDS, Random, deliver
from reconciler.notify.endpoint import Endpoint, WebhookRequest
from reconciler.notify.message import Message


class MessageShape(StrEnum):
    """Shape of a receiver's messages, as in ``--notify``; ``NOTIFICATION_SHAPES`` of ``app/requests.py`` has the same."""

    WEBHOOK = "webhook"
    SLACK = "slack"
    CLOUDEVENTS = "cloudevents"


class ShapeDefinition(NamedTuple):
    """What is special to one shape of messages.

    ``is_signed``: whether a key signs the messages. Otherwise the address itself is the password, and the receiver
    gets no key.
    """

    request: Callable[..., WebhookRequest]
    is_signed: bool


SHAPES: Final[Mapping[MessageShape, ShapeDefinition]] = {
    MessageShape.WEBHOOK: ShapeDefinition(request=webhook.request, is_signed=True),
    MessageShape.SLACK: ShapeDefinition(request=slack.request, is_signed=False),
    MessageShape.CLOUDEVENTS: ShapeDefinition(request=cloudevents.request, is_signed=True),
}


class HttpReceiver:
    """A receiver with an HTTP address."""

    def __init__(
        self,
        shape: MessageShape,
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
        request = SHAPES[self._shape].request(message, self._to, at=self._clock.now())
        async with HttpClient(seconds=TRY_SECONDS) as client:
            await deliver(client, self._to, request, clock=self._clock, random=self._random)
