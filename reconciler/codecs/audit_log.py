"""Reader of an audit log: its changes and open intents. The log may have been edited, or written by another tool."""

from collections import deque
from collections.abc import Collection, Iterable, MutableMapping
from typing import TypeAlias

from msgspec import UNSET

from reconciler.errors import ConfigError, QuotaValueError
from reconciler.quota.entity import EntityParts, from_parts, parts
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Pair
from reconciler.quota.results.audit_entry import INTENDED, AuditEntry
from reconciler.render.json_values import read_value
from reconciler.render.page.history import MOST_PAST_CHANGES, ChangeHistory, PastChange

OpenIntents: TypeAlias = MutableMapping[tuple[str, EntityParts, str], AuditEntry]
"""Entries ``INTENDED`` without an outcome, by cluster id, entity and key."""


def open_among(
    entries: Iterable[AuditEntry], *, cluster_id: str, pairs: Collection[Pair]
) -> dict[Pair, AuditEntry]:
    """Return the newest entry ``INTENDED`` of each given pair of a cluster, unless a later entry closes it.

    Args:
        entries: Newest first; they are read until every pair is decided.
    """
    undecided = {(cluster_id, parts(entity), str(key)): (entity, key) for entity, key in pairs}
    open_intents: dict[Pair, AuditEntry] = {}
    for entry in entries if undecided else ():
        if entry.pair not in undecided:
            continue
        if entry.outcome == INTENDED:
            open_intents[undecided.pop(entry.pair)] = entry
        elif entry.closes_intent:
            del undecided[entry.pair]
        if not undecided:
            break
    return open_intents


def apply_entry(open_intents: OpenIntents, entry: AuditEntry) -> None:
    """Add an intent, or remove the one that an outcome closes."""
    if entry.outcome == INTENDED:
        open_intents[entry.pair] = entry
    elif entry.closes_intent:
        _ = open_intents.pop(entry.pair, None)


def history_of(entries: Iterable[AuditEntry], *, cluster_id: str, location: str) -> ChangeHistory:
    """Return the entries of one cluster; intents only without an outcome.

    Args:
        entries: As ``inventory.audit_log.read_entries`` returns them, oldest first.
        cluster_id: The cluster; "" = every cluster, if it is not known.

    Raises:
        ConfigError: An entry has an unknown entity or key; the message has its number.
    """
    changes: deque[PastChange] = deque(maxlen=MOST_PAST_CHANGES)
    total = 0
    numbered = list(enumerate(entries, start=1))
    intents: OpenIntents = {}
    for _, entry in numbered:
        apply_entry(intents, entry)
        # UNKNOWN, too: this entry itself shows that the change may have been written.
        if entry.intended_at is not UNSET:
            _ = intents.pop(entry.pair, None)
    still_open = set(map(id, intents.values()))
    for at, entry in numbered:
        if entry.outcome == INTENDED and id(entry) not in still_open:
            continue
        if cluster_id and entry.cluster_id != cluster_id:
            continue
        total += 1
        try:
            changes.append(_past_change(entry))
        except (ValueError, QuotaValueError) as error:
            raise ConfigError(f"entry {at}: {error}", location=location) from error
    return ChangeHistory(entries=tuple(reversed(changes)), left_out=total - len(changes))


def _past_change(entry: AuditEntry) -> PastChange:
    return PastChange(
        time=entry.time,
        author=entry.author,
        commit=entry.commit,
        entity=from_parts(entry.entity),
        key=Key(entry.key),
        before=None if entry.before is UNSET else read_value(entry.before),
        after=read_value(entry.after),
        cause=entry.cause,
        document=entry.document,
        outcome=entry.outcome,
        note=entry.note,
    )
