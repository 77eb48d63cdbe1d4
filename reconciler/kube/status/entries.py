"""Keys, drift and conflicts of one document after a reconciliation, as listed in the status of a ClientQuota."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from reconciler.base.escaping import escaped
from reconciler.kube.api.custom_resources import Obj, time_text
from reconciler.kube.status.conditions import bounded, condition_of
from reconciler.kube.status.eligibility import Eligibility
from reconciler.kube.status.key_status import KeyStatus, KeyStatusIndex
from reconciler.kube.status.reasons import Reason
from reconciler.quota.entity import Entity
from reconciler.quota.keys import COLUMN_OF, COLUMNS, Key
from reconciler.quota.ownership import (
    NO_RECORD,
    Override,
    Owner,
    OwnershipRecords,
    Pair,
)
from reconciler.quota.state import NO_LIMITS, Limits
from reconciler.render.units import json_number


def declared(eligibility: Eligibility) -> Limits:
    """Return the limits that a document declares now; one that is being deleted declares none."""
    if eligibility.declaration is None or eligibility.reason is Reason.DELETING:
        return NO_LIMITS
    return eligibility.declaration.limits


def sentence(statuses: Iterable[tuple[Key, KeyStatus]]) -> str:
    """Join the messages of several keys."""
    return "; ".join(
        f"{key}: {key_status.message}" if key_status.message else str(key)
        for key, key_status in statuses
    )


@dataclass(frozen=True, kw_only=True)
class StatusEntries:
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
        for key, declared_value in zip(COLUMNS, declared(self.eligibility), strict=True):
            if declared_value is None and not self._record(key):
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
        return self.eligibility.reason is not Reason.NOT_GRANTED or bool(self._record(key))

    def _record(self, key: Key) -> dict[str, Any]:
        return key_record_fields(
            self.key_statuses.owned, self.eligibility.document, self.subject, key
        )

    def _pair(self, key: Key) -> Pair:
        return self.subject, key

    # ---- keys --------------------------------------------------------------------------------

    def keys(self) -> list[dict[str, Any]]:
        """Return ``status.keys``."""
        return [self._key(key, key_status) for key, key_status in self.statuses_by_key.items()]

    def _key(self, key: Key, key_status: KeyStatus) -> dict[str, Any]:
        before, record = self._before(key), self._record(key)
        row: dict[str, Any] = {"key": key.value}
        declared_value = declared(self.eligibility)[COLUMN_OF[key]]
        if declared_value is not None:
            row["desired"] = json_number(declared_value)
        if key_status.live is not None and math.isfinite(key_status.live):
            row["live"] = json_number(key_status.live)
        row |= record
        if "applied" in record:
            row["appliedAt"] = self._applied_at(record, key_status, before)
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

    def _applied_at(self, record: Obj, key_status: KeyStatus, before: Obj) -> str:
        """Return the current time if the value was written now or newly found applied, else the previous time."""
        if key_status.result != "Applied" and before.get("applied") == record["applied"]:
            return str(before.get("appliedAt") or time_text(self.now))
        return time_text(self.now)

    # ---- drift and conflict ------------------------------------------------------------------

    def drift(self) -> list[dict[str, Any]]:
        """Return ``status.drift``: values changed by another writer and not restored yet, with the time first seen."""
        rows: list[dict[str, Any]] = []
        for key, key_status in self.statuses_by_key.items():
            first = self.key_statuses.owned.drift_since.get(self._pair(key))
            if not self._is_shown(key) or (not key_status.drifts and first is None):
                continue
            observation = self.key_statuses.observations_by_key.get(self._pair(key))
            if first is None:
                first = self.now if observation is None else observation.since
            row: dict[str, Any] = {"key": key.value, "firstSeen": time_text(first)}
            expected = self.key_statuses.applied(self._pair(key))
            if expected is not None:
                row["expected"] = json_number(expected)
            if key_status.live is not None and math.isfinite(key_status.live):
                row["live"] = json_number(key_status.live)
            rows.append(row)
        return rows

    def counts_as_drift(self, key: Key) -> bool:
        """Whether drift of a key is reported: after N consecutive observations, or if it was reported before a restart."""
        if not self.statuses_by_key[key].drifts:
            return False
        observation = self.key_statuses.observations_by_key.get(self._pair(key))
        if observation is not None and observation.confirmed:
            return True
        was_drifted = condition_of(self.previous, "Drifted").get("status") == "True"
        return was_drifted and any(
            item.get("key") == key for item in self.previous.get("drift", ())
        )

    def drifted(self) -> str:
        """Return the message of the Drifted condition; "" if nothing drifted."""
        return sentence(
            (key, key_status)
            for key, key_status in self.statuses_by_key.items()
            if self.counts_as_drift(key)
        )

    def conflict(self) -> str:
        """Return the message of the Conflict condition; "" if there is no conflict."""
        return sentence(
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
    fields: dict[str, Any] = {
        "until": time_text(override.until),
        "who": bounded(escaped(override.author), 256),
        "reason": bounded(escaped(override.reason), 512),
    }
    if override.value is not None and math.isfinite(override.value):
        fields["value"] = json_number(override.value)
    return fields


def previous_keys(eligibility: Eligibility, previous: Obj) -> list[dict[str, Any]]:
    """Return the previous entries with the currently declared values, for a status without a comparison."""
    declared_values = dict(zip(COLUMNS, declared(eligibility), strict=True))
    rows: list[dict[str, Any]] = []
    for item in previous.get("keys", ()):
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


def key_record_fields(
    owned: OwnershipRecords, document: str, subject: Entity, key: Key
) -> dict[str, Any]:
    """Return the fields of ``status.keys`` for one record; empty if neither record nor intent belong to this document.

    ``appliedAt`` is not included: records do not store it.
    """
    fields: dict[str, Any] = {}
    record = owned.records.get(subject, NO_RECORD)
    column = COLUMN_OF[key]
    owner, applied = record.owners[column], record.applied[column]
    if owner is not None and applied is not None and owner.document == document:
        fields |= {"applied": json_number(applied)} | _owner_fields(owner)
    intent = owned.intents.get((subject, key))
    if intent is not None and intent.owner.document == document:
        fields = fields or _owner_fields(intent.owner)
        fields |= (
            {"intendedRemoval": True}
            if intent.value is None
            else {"intended": json_number(intent.value)}
        )
    return fields


def _owner_fields(owner: Owner) -> dict[str, Any]:
    fields: dict[str, Any] = {"since": time_text(owner.since)}
    if owner.deletion_policy is not None:
        fields["deletionPolicy"] = owner.deletion_policy.value
    return fields
