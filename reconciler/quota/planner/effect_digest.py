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
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.planner.preconditions import Precondition

Operation: TypeAlias = Sequence[object]
"""What a reviewer approves of one change; changes with equal ones are the same."""


def operation_of(change: QuotaChange) -> Operation:
    """Return what a reviewer approves of a change."""
    before, after = (canonical_value(change.key, value) for value in (change.before, change.after))
    return parts(change.entity), change.key, before, after, change.cause, document_of(change)


def document_of(change: QuotaChange) -> str:
    """Return the document that declares or owns a changed pair; "" if there is none."""
    if change.claim is not None:
        return change.claim.document
    return "" if change.owner is None else change.owner.document


def _place(pair: QuotaChange | Precondition) -> tuple[tuple[int, str, str, str], int]:
    return sort_key(pair.entity), COLUMN_OF[pair.key]


def effect_digest(
    cluster_id: str, changes: Iterable[QuotaChange], relied_on: Iterable[Precondition] = ()
) -> str:
    """Return SHA-256 over cluster id, operations and the live limits that clients of removals fall back to."""
    ordered_changes = sorted(changes, key=_place)
    ordered_limits = sorted(relied_on, key=_place)
    effect = [
        cluster_id,
        [operation_of(change) for change in ordered_changes],
        [
            (parts(limit.entity), limit.key, canonical_value(limit.key, limit.live))
            for limit in ordered_limits
        ],
    ]
    text = json.dumps(effect, ensure_ascii=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
