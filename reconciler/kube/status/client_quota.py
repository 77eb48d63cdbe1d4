"""The status of a ClientQuota: its records, the state of each of its keys, and its conditions. All parts have size limits.

A status is computed from the previous one and a reconciliation. If nothing happened it equals the previous one
exactly, so that a restart writes nothing. It contains the document's ownership records: without a reconciliation they
are copied unchanged from the previous status.
"""

import math
from collections.abc import Iterable
from typing import Any, Final

from reconciler.kube.api.custom_resources import (
    Obj,
    cluster_name_of,
    generation_of,
    requested_at,
)
from reconciler.kube.records.document_entity import entity_of
from reconciler.kube.status.conditions import bounded, condition_of, conditions
from reconciler.kube.status.eligibility import Eligibility
from reconciler.kube.status.entries import StatusEntries, previous_keys, sentence
from reconciler.kube.status.key_status import KeyStatus, KeyStatusIndex
from reconciler.kube.status.reasons import PRECEDENCE, Reason, worst
from reconciler.quota.entity import Entity
from reconciler.quota.entity_forms import entity_text
from reconciler.quota.keys import COLUMN_OF, Key

MOST_ENTITY: Final = 2048
"""Maximum characters of an entity's text; names may have 32,767 bytes each, and ``kubectl get`` shows it."""

GRACE_SECONDS: Final = 60.0
"""Seconds of an outage before documents in sync report it, so that a short outage causes no write per document."""

_Status = dict[str, Any]


def document_status(
    eligibility: Eligibility,
    *,
    key_statuses: KeyStatusIndex | None = None,
    previous: Obj,
    now: float,
    outage: float = math.inf,
) -> _Status:
    """Return the status of a document.

    Args:
        eligibility: The eligibility of the document.
        key_statuses: The reconciliation; ``None`` if none was due or none is possible.
        previous: The current status; empty if there is none.
        now: Seconds since the epoch.
        outage: For how many seconds reconciliations have failed.
    """
    if key_statuses is not None and _may_wait(eligibility, key_statuses, previous, outage):
        return dict(previous)
    subject = _entity(eligibility)
    status: _Status = {"observedGeneration": generation_of(eligibility.obj)}
    handled = (
        requested_at(eligibility.obj) if key_statuses is not None or eligibility.freezes else None
    )
    handled = handled or previous.get("lastHandledReconcileAt")
    if handled is not None:
        status["lastHandledReconcileAt"] = handled[:128]
    text = previous.get("entity") if subject is None else entity_text(subject)
    if text is not None:
        status["entity"] = bounded(text, MOST_ENTITY)
    status_entries = None
    if key_statuses is not None and key_statuses.compared and subject is not None:
        status_entries = StatusEntries(
            eligibility=eligibility,
            subject=subject,
            key_statuses=key_statuses,
            previous=previous,
            now=now,
        )
        status["clusterId"] = key_statuses.owned.cluster_id
        keys, drift = status_entries.keys(), status_entries.drift()
    else:
        if "clusterId" in previous:
            status["clusterId"] = previous["clusterId"]
        keys, drift = previous_keys(eligibility, previous), list(previous.get("drift", ()))
    if keys:
        status["keys"] = keys
    if drift:
        status["drift"] = drift
    reason, message = _reason(eligibility, key_statuses, status_entries)
    spoken_of = None if eligibility.freezes else status_entries
    status["conditions"] = conditions(
        reason,
        message,
        generation=generation_of(eligibility.obj),
        previous=previous.get("conditions", ()),
        now=now,
        drifted=None if spoken_of is None else spoken_of.drifted(),
        conflict=None if spoken_of is None else spoken_of.conflict(),
        keep=key_statuses is not None and not key_statuses.compared and not eligibility.freezes,
    )
    return status


def _entity(eligibility: Eligibility) -> Entity | None:
    return (
        entity_of(eligibility.obj)
        if eligibility.declaration is None
        else eligibility.declaration.entity
    )


