"""Migrates records from statuses, once, if the ConfigMaps of a cluster id do not list yet what documents own.

This happens after an upgrade from a version that stored records in statuses, and after a restore of custom resources
without ConfigMaps. More users may write a status than a ConfigMap, so a record of a status counts only if its
document currently has a grant for the entity of its spec: it cannot claim more than the document may declare anyway.
The first complete listing writes the list, and from then on no status is read.
"""

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from reconciler.kube.api.custom_resources import (
    Obj,
    declared_entity,
    document_of,
    read_time,
    status_of,
    uid_of,
)
from reconciler.quota.keys import COLUMN_OF, Key
from reconciler.quota.ownership import NO_RECORD, Owner, OwnershipRecord
from reconciler.quota.policy import DeletionPolicy

_LOG: Final = logging.getLogger("reconciler.kube")


def shows_records(obj: Obj, cluster_id: str) -> bool:
    """Whether the status of a ClientQuota contains records of this cluster."""
    status = status_of(obj)
    return bool(status.get("keys")) and status.get("clusterId") == cluster_id


def records_of_statuses(
    cluster_id: str,
    objects: Iterable[Obj],
    *,
    before: Mapping[Any, OwnershipRecord],
    has_grant: Callable[[Obj], bool],
) -> tuple[dict[Any, OwnershipRecord], dict[str, str]]:
    """Return the records, with those of statuses that no ConfigMap has, and the uids of their documents.

    Args:
        objects: The existing ClientQuotas.
        before: The records of the ConfigMaps; they take precedence.
        has_grant: Whether a document may declare its entity.
    """
    records, uids = dict(before), dict[str, str]()
    applied_at: dict[tuple[Any, Key], tuple[float, str]] = {}
    for obj in objects:
        subject = declared_entity(obj)
        if subject is None or not shows_records(obj, cluster_id) or not has_grant(obj):
            continue
        document = document_of(obj)
        try:
            entries = tuple(_entries(document, status_of(obj)["keys"]))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            _LOG.warning("the status of ClientQuota %s is not taken over: %s", document, error)
            continue
        for key, value, owner, at in entries:
            owners = before.get(subject, NO_RECORD).owners
            rank = at, document
            if owners[COLUMN_OF[key]] is None and rank > applied_at.get((subject, key), (-1.0, "")):
                applied_at[subject, key] = rank
                records[subject] = records.get(subject, NO_RECORD).with_pair(key, value, owner)
                uids[document] = uid_of(obj)
    return records, uids


def _entries(
    document: str, items: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[Key, float, Owner, float]]:
    for item in items:
        if "applied" not in item:
            continue
        policy = item.get("deletionPolicy")
        owner = Owner(
            document=document,
            deletion_policy=None if policy is None else DeletionPolicy(policy),
            since=_time(item["since"]) if "since" in item else 0.0,
        )
        at = _time(item["appliedAt"]) if "appliedAt" in item else 0.0
        yield Key(item["key"]), _number(item["applied"]), owner, at


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} should be a number")
    return float(value)


def _time(value: object) -> float:
    seconds = read_time(value) if isinstance(value, str) else None
    if seconds is None:
        raise ValueError(f"{value!r} should be a time")
    return seconds
