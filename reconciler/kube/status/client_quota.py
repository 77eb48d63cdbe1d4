"""The status of a ClientQuota: its records, the state of each of its keys, and its conditions. All parts have size limits.

A status is computed from the previous one and a reconciliation. If nothing happened it equals the previous one, so that
a restart writes nothing. Without a reconciliation the ownership records in it are copied unchanged.
"""

import math
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Final

from msgspec import Struct

from reconciler.base.escaping import escaped
from reconciler.kube.api.custom_resources import Obj, condition_of, time_text
from reconciler.kube.status.conditions import bounded, conditions
from reconciler.kube.status.eligibility import Eligibility
from reconciler.kube.status.key_status import KeyStatus, KeyStatusIndex
from reconciler.kube.status.reasons import PRECEDENCE, Reason, worst
from reconciler.quota.entity import Entity, entity_text
from reconciler.quota.keys import COLUMN_OF, COLUMNS, Key
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import NO_RECORD, Pair
from reconciler.quota.state import NO_LIMITS, Limits
from reconciler.render.units import json_number

MOST_ENTITY: Final = 2048
"""Maximum characters of an entity's text, which ``kubectl get`` shows."""

GRACE_SECONDS: Final = 60.0
"""Seconds of an outage before documents in sync report it, so that a short outage causes no write per document."""


def _declared(eligibility: Eligibility) -> Limits:
    """Return the limits that a document declares now; one that is being deleted or has ended declares none."""
    declaration = eligibility.declaration
    is_gone = declaration is None or eligibility.reason in {Reason.DELETING, Reason.ENDED}
    return NO_LIMITS if declaration is None or is_gone else declaration.limits


def _sentence(statuses: Iterable[tuple[Key, KeyStatus]]) -> str:
    """Join the messages of several keys."""
    return "; ".join(
        f"{key}: {key_status.message}" if key_status.message else str(key)
        for key, key_status in statuses
    )


class StatusEntries(Struct, frozen=True, kw_only=True, dict=True):
    """One document and the reconciliation that compared it. Without slots, because ``cached_property`` needs ``__dict__``."""

    eligibility: Eligibility  # the eligibility of the document
    subject: Entity  # its entity
    key_statuses: KeyStatusIndex  # the indexed reconciliation
    previous: Obj  # its current status
    now: float  # seconds since the epoch

    @cached_property
    def statuses_by_key(self) -> Mapping[Key, KeyStatus]:
        """The keys that the document declares or still owns, in column order."""
        statuses: dict[Key, KeyStatus] = {}
        for key, declared_value in zip(COLUMNS, _declared(self.eligibility), strict=True):
            if declared_value is None and not self._owns(key):
                continue
            key_status = self.key_statuses.of(
                (self.subject, key), self.eligibility.document, tenanted=self.eligibility.tenanted
            )
            if self.eligibility.freezes:
                live = key_status.live if self._is_shown(key) else None
                key_status = KeyStatus(reason=Reason.SYNCED, cause="Frozen", live=live)
            statuses[key] = key_status
        return statuses

    def _is_shown(self, key: Key) -> bool:
        """Whether the document shows what is live, overridden and drifting: without a grant, only of what it owns."""
        return self.eligibility.reason is not Reason.NOT_GRANTED or self._owns(key)

    def _applied(self, key: Key) -> float | None:
        """Return the value that was applied for this document; ``None`` if none is recorded as its own."""
        record = self.key_statuses.owned.records.get(self.subject, NO_RECORD)
        owner = record.owners[COLUMN_OF[key]]
        is_own = owner is not None and owner.document == self.eligibility.document
        return record.applied[COLUMN_OF[key]] if is_own else None

    def _owns(self, key: Key) -> bool:
        """Whether a record or an intent belongs to this document."""
        intent = self.key_statuses.owned.intents.get(self._pair(key))
        is_intended = intent is not None and intent.owner.document == self.eligibility.document
        return is_intended or self._applied(key) is not None

    def _pair(self, key: Key) -> Pair:
        return self.subject, key

    # ---- keys --------------------------------------------------------------------------------

    def keys(self) -> list[dict[str, Any]]:
        """Return ``status.keys``."""
        return [self._key(key, key_status) for key, key_status in self.statuses_by_key.items()]

    def _key(self, key: Key, key_status: KeyStatus) -> dict[str, Any]:
        before, applied = self._before(key), self._applied(key)
        row: dict[str, Any] = {"key": key.value}
        declared_value = _declared(self.eligibility)[COLUMN_OF[key]]
        if declared_value is not None:
            row["desired"] = json_number(declared_value)
        if key_status.live is not None and math.isfinite(key_status.live):
            row["live"] = json_number(key_status.live)
        if applied is not None:
            row["applied"] = json_number(applied)
            row["appliedAt"] = self._applied_at(applied, key_status, before)
        row["cause"] = key_status.cause
        if (declaration := self.eligibility.declaration) and declaration.selection_of(key):
            row["selectedBy"] = bounded(declaration.selection_of(key))
        result = key_status.result or _previous_result(key_status, before)
        if result:
            row["result"] = result
        if key_status.message:
            row["message"] = bounded(key_status.message)
        override = self.key_statuses.owned.overrides.get(self._pair(key))
        if override is not None and self.now < override.until and self._is_shown(key):
            row["overriddenBy"] = _overridden(override)
        return row

    def _before(self, key: Key) -> Obj:
        """Return the previous entry of the key, if the status is about the same cluster."""
        if self.previous.get("clusterId") != self.key_statuses.owned.cluster_id:
            return {}
        items = self.previous.get("keys", ())
        return next((item for item in items if item.get("key") == key), {})

    def _applied_at(self, applied: float, key_status: KeyStatus, before: Obj) -> str:
        """Return the current time if the value was written now or newly found applied, else the previous time."""
        if key_status.result != "Applied" and before.get("applied") == applied:
            return str(before.get("appliedAt") or time_text(self.now))
        return time_text(self.now)

    # ---- drift and conflict ------------------------------------------------------------------

    def counts_as_drift(self, key: Key) -> bool:
        """Whether drift of a key is reported: after N consecutive observations, those of earlier processes included."""
        observation = self.key_statuses.observations_by_key.get(self._pair(key))
        is_confirmed = observation is not None and observation.confirmed
        return self.statuses_by_key[key].drifts and is_confirmed

    def drifted(self) -> str | None:
        """Return the message of the Drifted condition; "" if nothing drifted, ``None`` if a difference is not confirmed yet."""
        statuses = self.statuses_by_key.items()
        message = _sentence(item for item in statuses if self.counts_as_drift(item[0]))
        if not message and any(each.drifts or each.is_settling for _, each in statuses):
            return None
        return message

    def conflict(self) -> str:
        """Return the message of the Conflict condition; "" if there is no conflict."""
        return _sentence(
            (key, key_status)
            for key, key_status in self.statuses_by_key.items()
            if key_status.reason is Reason.CONFLICT
        )


