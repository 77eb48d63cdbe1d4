"""An audit log in memory, with its entries to look at."""

from collections.abc import Mapping, Sequence

from reconciler.inventory.audit_log import open_among


class MemoryAuditLog:
    """Implements ``ports.AuditLog``."""

    def __init__(self) -> None:
        self.entries: list[Mapping[str, object]] = []

    def append(self, entries: Sequence[Mapping[str, object]]) -> None:
        """Keep the entries."""
        self.entries.extend(entries)

    def open_intents(self, cluster_id: str) -> Mapping[str, Mapping[str, object]]:
        """The intents without an outcome, by pair."""
        return open_among(self.entries, cluster_id=cluster_id)
