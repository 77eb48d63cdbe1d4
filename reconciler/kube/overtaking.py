"""Records in ConfigMaps while others write, or before a status has taken over: what must not get lost in between."""

import contextlib
from collections.abc import Collection, Mapping
from dataclasses import replace

from reconciler.errors import InventoryError
from reconciler.kube.records import entries_of
from reconciler.kube.resources import Obj
from reconciler.quota.entity import Entity
from reconciler.quota.keys import COLUMN_OF
from reconciler.quota.owned import NO_RECORD, Backing, Intent, Owned, Pair


def beside(before: Owned, after: Owned) -> Owned:
    """The part that ConfigMaps keep, with what they kept until now and no status has taken over yet."""
    records = dict(before.records)
    for subject, record in after.records.items():
        made = records.get(subject, NO_RECORD)
        for key, owner in record.pairs():
            made = made.with_pair(key, record.applied[COLUMN_OF[key]], owner)
        records[subject] = made
    renewed = {(subject, key) for subject, one in after.records.items() for key, _ in one.pairs()}
    return replace(
        after,
        records=records,
        intents={**before.intents, **after.intents},
        drift_since={**before.drift_since, **after.drift_since},
        orphaned=after.orphaned | (before.orphaned - renewed),
    )


def with_news(mine: Owned, before: Owned, now: Owned) -> Owned:
    """Our records with what somebody else put into the ConfigMaps meanwhile; what both of us changed is ours.

    Args:
        mine: All records, as we know them.
        before: What the ConfigMaps held when we read them, or what we wrote last.
        now: What they hold now.
    """
    records, orphaned = dict(mine.records), set(mine.orphaned)
    for subject, record in now.records.items():
        was, ours = before.records.get(subject, NO_RECORD), records.get(subject, NO_RECORD)
        made = ours
        for key, owner in record.pairs():
            column = COLUMN_OF[key]
            news = record.applied[column], owner
            earlier = was.applied[column], was.owners[column]
            if news != earlier and (ours.applied[column], ours.owners[column]) == earlier:
                made = made.with_pair(key, *news)
            if made.owners[column] == owner and (subject, key) in now.orphaned - before.orphaned:
                orphaned.add((subject, key))
        if made != NO_RECORD:
            records[subject] = made
    return replace(mine, records=records, orphaned=frozenset(orphaned))


def owed(
    before: Owned,
    after: Owned,
    objects: Mapping[str, Obj],
    live: Mapping[str, Entity],
    *,
    listed: bool,
) -> dict[Pair, Intent]:
    """Records of live documents that their statuses do not show yet, as intents that carry them.

    A record counts where the ledger lists it and the status of its document shows it. The ledger is written first, so
    an intent carries the record until the status was written too.

    Args:
        before: The records as statuses and ConfigMaps had them when the pass began.
        after: The records now.
        objects: The ClientQuotas as they are by now, by name.
        live: Documents whose status goes on holding their records, with their entities.
        listed: Whether the ledger lists what live documents hold. Else a status has to show the value, too.
    """
    made: dict[Pair, Intent] = {}
    for subject, record in after.records.items():
        if before.records.get(subject) is record:
            continue
        for key, owner in record.pairs():
            applied = record.applied[COLUMN_OF[key]]
            if applied is None or live.get(owner.document) != subject:
                continue
            shown: list[float | None] = []
            with contextlib.suppress(InventoryError):
                shown = [
                    one.applied
                    for one in entries_of(after.cluster_id, objects[owner.document])
                    if one.key is key and one.applied is not None
                ]
            if applied in shown or (listed and shown):
                continue
            intent = after.intents.get((subject, key)) or Intent(value=applied, owner=owner)
            made[subject, key] = replace(intent, backing=Backing(applied=applied, owner=owner))
    return made


def restored(owned: Owned, documents: Collection[str]) -> Owned:
    """The records with those that intents carry, where no status shows one.

    Args:
        owned: The records, as statuses and ConfigMaps have them.
        documents: The live documents.
    """
    records = dict(owned.records)
    for (subject, key), intent in owned.intents.items():
        backing, record = intent.backing, records.get(subject, NO_RECORD)
        owner = record.owners[COLUMN_OF[key]]
        if backing is not None and (owner is None or owner.document not in documents):
            records[subject] = record.with_pair(key, backing.applied, backing.owner)
    return replace(owned, records=records)
