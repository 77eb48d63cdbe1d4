"""What each receiver was told last, so that nothing is told twice and recovery is told to whoever heard of the drift."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from reconciler.notify.message import Drift, Event, Message
from reconciler.render.documents import Json, dump, load

KIND: Final = "kquota-told"
FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The last message about drift that a receiver took.

    Attributes:
        digest: Of what drifted.
        told_at: When it was told, in seconds since the epoch.
        since: When that drift was first seen.
        pairs: How many pairs it was.
    """

    digest: str
    told_at: float
    since: float
    pairs: int


_Key: TypeAlias = tuple[str, str]
"""Receiver, cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What was told to whom. Immutable: each delivery makes a new one."""

    entries: Mapping[_Key, Entry] = field(default_factory=dict[_Key, Entry])

    def due(
        self, receiver: str, drift: Drift, *, now: float, remind_after: float
    ) -> Message | None:
        """What has to be told to a receiver, if anything.

        Args:
            receiver: Its name.
            drift: What drifts now.
            now: Seconds since the epoch.
            remind_after: Seconds after which the same drift is told again.
        """
        entry = self.entries.get((receiver, drift.cluster))
        event = _event(entry, drift, now, remind_after)
        if event is None:
            return None
        if event is Event.ENDED and entry is not None:
            return Message(event=event, drift=drift, at=now, since=entry.since, digest=entry.digest,
                           resolved=entry.pairs)  # fmt: skip
        since = min(one.since for one in drift.pairs)
        return Message(event=event, drift=drift, at=now, since=since, digest=drift.digest)

    def after(self, receiver: str, message: Message) -> "Told":
        """What is remembered once a receiver took a message."""
        key = (receiver, message.drift.cluster)
        kept = {other: entry for other, entry in self.entries.items() if other != key}
        if message.event is not Event.ENDED:
            kept[key] = Entry(
                digest=message.digest,
                told_at=message.at,
                since=message.since,
                pairs=len(message.drift.pairs),
            )
        return replace(self, entries=kept)


def _event(entry: Entry | None, drift: Drift, now: float, remind_after: float) -> Event | None:
    if not drift.pairs:
        return None if entry is None else Event.ENDED
    if entry is None:
        return Event.BEGAN
    if entry.digest != drift.digest:
        return Event.CHANGED
    return Event.REMINDED if now - entry.told_at >= remind_after else None


def told_text(told: Told) -> str:
    """The memory as a file, so that it outlives the process."""
    rows: list[Json] = [
        {
            "receiver": receiver,
            "cluster": cluster,
            "digest": entry.digest,
            "toldAt": entry.told_at,
            "since": entry.since,
            "pairs": entry.pairs,
        }
        for (receiver, cluster), entry in sorted(told.entries.items())
    ]
    return dump({"kind": KIND, "format": FORMAT, "told": rows})


def read_told(text: str, *, where: str) -> Told:
    """The memory of an earlier process.

    Raises:
        ConfigError: It is damaged or of another kind; to begin anew tells every drift once more.
    """
    fields = load(text, kind=KIND, format_version=FORMAT, where=where).fields(
        "kind", "format", "told"
    )
    entries: dict[_Key, Entry] = {}
    for row in fields["told"].items():
        one = row.fields("receiver", "cluster", "digest", "toldAt", "since", "pairs")
        entries[one["receiver"].text(), one["cluster"].text()] = Entry(
            digest=one["digest"].text(),
            told_at=one["toldAt"].number(),
            since=one["since"].number(),
            pairs=one["pairs"].whole(),
        )
    return Told(entries=entries)
