"""Records in ConfigMaps while others write, or before a status has taken over: what must not get lost in between."""

from dataclasses import replace

from reconciler.quota.keys import COLUMN_OF
from reconciler.quota.owned import NO_RECORD, Owned


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
