"""What an audit log contains of one cluster, as a page shows it."""

from dataclasses import dataclass
from typing import Final

from reconciler.quota.entity import Entity
from reconciler.quota.keys import Key

KEPT: Final = 5_000
"""So many of the newest entries stand in a page; a log of years would make it unusable."""


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
