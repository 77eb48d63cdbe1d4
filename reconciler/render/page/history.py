"""The entries of an audit log about one cluster, as a page shows them."""

from typing import Final

from msgspec import Struct

from reconciler.quota.entity import Entity
from reconciler.quota.keys import Key

MOST_PAST_CHANGES: Final = 2_000
"""Maximum number of entries in a page, the newest ones; a log of years would make it unusable."""


class PastChange(Struct, frozen=True, kw_only=True, gc=False):
    """One past change."""

    time: str  # time in the log (ISO 8601 with zone)
    author: str
    commit: str
    entity: Entity
    key: Key
    before: float | None  # value before, None = not set
    after: float | None  # intended value, None = removed
    cause: str  # the row of the three-way table
    document: str  # `namespace/name`, or ""
    outcome: str  # `APPLIED`, `REJECTED`, `HELD`, `UNKNOWN`, `NOT SENT`, `NOT LANDED` or `INTENDED`
    note: str


class ChangeHistory(Struct, frozen=True, kw_only=True, gc=False):
    """The entries of a log about a cluster."""

    entries: tuple[PastChange, ...] = ()  # the newest `MOST_PAST_CHANGES`, newest first
    left_out: int = 0
