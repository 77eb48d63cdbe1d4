"""An entry of the audit log: a change that is about to be sent, or its outcome. Its fields are those of a line."""

from typing import Final, Literal

from msgspec import UNSET, Struct, UnsetType

from reconciler.quota.entity import EntityParts
from reconciler.quota.keys import WrittenValue

ENTRY_VERSION: Final = 1
"""Version of the line format, in every line as ``v``."""

INTENDED: Final = "INTENDED"
"""Outcome of a change that is about to be sent: it may have been written."""

NOT_LANDED: Final = "NOT LANDED"
"""Outcome of a change whose run ended early: a later describe showed that it was not written."""

_NAMES: Final = {
    "author": "who",
    "cluster_id": "clusterId",
    "visibility": "seen",
    "observed_value": "found",
    "note": "words",
    "settled_at": "settledAt",
    "settled_by": "settledBy",
    "intended_at": "intendedAt",
}
"""Fields that a line names otherwise."""


class EntryOfRun(Struct, frozen=True, gc=False, rename=_NAMES):
    """The first fields of a line, which all lines of a run share; by position, since 16 names make a call slow."""

    v: Literal[1]  # version of the line format
    time: str  # such as 2025-11-21T12:00:00Z
    author: str
    commit: str
    cluster_id: str
    digest: str


class AuditEntry(EntryOfRun, frozen=True, kw_only=True):
    """One line of the log. Words and names are texts, because another version may have written them."""

    entity: EntityParts
    key: str
    # Unset if the log that has the intent could not be read.
    before: WrittenValue | UnsetType = UNSET
    after: WrittenValue
    cause: str
    document: str
    outcome: str
    visibility: str = ""
    observed_value: WrittenValue = None
    note: str = ""
    settled_at: str | UnsetType = UNSET  # when a later run determined the outcome
    settled_by: str | UnsetType = UNSET
    intended_at: str | UnsetType = UNSET  # the time of the intent that this outcome closes

    @property
    def pair(self) -> tuple[str, EntityParts, str]:
        """Cluster id, entity and key."""
        return self.cluster_id, self.entity, self.key

    @property
    def closes_intent(self) -> bool:
        """Whether no later outcome decides: an unknown one closes an intent only if the value was observed."""
        return self.intended_at is not UNSET and (
            self.outcome != "UNKNOWN" or self.visibility == "visible"
        )
