"""What was last sent to each receiver, so that nothing is sent twice and recovery is sent only to receivers of the drift."""

from collections.abc import Mapping
from operator import itemgetter
from typing import Final, Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.codecs.reader import Document, typed
from reconciler.notify.message import ClusterDrift, DriftEvent, Message
from reconciler.quota.ownership import Moment
from reconciler.render.json_values import dump

KIND: Final = "kquota-notifications"
FORMAT: Final = 1


class SentMessage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The last message about drift that a receiver accepted."""

    digest: str
    sent_at: Moment  # when it was sent
    since: Moment  # when that drift was first observed
    pairs: int


_Key: TypeAlias = tuple[str, str]
"""Receiver, cluster."""


class NotificationState(Struct, frozen=True, kw_only=True):
    """What was sent to each receiver. Immutable: each delivery returns a new one."""

    entries: Mapping[_Key, SentMessage] = field(default_factory=dict[_Key, SentMessage])

    def due(
        self, receiver: str, drift: ClusterDrift, *, now: float, remind_after: float
    ) -> Message | None:
        """Return the message that has to be sent to a receiver, if any.

        Args:
            remind_after: Seconds after which the same drift is sent again.
        """
        entry = self.entries.get((receiver, drift.cluster))
        event = _event(entry, drift, now, remind_after)
        if event is None:
            return None
        if event is DriftEvent.ENDED and entry is not None:
            return Message(
                event=event,
                drift=drift,
                at=now,
                since=entry.since,
                digest=entry.digest,
                resolved=entry.pairs,
            )
        since = min(drifted.since for drifted in drift.pairs)
        return Message(event=event, drift=drift, at=now, since=since, digest=drift.digest)

    def after(self, receiver: str, message: Message) -> "NotificationState":
        """Return the state after a receiver accepted a message."""
        key = (receiver, message.drift.cluster)
        remaining_entries = {
            entry_key: entry for entry_key, entry in self.entries.items() if entry_key != key
        }
        if message.event is not DriftEvent.ENDED:
            remaining_entries[key] = SentMessage(
                digest=message.digest,
                sent_at=message.at,
                since=message.since,
                pairs=len(message.drift.pairs),
            )
        return replace(self, entries=remaining_entries)


def _event(
    entry: SentMessage | None, drift: ClusterDrift, now: float, remind_after: float
) -> DriftEvent | None:
    if not drift.pairs:
        return None if entry is None else DriftEvent.ENDED
    if entry is None:
        return DriftEvent.BEGAN
    if entry.digest != drift.digest:
        return DriftEvent.CHANGED
    return DriftEvent.REMINDED if now - entry.sent_at >= remind_after else None


class SentRow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The last message about drift of one cluster that one receiver accepted."""

    cluster: str
    message: SentMessage
    receiver: str


class NotificationFile(Document, frozen=True, kw_only=True, tag=KIND):
    """The document of a state."""

    format: Literal[1]
    sent: list[SentRow]


def notification_state_text(state: NotificationState) -> str:
    """Return the state as a file, so that it survives a restart."""
    rows = [
        SentRow(cluster=cluster, message=message, receiver=receiver)
        for (receiver, cluster), message in sorted(state.entries.items(), key=itemgetter(0))
    ]
    return dump(NotificationFile(format=FORMAT, sent=rows))


def read_notification_state(text: str, *, location: str) -> NotificationState:
    """Parse the state of an earlier process.

    Raises:
        ConfigError: It is damaged or of another kind; without it every drift would be sent once more.
    """
    file = typed(text, NotificationFile, format_version=FORMAT, location=location)
    return NotificationState(
        entries={(row.receiver, row.cluster): row.message for row in file.sent}
    )
