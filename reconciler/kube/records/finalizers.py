"""Our finalizer: which documents need it, when it is removed, and the JSON patches for it. Without side effects.

It is set only if deletion has an effect, and removed at the latest after ``deletionTimeout``: an unavailable broker
must not block the deletion of a namespace.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from reconciler.kube.api.custom_resources import (
    FINALIZER,
    Obj,
    finalizer_place,
    resource_version_of,
)
from reconciler.quota.keys import COLUMN_OF
from reconciler.quota.ownership import (
    Orphaned,
    OwnershipRecords,
    Pair,
    RecordChange,
    Recorded,
)
from reconciler.quota.policy import DeletionPolicy, Policy
from reconciler.quota.results.report import Reconciliation

NOTHING_TO_WRITE: Final = frozenset({Policy.OBSERVE, Policy.CREATE_ONLY})
"""Policies that never remove: a deletion need not wait."""


def deletion_has_effect(deletion_policy: DeletionPolicy | None, in_force: Policy) -> bool:
    """Whether deleting the document removes limits: an unset policy means Delete under Sync, Retain otherwise."""
    if in_force in NOTHING_TO_WRITE:
        return False
    if deletion_policy is None:
        return in_force is Policy.SYNC
    return deletion_policy is DeletionPolicy.DELETE


def adding(obj: Obj) -> list[dict[str, Any]]:
    """Return a JSON patch that adds the operator's finalizer to exactly this version of the object."""
    present = obj["metadata"].get("finalizers")
    last: dict[str, Any] = (
        {"op": "add", "path": "/metadata/finalizers/-", "value": FINALIZER}
        if present
        else {"op": "add", "path": "/metadata/finalizers", "value": [FINALIZER]}
    )
    return [_same_version(obj), last]


def removing(obj: Obj) -> list[dict[str, Any]]:
    """Return a JSON patch that removes the operator's finalizer at its position, and no other."""
    place = finalizer_place(obj)
    path = f"/metadata/finalizers/{place}"
    return [{"op": "test", "path": path, "value": FINALIZER}, {"op": "remove", "path": path}]


def _same_version(obj: Obj) -> dict[str, Any]:
    return {
        "op": "test",
        "path": "/metadata/resourceVersion",
        "value": resource_version_of(obj),
    }


def holds_back(
    documents: Iterable[str], owned: OwnershipRecords, report: Reconciliation
) -> Mapping[str, set[Pair]]:
    """Return documents that are being deleted and still have limits to remove, with these limits.

    Args:
        documents: Documents that are being deleted and have the operator's finalizer.
        owned: The records after the reconciliation.
        report: The reconciliation. One that failed before it had a plan holds all of them back.
    """
    own_documents = set(documents)
    pairs_by_document: dict[str, set[Pair]] = {}
    if not own_documents:
        return pairs_by_document
    plan = None if report.preview is None else report.preview.plan
    planned = None
    if plan is not None and plan.complete and report.error is None:
        planned = {(change.entity, change.key) for change in plan.changes}
    for subject, record in owned.records.items():
        for key, owner in record.pairs():
            pair = subject, key
            if owner.document not in own_documents or pair in owned.orphaned:
                continue
            if planned is None or pair in planned:
                pairs_by_document.setdefault(owner.document, set()).add(pair)
    return pairs_by_document


def orphaned(documents: Collection[str], owned: OwnershipRecords) -> tuple[Orphaned, ...]:
    """Return the record changes for documents that are deleted without removing their limits."""
    return tuple(
        Orphaned(entity=subject, key=key)
        for subject, record in owned.records.items()
        for key, owner in record.pairs()
        if owner.document in documents
    )


def given_up(pairs: Iterable[Pair], owned: OwnershipRecords) -> Iterator[RecordChange]:
    """Yield the record changes after the deletion timeout: the limits stay and are recorded as orphaned.

    Giving up a deletion records Retain: otherwise the next reconciliation would remove a limit whose status
    already reported that it stays.
    """
    for subject, key in pairs:
        record = owned.records[subject]
        value, owner = record.applied[COLUMN_OF[key]], record.owners[COLUMN_OF[key]]
        if value is not None and owner is not None:
            retained = replace(owner, deletion_policy=DeletionPolicy.RETAIN)
            yield Recorded(entity=subject, key=key, value=value, owner=retained)
            yield Orphaned(entity=subject, key=key)
