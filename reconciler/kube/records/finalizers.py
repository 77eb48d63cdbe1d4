"""Our finalizer: which documents need it, when it is removed, and the JSON patches for it. Without side effects.

It is set only if deletion has an effect, and removed at the latest after ``deletionTimeout``: an unavailable broker
must not block the deletion of a namespace. While the removal guard withholds its removals, it waits for a day.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.errors import WrongCluster
from reconciler.kube.api.custom_resources import FINALIZER, Resource
from reconciler.quota.keys import COLUMN_OF
from reconciler.quota.ownership import (
    NO_RECORD,
    IntentStarted,
    Orphaned,
    OwnershipRecords,
    Pair,
    RecordChange,
    Recorded,
)
from reconciler.quota.planner.removal_guard import REMOVAL_GUARDS
from reconciler.quota.policy import REMOVING, DeletionPolicy, Policy
from reconciler.quota.results.report import Outcome, Reconciliation
from reconciler.quota.state import Held

WITHHELD_SECONDS: Final = 86_400.0
"""How long a deletion waits while the removal guard withholds it, if that is more than the deletion timeout."""


def deletion_has_effect(deletion_policy: DeletionPolicy | None, in_force: Policy) -> bool:
    """Whether deleting the document removes limits: an unset policy means Delete under Sync, Retain otherwise."""
    if in_force not in REMOVING:
        return False
    if deletion_policy is None:
        return in_force is Policy.SYNC
    return deletion_policy is DeletionPolicy.DELETE


def adding(obj: Resource) -> list[dict[str, Any]]:
    """Return a JSON patch that adds the operator's finalizer to exactly this version of the object."""
    return [
        same_version(obj),
        {"op": "add", "path": "/metadata/finalizers/-", "value": FINALIZER}
        if obj.has_finalizers
        else {"op": "add", "path": "/metadata/finalizers", "value": [FINALIZER]},
    ]


def same_version(obj: Resource) -> dict[str, Any]:
    """Return the operation of a JSON patch that tests the version of an object."""
    return {"op": "test", "path": "/metadata/resourceVersion", "value": obj.version}


def removing(obj: Resource) -> list[dict[str, Any]]:
    """Return a JSON patch that removes the operator's finalizer at its position, and no other.

    It tests no version: a document that is being deleted stays so, whatever else of it changes.
    """
    path = f"/metadata/finalizers/{obj.finalizer}"
    return [{"op": "test", "path": path, "value": FINALIZER}, {"op": "remove", "path": path}]


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
    # What the record asks for at the end of an override is for the next reconciliation.
    is_over = plan is not None and plan.complete and not report.has_restored_owned
    if plan is not None and is_over and report.error is None:
        planned = {change.pair for change in plan.changes}
    for subject, record in owned.records.items():
        for key, owner in record.pairs():
            pair = subject, key
            if owner.document not in own_documents or pair in owned.orphaned:
                continue
            if planned is None or pair in planned:
                pairs_by_document.setdefault(owner.document, set()).add(pair)
    # A write whose outcome is unknown has no record yet, and no plan removes what it may still set.
    for pair, intent in owned.intents.items():
        if intent.owner.document in own_documents and intent.value is not None:
            pairs_by_document.setdefault(intent.owner.document, set()).add(pair)
    return pairs_by_document


class DeletionHold(Struct, frozen=True, kw_only=True):
    """The documents that are being deleted and are not released yet."""

    waiting: frozenset[str] = frozenset()  # documents that wait for the removal of their limits
    withheld: frozenset[str] = frozenset()  # of these, those that only the removal guard withholds
    # The limits that stay of documents past the deletion timeout, which are released.
    late: Mapping[str, Collection[Pair]] = field(default_factory=dict[str, Collection[Pair]])


def deletion_hold(
    leaving: Mapping[str, Resource],
    owned: OwnershipRecords,
    report: Reconciliation,
    *,
    note_withheld: Callable[[Collection[str]], Mapping[str, float]],
    timeout: float,
    now: float,
) -> DeletionHold:
    """Return the documents that are held after a reconciliation.

    Args:
        leaving: Documents that are being deleted and have the operator's finalizer.
        owned: The records after the reconciliation.
        note_withheld: Called with the namespaces that the removal guard withholds removals of now; returns when it last
            did, for each namespace: their timeout starts after that.
        timeout: Maximum seconds that a document waits.
        now: Seconds since the epoch.
    """
    held_pairs = dict(holds_back(leaving, owned, report))
    if isinstance(report.error, WrongCluster):
        # These records do not show what the documents own in their cluster; theirs do, when it answers again.
        held_pairs = {document: held_pairs.get(document, set()) for document in leaving}
    withheld_pairs = pairs_withheld(report)
    withheld_at = note_withheld(
        {
            leaving[document].namespace
            for document, pairs in held_pairs.items()
            if not withheld_pairs.isdisjoint(pairs)
        }
        if report.preview is not None
        else ()
    )
    late: dict[str, Collection[Pair]] = {}
    for document, pairs in sorted(held_pairs.items()):
        deleted_at = leaving[document].deleted_at or now
        begun = max(deleted_at, withheld_at.get(leaving[document].namespace, 0.0))
        if now - begun >= timeout or now - deleted_at >= max(timeout, WITHHELD_SECONDS):
            late[document] = pairs
    waiting = frozenset(held_pairs).difference(late)
    return DeletionHold(
        waiting=waiting,
        withheld=frozenset(
            name for name in waiting if held_pairs[name] and held_pairs[name] <= withheld_pairs
        ),
        late=late,
    )


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
        record, intent = owned.records.get(subject, NO_RECORD), owned.intents.get((subject, key))
        value, owner = record.applied[COLUMN_OF[key]], record.owners[COLUMN_OF[key]]
        if value is not None and owner is not None:
            retained = replace(owner, deletion_policy=DeletionPolicy.RETAIN)
            yield Recorded(entity=subject, key=key, value=value, owner=retained)
            yield Orphaned(entity=subject, key=key)
        elif intent is not None:
            retained = replace(intent.owner, deletion_policy=DeletionPolicy.RETAIN)
            yield IntentStarted(entity=subject, key=key, intent=replace(intent, owner=retained))


def pairs_withheld(report: Reconciliation) -> set[Pair]:
    """Return the limits whose removal the removal guard withholds, or is held until such a removal of another document is made."""
    pairs = {
        withheld.change.pair
        for withheld in report.withheld
        if any(violation.guard in REMOVAL_GUARDS for violation in withheld.violations)
    }
    waits = [
        (pair_outcome.change.pair, frozenset(pair_outcome.result.waits_for))
        for pair_outcome in (() if report.outcome is None else report.outcome.pairs)
        if isinstance(pair_outcome.result, Held)
    ]
    size = -1
    while size < len(pairs):  # One held removal may wait for another.
        size, entities = len(pairs), {entity for entity, _ in pairs}
        pairs |= {pair for pair, waits_for in waits if waits_for <= entities}
    return pairs


def needs_retry(report: Reconciliation, outcome: Outcome) -> bool:
    """Whether an outcome is not complete for another reason than removals that the removal guard withholds."""
    if outcome.failure or outcome.interrupted or not outcome.recorded:
        return True
    withheld_pairs = pairs_withheld(report)
    return any(pair_outcome.change.pair not in withheld_pairs for pair_outcome in outcome.troubled)
