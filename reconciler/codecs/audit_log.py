"""Reader of an audit log: its changes and open intents. The log may have been edited, or written by another tool."""

import json
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from reconciler.codecs.reader import DocumentReader
from reconciler.quota.entity_forms import entity_json
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Pair
from reconciler.render.page.history import MOST_PAST_CHANGES, ChangeHistory, PastChange

INTENDED: Final = "INTENDED"
"""Outcome of a change that is about to be sent: it may have been written."""

NOT_LANDED: Final = "NOT LANDED"
"""Outcome of a change whose run ended early: a later describe showed that it was not written."""


def pair_name(entity: object, key: object) -> str:
    """Return the key of a pair among open intents."""
    return json.dumps([entity, key])


def open_among(
    entries: Iterable[Mapping[str, object]], *, cluster_id: str, pairs: Collection[Pair]
) -> dict[Pair, Mapping[str, object]]:
    """Return the newest entry ``INTENDED`` of each given pair of a cluster, unless a later entry closes it.

    Args:
        entries: Newest first; they are read until every pair is decided.
    """
    undecided = {pair_name(entity_json(pair[0]), str(pair[1])): pair for pair in pairs}
    open_intents: dict[Pair, Mapping[str, object]] = {}
    for entry in entries if undecided else ():
        name = pair_name(entry.get("entity"), entry.get("key"))
        if name not in undecided or entry.get("clusterId") != cluster_id:
            continue
        if entry.get("outcome") == INTENDED:
            open_intents[undecided.pop(name)] = entry
        elif _closes_intent(entry):
            del undecided[name]
        if not undecided:
            break
    return open_intents


def apply_entry(open_intents: dict[str, Mapping[str, object]], entry: Mapping[str, object]) -> None:
    """Add an intent, or remove the one that an outcome closes."""
    pair = pair_name(entry.get("entity"), entry.get("key"))
    if entry.get("outcome") == INTENDED:
        open_intents[pair] = entry
    elif _closes_intent(entry):
        _ = open_intents.pop(pair, None)


def _closes_intent(entry: Mapping[str, object]) -> bool:
    return "intendedAt" in entry and (
        entry.get("outcome") != "UNKNOWN" or entry.get("seen") == "visible"
    )


def history_of(
    entries: Iterable[Mapping[str, object]], *, cluster_id: str, location: str
) -> ChangeHistory:
    """Return the entries of one cluster; intents only without an outcome.

    Args:
        entries: As ``inventory.audit.read_entries`` returns them, oldest first.
        cluster_id: The cluster; "" = every cluster, if it is not known.

    Raises:
        ConfigError: An entry is invalid; the message has its number.
    """
    changes: deque[PastChange] = deque(maxlen=MOST_PAST_CHANGES)
    total = 0
    numbered = list(enumerate(entries, start=1))
    intents: dict[str, dict[str, Mapping[str, object]]] = {}
    for _, entry in numbered:
        of_cluster = intents.setdefault(str(entry.get("clusterId")), {})
        apply_entry(of_cluster, entry)
        if (
            "intendedAt" in entry
        ):  # UNKNOWN, too: this entry itself shows that the change may have been written
            _ = of_cluster.pop(pair_name(entry.get("entity"), entry.get("key")), None)
    still_open = {id(entry) for of_cluster in intents.values() for entry in of_cluster.values()}
    for at, entry in numbered:
        if entry.get("outcome") == INTENDED and id(entry) not in still_open:
            continue
        reader = DocumentReader(dict(entry), step=f"entry {at}", location=location)
        fields = reader.fields(
            "time",
            "who",
            "commit",
            "clusterId",
            "entity",
            "key",
            "before",
            "after",
            "cause",
            "document",
            "outcome",
            optional=tuple(entry),
        )
        if cluster_id and fields["clusterId"].text() != cluster_id:
            continue
        total += 1
        changes.append(
            PastChange(
                time=fields["time"].text(),
                author=fields["who"].text(),
                commit=fields["commit"].text(),
                entity=fields["entity"].entity(),
                key=fields["key"].word(Key),
                before=fields["before"].quota_value(),
                after=fields["after"].quota_value(),
                cause=fields["cause"].text(),
                document=fields["document"].text(),
                outcome=fields["outcome"].text(),
                note=fields["words"].text() if "words" in fields else "",
            )
        )
    return ChangeHistory(entries=tuple(reversed(changes)), left_out=total - len(changes))
