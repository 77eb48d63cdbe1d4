"""What an audit log contains of one cluster, read with care: it may have been edited, or written by another tool."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from reconciler.quota.entity import Entity
from reconciler.quota.keys import Key
from reconciler.render.json_documents.audit_intents import (
    INTENDED,
    apply_entry,
    pair_name,
)
from reconciler.render.json_documents.codec import DocumentReader

KEPT: Final = 5_000
"""So many of the newest entries stand in a page; a log of years would make it unusable."""

_KEYS: Final = {str(key): key for key in Key}


@dataclass(frozen=True, slots=True, kw_only=True)
class PastChange:
    """One change of long ago.

    Attributes:
        time: When, as the log has it (ISO 8601 with zone).
        author: A person or a pipeline.
        commit: Of the manifests, or "".
        entity: Whose quota.
        key: Which key.
        before: Value before, ``None`` = not set.
        after: Value asked for, ``None`` = removed.
        cause: The row of the three-way table.
        document: ``namespace/name``, or "".
        outcome: ``APPLIED``, ``REJECTED``, ``HELD``, ``UNKNOWN``, ``NOT SENT``, ``NOT LANDED`` or ``INTENDED``.
        note: What the broker said, or a note.
    """

    time: str
    author: str
    commit: str
    entity: Entity
    key: Key
    before: float | None
    after: float | None
    cause: str
    document: str
    outcome: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeHistory:
    """What a log contains of a cluster.

    Attributes:
        entries: The newest :data:`KEPT`, newest first.
        left_out: How many older ones there are.
    """

    entries: tuple[PastChange, ...] = ()
    left_out: int = 0


def history_of(
    entries: Iterable[Mapping[str, object]], *, cluster_id: str, location: str
) -> ChangeHistory:
    """The entries of one cluster; an intent only if it has no outcome.

    Args:
        entries: As ``inventory.audit.read_entries`` gives them, oldest first.
        cluster_id: Whose are wanted; "" = those of every cluster, where the cluster is not known.
        location: Name of the file, for errors.

    Raises:
        ConfigError: An entry has not the shape of one; the message has its number.
    """
    changes: deque[PastChange] = deque(maxlen=KEPT)
    total = 0
    numbered = list(enumerate(entries, start=1))
    intents: dict[str, dict[str, Mapping[str, object]]] = {}
    for _, entry in numbered:
        of_cluster = intents.setdefault(str(entry.get("clusterId")), {})
        apply_entry(of_cluster, entry)
        if (
            "intendedAt" in entry
        ):  # UNKNOWN, too: it says itself that the change may have been written
            _ = of_cluster.pop(pair_name(entry.get("entity"), entry.get("key")), None)
    still_open = {id(entry) for of_cluster in intents.values() for entry in of_cluster.values()}
    for at, entry in numbered:
        if entry.get("outcome") == INTENDED and id(entry) not in still_open:
            continue
        reader = DocumentReader(dict(entry), step=f"entry {at}", location=location)
        fields = reader.fields(
            "time", "who", "commit", "clusterId", "entity", "key", "before", "after", "cause", "document", "outcome",
            optional=tuple(entry),
        )  # fmt: skip
        if cluster_id and fields["clusterId"].text() != cluster_id:
            continue
        total += 1
        changes.append(
            PastChange(
                time=fields["time"].text(),
                author=fields["who"].text(),
                commit=fields["commit"].text(),
                entity=fields["entity"].entity(),
                key=_KEYS[fields["key"].choice(_KEYS)],
                before=fields["before"].quota_value(),
                after=fields["after"].quota_value(),
                cause=fields["cause"].text(),
                document=fields["document"].text(),
                outcome=fields["outcome"].text(),
                note=fields["words"].text() if "words" in fields else "",
            )
        )
    return ChangeHistory(entries=tuple(reversed(changes)), left_out=total - len(changes))
