"""Settles writes of unknown outcome with one describe: the write took effect, it did not, or it is still open.

An intent is recorded before its request is sent, so a crash in between leaves an intent without an outcome. A
describe settles it:

- The intended value is live: the write took effect. The pair is recorded as owned, and the intent is removed.
- 65 s have passed and another value is live: no broker retries the write any longer. The intent ends, and a value
  that appears later is not owned because of it, even if it equals the intended one.
- Otherwise the write may still take effect, and the intent stays.

So an intent alone is never a reason to remove a value: removals need a record.

The time of an intent is that at which its run sends at the latest, which is in the future: a run writes its records
first, and sends one request after the other. The first describe of a later run, which begins when the earlier one has
ended, replaces it by the present. So an intent ends 65 s after the first describe at the latest, also if the clock that
wrote it runs ahead. A slow clock may end an intent early: the value may then take effect without a record, which leaves
it unmanaged; the value of another writer is not removed.
"""

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from reconciler.quota.entity import sort_key
from reconciler.quota.keys import COLUMN_OF, same_value
from reconciler.quota.ownership import (
    Intent,
    IntentEnded,
    IntentStarted,
    Orphaned,
    OverrideWritten,
    OwnershipRecords,
    Pair,
    RecordChange,
    RecordDropped,
    Recorded,
)
from reconciler.quota.state import QuotaState


class Settlement(Struct, frozen=True, kw_only=True, gc=False):
    """The records after one describe."""

    # The records with `changes` applied; the remaining intents may still take effect.
    owned: OwnershipRecords
    changes: tuple[RecordChange, ...] = ()  # the record changes, by entity and column


# An intent without an end would claim values of others: docs/adr/intent-expiry.md.
def settle_intents(owned: OwnershipRecords, live: QuotaState, *, now: float) -> Settlement:
    """Settle every intent that the describe decides.

    Args:
        live: The answer of one describe.
        now: When that describe began, in seconds since the epoch.
    """
    if not owned.intents:
        return Settlement(owned=owned)
    changes = tuple(
        change
        for pair in sorted(owned.intents, key=lambda pair: (sort_key(pair[0]), COLUMN_OF[pair[1]]))
        for change in _changes(owned, pair, live.value(*pair), now)
    )
    return Settlement(owned=owned.with_changes(changes), changes=changes)


def has_landed(pair: Pair, intent: Intent, live: QuotaState) -> bool:
    """Whether the intended value is live; for a removal, whether no value is."""
    return same_value(pair[1], intent.value, live.value(*pair))


def _changes(
    owned: OwnershipRecords, pair: Pair, value: float | None, now: float
) -> Iterator[RecordChange]:
    entity, key = pair
    intent = owned.intents[pair]
    if same_value(key, intent.value, value):
        if pair in owned.overrides:
            # Also an earlier write of a document: it landed above the record from before the override.
            yield OverrideWritten(entity=entity, key=key, value=intent.value)
            return
        if intent.value is None:
            yield RecordDropped(entity=entity, key=key)
            return
        if not intent.owner.document:  # The override that wrote it is gone.
            yield IntentEnded(entity=entity, key=key)
            return
        yield Recorded(entity=entity, key=key, value=intent.value, owner=intent.owner)
        if pair in owned.orphaned:
            # An orphan stays an orphan until a document declares the pair again.
            yield Orphaned(entity=entity, key=key)
    elif intent.at > now:
        yield IntentStarted(entity=entity, key=key, intent=replace(intent, at=now))
    elif not intent.may_still_land(now):
        yield IntentEnded(entity=entity, key=key)