def _previous_result(key_status: KeyStatus, before: Obj) -> str:
    """Return the outcome of an earlier write while it still explains the present state."""
    result = str(before.get("result", ""))
    settled = key_status.reason in {Reason.SYNCED, Reason.OVERRIDE_ACTIVE}
    return result if result == "Applied" or not settled else ""


def _overridden(override: Override) -> dict[str, Any]:
    is_number = override.value is not None and math.isfinite(override.value)
    return {
        "until": time_text(override.until),
        "who": bounded(escaped(override.author or override.document), 256),
        "reason": bounded(escaped(override.reason or "a document with an end"), 512),
        **({"value": json_number(override.value)} if is_number else {}),
    }


def _previous_keys(eligibility: Eligibility, previous: Obj) -> list[dict[str, Any]]:
    """Return the previous entries with the currently declared values, for a status without a comparison."""
    # Once a document may have a grant, an entry without live value means that nothing is live.
    had_no_grant = condition_of(previous, "Ready").get("reason") == Reason.NOT_GRANTED
    hides_live = had_no_grant and eligibility.reason is not Reason.NOT_GRANTED
    declared_values = dict(zip(COLUMNS, _declared(eligibility), strict=True))
    rows: list[dict[str, Any]] = []
    for item in previous.get("keys", ()):
        if hides_live and {"live", "applied"}.isdisjoint(item):
            continue
        row = {name: value for name, value in item.items() if name != "desired"}
        value = (
            item.get("desired")
            if eligibility.declaration is None
            else declared_values.get(item.get("key"))
        )
        if value is not None:
            row["desired"] = json_number(value)
        rows.append(row)
    return rows


def document_status(
    eligibility: Eligibility,
    *,
    key_statuses: KeyStatusIndex | None = None,
    previous: Obj,
    now: float,
    outage: float = math.inf,
) -> dict[str, Any]:
    """Return the status of a document.

    Args:
        eligibility: The eligibility of the document.
        key_statuses: The reconciliation; ``None`` if none was due or none is possible.
        previous: The current status; empty if there is none.
        now: Seconds since the epoch.
        outage: For how many seconds reconciliations have failed.
    """
    eligibility = eligibility.at(now)
    if key_statuses is not None and _may_wait(eligibility, key_statuses, previous, outage):
        return dict(previous)
    subject = eligibility.entity or eligibility.obj.entity
    status: dict[str, Any] = {"observedGeneration": eligibility.obj.generation}
    was_handled = key_statuses is not None or eligibility.freezes
    handled = eligibility.obj.requested_at if was_handled else None
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
        keys = status_entries.keys()
    else:
        if "clusterId" in previous:
            status["clusterId"] = previous["clusterId"]
        keys = _previous_keys(eligibility, previous)
    if keys:
        status["keys"] = keys
    reason, message = _reason(eligibility, key_statuses, status_entries)
    spoken_of = None if eligibility.freezes else status_entries
    status["conditions"] = conditions(
        reason,
        message,
        generation=eligibility.obj.generation,
        previous=previous.get("conditions", ()),
        now=now,
        doubt=eligibility.doubt,
        drifted=None if spoken_of is None else spoken_of.drifted(),
        conflict=None if spoken_of is None else spoken_of.conflict(),
        keep=key_statuses is not None and not key_statuses.compared and not eligibility.freezes,
    )
    return status


def _may_wait(
    eligibility: Eligibility, key_statuses: KeyStatusIndex, previous: Obj, outage: float
) -> bool:
    """Whether a document that was in sync does not report a failed reconciliation yet."""
    failure = key_statuses.failure
    if key_statuses.compared or failure is None or eligibility.reason is not None:
        return False
    if previous.get("observedGeneration") != eligibility.obj.generation:
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
    cluster = f"QuotaCluster {eligibility.obj.cluster_name}"
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
            if key_status.message
        ),
        key=lambda item: (PRECEDENCE[displayed[item[0]]], COLUMN_OF[item[0]]),
    )
    return reason, _message_text(reason, _sentence(statuses), eligibility.messages)


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
        return _sentence(
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
