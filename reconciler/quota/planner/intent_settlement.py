"""What one describe decides about writes of unknown outcome: the write landed, it did not, or it is still open.

An intent is written down before its request is sent, so a crash in between leaves an intent without an outcome. A
describe decides about it:

- The intended value is live: the write landed. The pair is recorded as ours, and the intent is gone.
- 65 s have passed and another value is live: no broker retries the write any longer. The intent ends, and a value
  that appears later never counts as ours because of it, even if it equals the intended one.
- Otherwise the write may still land, and the intent stays.

So an intent is never a reason to remove anything: only a record is, and only a describe turns one into the other.

The time of an intent comes from the clock that wrote it. A time in the future is replaced by the present, so a clock
that runs ahead delays the end by at most 65 s after the first describe. A clock that runs behind ends an intent early:
the value may then land without a record, which leaves it unmanaged and never removes the value of another writer.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from reconciler.quota.entity import sort_key
from reconciler.quota.keys import COLUMN_OF, same_value
from reconciler.quota.ownership import (
    Intent,
    IntentEnded,
    IntentStarted,
    Orphaned,
    OwnershipRecords,
    Pair,
    RecordChange,
    RecordDropped,
    Recorded,
)
from reconciler.quota.state import QuotaState


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The records after one describe.

    Attributes:
        owned: The records with ``changes`` applied; the intents that are left may still land.
        changes: What the describe decided, by entity and column.
    """

    owned: OwnershipRecords
    changes: tuple[RecordChange, ...] = ()


def settle_intents(owned: OwnershipRecords, live: QuotaState, *, now: float) -> Settlement:
    """Decide about every intent.

    Args:
        owned: The records.
        live: What one describe answered.
        now: When that describe began, in seconds since the epoch.
    """
    if not owned.intents:
        return Settlement(owned=owned)
    changes = tuple(
        change
        for pair in sorted(owned.intents, key=lambda pair: (sort_key(pair[0]), COLUMN_OF[pair[1]]))
        for change in _changes(owned, pair, live.value(*pair), now)
    )
    settled = replace(owned.with_changes(changes), is_known=owned.is_known)
    return Settlement(owned=settled, changes=changes)


def has_landed(pair: Pair, intent: Intent, live: QuotaState) -> bool:
    """Whether the intended value is live; for a removal, whether no value is."""
    return same_value(pair[1], intent.value, live.value(*pair))


def _changes(
    owned: OwnershipRecords, pair: Pair, value: float | None, now: float
) -> Iterator[RecordChange]:
    entity, key = pair
    intent = owned.intents[pair]
    if same_value(key, intent.value, value):
        if intent.value is None:
            yield RecordDropped(entity=entity, key=key)
            return
        yield Recorded(entity=entity, key=key, value=intent.value, owner=intent.owner)
        if pair in owned.orphaned:
            # A removal that was given up stays given up until a document declares the pair again.
            yield Orphaned(entity=entity, key=key)
    elif intent.at > now:
        yield IntentStarted(entity=entity, key=key, intent=replace(intent, at=now))
    elif not intent.may_still_land(now):
        yield IntentEnded(entity=entity, key=key)
