"""The entries of an audit log about one cluster, as a page shows it."""

from dataclasses import dataclass
from typing import Final

from reconciler.quota.entity import Entity
from reconciler.quota.keys import Key

KEPT: Final = 5_000
"""Maximum number of entries in a page, the newest ones; a log of years would make it unusable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastChange:
    """One past change.

    Attributes:
        time: Time in the log (ISO 8601 with zone).
        before: Value before, ``None`` = not set.
        after: Intended value, ``None`` = removed.
        cause: The row of the three-way table.
        document: ``namespace/name``, or "".
        outcome: ``APPLIED``, ``REJECTED``, ``HELD``, ``UNKNOWN``, ``NOT SENT``, ``NOT LANDED`` or ``INTENDED``.
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
    """The entries of a log about a cluster.

    ``entries``: the newest :data:`KEPT`, newest first.
    """

    entries: tuple[PastChange, ...] = ()
    left_out: int = 0
