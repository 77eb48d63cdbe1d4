"""Which intents of an audit log are open: changes that are about to be sent, and have no outcome in the log yet."""

import json
from collections.abc import Iterable, Mapping
from typing import Final

INTENDED: Final = "INTENDED"
"""Outcome of a change that is about to be sent: it may have been written."""

NOT_LANDED: Final = "NOT LANDED"
"""Outcome of a change whose run was ended: a later look found that it had not been written."""


def pair_name(entity: object, key: object) -> str:
    """What stands for a pair among open intents."""
    return json.dumps([entity, key])


def open_among(
    entries: Iterable[Mapping[str, object]], *, cluster_id: str
) -> dict[str, Mapping[str, object]]:
    """The entries ``INTENDED`` of a cluster that no later entry closes, by pair; the newest of each pair."""
    open_intents: dict[str, Mapping[str, object]] = {}
    for entry in entries:
        if entry.get("clusterId") == cluster_id:
            apply_entry(open_intents, entry)
    return open_intents


def apply_entry(open_intents: dict[str, Mapping[str, object]], entry: Mapping[str, object]) -> None:
    """Open an intent, or close the one that an outcome belongs to."""
    pair = pair_name(entry.get("entity"), entry.get("key"))
    if entry.get("outcome") == INTENDED:
        open_intents[pair] = entry
    elif "intendedAt" in entry and (
        entry.get("outcome") != "UNKNOWN" or entry.get("seen") == "visible"
    ):
        _ = open_intents.pop(pair, None)
