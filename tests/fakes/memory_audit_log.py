"""An audit log in memory whose entries tests can read."""

from collections.abc import Mapping, Sequence

from reconciler.inventory.audit_log import open_among


class MemoryAuditLog:
    """Implements ``ports.AuditLog``."""

    def __init__(self) -> None:
        self.entries: list[Mapping[str, object]] = []

    def append(self, entries: Sequence[Mapping[str, object]]) -> None:
        """Append the entries."""
        self.entries.extend(entries)

    def open_intents(self, cluster_id: str) -> Mapping[str, Mapping[str, object]]:
        """Return the intents without an outcome, by quota key."""
        return open_among(self.entries, cluster_id=cluster_id)