def _may_wait(
    eligibility: Eligibility, key_statuses: KeyStatusIndex, previous: Obj, outage: float
) -> bool:
    """Whether a document that was in sync does not report a failed reconciliation yet."""
    failure = key_statuses.failure
    if key_statuses.compared or failure is None or eligibility.reason is not None:
        return False
    if previous.get("observedGeneration") != generation_of(eligibility.obj):
        return False
    if failure.reason is Reason.PENDING:
        return bool(condition_of(previous, "Ready"))
    passes_by = failure.reason.reconciling and outage < GRACE_SECONDS
    return passes_by and condition_of(previous, "Ready").get("status") == "True"


# ---- the one reason --------------------------------------------------------------------------


def _reason(
    eligibility: Eligibility,
    key_statuses: KeyStatusIndex | None,
    status_entries: StatusEntries | None,
) -> tuple[Reason, str]:
    """Return the reason that the document shows, and its message."""
    reason = eligibility.reason
    if reason is Reason.DELETING:
        return reason, _message_text(reason, _waits_for(key_statuses, status_entries), ())
    if reason is Reason.INVALID:
        return reason, "; ".join(eligibility.messages)
    if reason is not None:
        return reason, _message_text(reason, "; ".join(eligibility.messages), ())
    if status_entries is not None:
        return _of_keys(eligibility, status_entries)
    if key_statuses is None or key_statuses.failure is None:
        return Reason.PENDING, _message_text(Reason.PENDING, "", eligibility.messages)
    reason = _for_documents(key_statuses.failure.reason)
    cluster = f"QuotaCluster {cluster_name_of(eligibility.obj)}"
    return reason, _message_text(reason, "", (cluster, *eligibility.messages))


def _of_keys(eligibility: Eligibility, status_entries: StatusEntries) -> tuple[Reason, str]:
    """Return the worst reason of the keys, and the messages of the keys, worst first."""
    displayed = {
        key: _displayed_reason(status_entries, key, key_status)
        for key, key_status in status_entries.statuses_by_key.items()
    }
    reason = worst(*displayed.values())
    statuses = sorted(
        (
            (key, key_status)
            for key, key_status in status_entries.statuses_by_key.items()
            if key_status.message and (displayed[key] is not Reason.SYNCED or not key_status.drifts)
        ),
        key=lambda item: (PRECEDENCE[displayed[item[0]]], COLUMN_OF[item[0]]),
    )
    return reason, _message_text(reason, sentence(statuses), eligibility.messages)


def _displayed_reason(status_entries: StatusEntries, key: Key, key_status: KeyStatus) -> Reason:
    """Return the reason of a key; unconfirmed drift counts as synced."""
    if key_status.reason is Reason.DRIFTED and not status_entries.counts_as_drift(key):
        return Reason.SYNCED
    return _for_documents(key_status.reason)


def _for_documents(reason: Reason) -> Reason:
    """Return the reason of a cluster's failure as a document shows it; faults of the QuotaCluster become ClusterInvalid."""
    if reason is Reason.INVALID or "Q" not in reason.on:
        return Reason.CLUSTER_INVALID
    return reason


def _waits_for(key_statuses: KeyStatusIndex | None, status_entries: StatusEntries | None) -> str:
    """Return why the limits of a deleted document are not removed yet; "" if unknown."""
    if status_entries is not None:
        return sentence(
            (key, key_status)
            for key, key_status in status_entries.statuses_by_key.items()
            if key_status.message
        )
    if key_statuses is None or key_statuses.failure is None:
        return ""
    message = _for_documents(key_statuses.failure.reason).message
    return f"{Reason.DELETING.message}, but {message}"


def _message_text(reason: Reason, detail: str, remarks: Iterable[str]) -> str:
    """Return the details, or the sentence of the reason's row; then remarks."""
    return "; ".join((detail or reason.message, *remarks))
