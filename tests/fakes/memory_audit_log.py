"""An audit log in memory whose entries tests can read."""

from collections.abc import Collection, Mapping, Sequence

from reconciler.inventory.audit_log import open_among
from reconciler.quota.ownership import Pair
from reconciler.quota.results.audit_entry import AuditEntry


class MemoryAuditLog:
    """Implements ``ports.AuditLog``."""

    def __init__(self) -> None:
        self.entries: list[AuditEntry] = []

    def append(self, entries: Sequence[AuditEntry]) -> None:
        """Append the entries."""
        self.entries.extend(entries)

    def open_intents(self, cluster_id: str, pairs: Collection[Pair]) -> Mapping[Pair, AuditEntry]:
        """Return the intents of pairs without an outcome."""
        return open_among(reversed(self.entries), cluster_id=cluster_id, pairs=pairs)
