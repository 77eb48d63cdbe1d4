"""An audit entry for tests of logs, and the entries of a log."""

import json
from pathlib import Path

import msgspec

from reconciler.quota.results.audit_entry import AuditEntry


def audit_entry(cluster_id: str = "lkc-1", **fields: object) -> AuditEntry:
    """Return the entry of an applied change, with other values for some fields."""
    values: dict[str, object] = {
        "entity": (("user", "alice"),),
        "key": "producer_byte_rate",
        "before": None,
        "after": 5,
        "cause": "Create",
        "document": "team/alice",
        "outcome": "APPLIED",
        "visibility": "visible",
        "observed_value": 5,
        "note": "",
        **fields,
    }
    time = str(values.pop("time", "2025-11-21T12:00:00Z"))
    author, digest = str(values.pop("author", "ci")), "sha256:0"
    return AuditEntry(1, time, author, "abc", cluster_id, digest, **values)


def entries_in(path: Path) -> list[AuditEntry]:
    """Return the whole entries of a log, oldest first; a line that a crash cut off is left out."""
    lines = path.read_bytes().split(b"\n")
    return [msgspec.convert(json.loads(line), AuditEntry) for line in lines if line.endswith(b"}")]
