"""Sends news to every receiver that is due, concurrently; a failure of one does not affect others. No I/O here."""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from msgspec import Struct

from reconciler.errors import NotifyError
from reconciler.notify.message import ClusterDrift, Message
from reconciler.notify.notification_state import NotificationState

REMIND_AFTER: Final = 24 * 3600.0
"""Seconds after which the same drift is sent again."""


class Receiver(Protocol):
    """A receiver of messages. One that is not a single POST (an issue of a code host) is implemented elsewhere."""

    @property
    def name(self) -> str:
        """Its name in output and state; contains no secret."""

    async def take(self, message: Message) -> None:
        """Deliver the message.

        Raises:
            NotifyError: It was not accepted; it is sent again after the next observation.
        """


class Delivery(Struct, frozen=True, kw_only=True):
    """The deliveries after one observation."""

    state: NotificationState
    delivered: tuple[tuple[str, Message], ...] = ()
    # Why others failed; they are notified after the next observation.
    failures: tuple[NotifyError, ...] = ()


class Notifier:
    """All receivers of one process.

    Args:
        remind_after: Seconds after which the same drift is sent again.
        state: What was sent by earlier processes.
    """

    def __init__(
        self,
        receivers: Sequence[Receiver],
        *,
        remind_after: float = REMIND_AFTER,
        state: NotificationState | None = None,
    ) -> None:
        self._receivers = tuple(receivers)
        self._remind_after = remind_after
        self.state = NotificationState() if state is None else state

    async def notify(self, drift: ClusterDrift, *, now: float) -> Delivery:
        """Send an observation to each receiver that is due; errors of receivers are returned, never raised.

        Args:
            now: Time of the observation, in seconds since the epoch.
        """
        due = [
            (receiver, message)
            for receiver in self._receivers
            if (message := self._due(receiver, drift, now)) is not None
        ]
        results = await asyncio.gather(*(_offer(receiver, message) for receiver, message in due))
        delivered = [
            (receiver.name, message)
            for (receiver, message), failure in zip(due, results, strict=True)
            if failure is None
        ]
        for name, message in delivered:
            self.state = self.state.after(name, message)
        failures = tuple(failure for failure in results if failure is not None)
        return Delivery(state=self.state, delivered=tuple(delivered), failures=failures)

    def _due(self, receiver: Receiver, drift: ClusterDrift, now: float) -> Message | None:
        return self.state.due(receiver.name, drift, now=now, remind_after=self._remind_after)


async def _offer(receiver: Receiver, message: Message) -> NotifyError | None:
    try:
        await receiver.take(message)
    except NotifyError as error:
        return error
    return None
