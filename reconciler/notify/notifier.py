"""Telling every receiver what is new: who is due, all at once; a failure of one is no failure of another. No I/O here."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from reconciler.errors import NotifyError
from reconciler.notify.message import ClusterDrift, Message
from reconciler.notify.notification_state import NotificationState

REMIND_AFTER: Final = 24 * 3600.0
"""Seconds after which the same drift is sent again."""


class Receiver(Protocol):
    """A receiver of messages. What is no POST of one request (an issue of a code host) implements this elsewhere."""

    @property
    def name(self) -> str:
        """What it is called in output and in the memory; holds no secret."""
        ...

    async def take(self, message: Message) -> None:
        """Hand the message over.

        Raises:
            NotifyError: It was not taken; it will be offered again at the next look.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What became of the messages of one look.

    Attributes:
        state: What has been sent to every receiver by now.
        delivered: Who took which message.
        failures: Why others did not; they are notified at the next look.
    """

    state: NotificationState
    delivered: tuple[tuple[str, Message], ...] = ()
    failures: tuple[NotifyError, ...] = ()


class Notifier:
    """All receivers of one process.

    Args:
        receivers: Who is notified.
        remind_after: Seconds after which the same drift is sent again.
        state: What was sent before this process.

    Attributes:
        state: What has been sent by now.
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
        """Send what a look found to each receiver that is due; never raises for what a receiver does.

        Args:
            drift: What drifts on one cluster now.
            now: When it was looked, in seconds since the epoch.
        """
        due = [
            (receiver, message)
            for receiver in self._receivers
            if (message := self._due(receiver, drift, now)) is not None
        ]
        results = await asyncio.gather(*(_offered(receiver, message) for receiver, message in due))
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


async def _offered(receiver: Receiver, message: Message) -> NotifyError | None:
    try:
        await receiver.take(message)
    except NotifyError as error:
        return error
    return None
