"""The digest of a plan's effect, which binds an approval: equal effects have equal digests.

The effect is what a reviewer approves: each operation with its value before, its cause and its document, and for removals
the limits that their clients fall back to. It is not a signature.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from reconciler.quota.entity import parts, sort_key
from reconciler.quota.keys import COLUMN_OF, canonical_value
from reconciler.quota.planner.fallbacks import Fallback
from reconciler.quota.planner.plan import QuotaChange

Facts: TypeAlias = Sequence[object]
"""What a reviewer approves of one row of a plan; rows with equal ones are the same."""


def facts_of(row: QuotaChange | Fallback) -> Facts:
    """Return what a reviewer approves of a change, or of a limit that a removal relies on."""
    if isinstance(row, Fallback):
        return parts(row.entity), row.key, canonical_value(row.key, row.value)
    before, after = (canonical_value(row.key, value) for value in (row.before, row.after))
    facts = parts(row.entity), row.key, before, after, row.cause, document_of(row)
    return facts if row.claim is None or row.claim.until is None else (*facts, row.claim.until)


def document_of(change: QuotaChange) -> str:
    """Return the document that declares or owns a changed pair; "" if there is none."""
    if change.claim is not None:
        return change.claim.document
    return "" if change.owner is None else change.owner.document


def _place(row: QuotaChange | Fallback) -> tuple[tuple[int, str, str, str], int, str]:
    cause = row.cause if isinstance(row, QuotaChange) else ""
    return sort_key(row.entity), COLUMN_OF[row.key], cause


def effect_digest(
    cluster_id: str, changes: Iterable[QuotaChange], relied_on: Iterable[Fallback] = ()
) -> str:
    """Return SHA-256 over cluster id, operations and the live limits that clients of removals fall back to."""
    rows = (sorted(changes, key=_place), sorted(relied_on, key=_place))
    effect = [cluster_id, *([facts_of(row) for row in part] for part in rows)]
    text = json.dumps(effect, ensure_ascii=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
