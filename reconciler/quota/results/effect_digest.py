"""The digest of a plan's effect, which binds an approval: equal effects have equal digests.

The effect is what a reviewer approves: each operation with its value before, its cause and its document, and for removals
the limits that their clients fall back to. It is not a signature.
"""

import hashlib
import math
from collections.abc import Iterable

from msgspec import Struct

from reconciler.base.compact_json import lines
from reconciler.quota.entity import EntityParts, parts
from reconciler.quota.keys import Key, canonical_value
from reconciler.quota.planner.effects import Fallback
from reconciler.quota.planner.plan import QuotaChange


class Facts(Struct, frozen=True, gc=False, array_like=True):
    """What a reviewer approves of one row of a plan; rows with equal ones are the same."""

    entity: EntityParts
    key: Key
    before: float | str | None  # the live value; a text if JSON has no number for it
    # Of a change; a limit that removals rely on has no cause.
    after: float | str | None = None
    cause: str = ""
    document: str = ""
    until: float | None = None


class _Head(Struct, frozen=True, array_like=True):
    cluster_id: str
    rows: int  # number of the changes among the lines that follow


def facts_of(row: QuotaChange | Fallback) -> Facts:
    """Return what a reviewer approves of a change, or of a limit that a removal relies on."""
    entity, key = parts(row.entity), row.key
    if isinstance(row, Fallback):
        return Facts(entity, key, _value(key, row.value))
    until = None if row.claim is None else row.claim.until
    before, after = _value(key, row.before), _value(key, row.after)
    return Facts(entity, key, before, after, row.cause, row.document, until)


def _value(key: Key, value: float | None) -> float | str | None:
    number = canonical_value(key, value)
    return number if number is None or math.isfinite(number) else str(number)


def effect_digest(
    cluster_id: str, changes: Iterable[QuotaChange], relied_on: Iterable[Fallback] = ()
) -> str:
    """Return SHA-256 over cluster id, operations and the live limits that clients of removals fall back to."""
    operations, fallbacks = (
        sorted(lines(list(map(facts_of, rows))).splitlines()) for rows in (changes, relied_on)
    )
    head = lines([_Head(cluster_id, len(operations))]).rstrip()
    effect = b"\n".join((head, *operations, *fallbacks))
    return f"sha256:{hashlib.sha256(effect).hexdigest()}"
