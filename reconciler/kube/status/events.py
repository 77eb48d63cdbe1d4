"""Derives Kubernetes Events from changes between two statuses; :mod:`reconciler.kube.status.writer` posts them.

A document gets no Event when it becomes ready for the first time: thousands of them would be useless. Failures of a
cluster are reported once, on the QuotaCluster.
"""

from collections.abc import Iterator, Mapping, Sized
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import force_setattr

from reconciler.base.escaping import escaped_lines
from reconciler.kube.api.custom_resources import Resource, condition_of
from reconciler.kube.status.reasons import NAMED, Reason
from reconciler.manifest.schema_names import QUOTA
from reconciler.quota.entity import entity_text
from reconciler.quota.keys import quantity
from reconciler.quota.policy import Rules
from reconciler.quota.results.report import Reconciliation
from reconciler.render.cause_text import REMOVAL

MOST_BYTES: Final = 1024
"""Maximum size of a note in bytes (NoteLengthLimit of events.k8s.io/v1)."""

MOST_EVENTS: Final = 100
"""Maximum number of events per reconciliation; beyond that the QuotaCluster's counts are more useful."""

_QUIET: Final = frozenset({Reason.DELETING, Reason.PENDING, Reason.SYNCED, Reason.DRIFTED})
"""Reasons that are transient, or that another event reports."""


class ResourceEvent(Struct, frozen=True, kw_only=True):
    """One Event.

    Raises:
        ValueError: The note is empty.
    """

    kind: Literal["Normal", "Warning"]  # `Normal` or `Warning`; the API has no other type
    reason: str  # CamelCase reason for programs
    note: str  # a sentence; cut at the API server's limit

    def __post_init__(self) -> None:
        if not self.note:
            raise ValueError("an event needs a note")
        force_setattr(self, "note", _cut(self.note))


def transitions(
    before: Mapping[str, Any], after: Mapping[str, Any], *, on: Literal["Q", "C"]
) -> Iterator[ResourceEvent]:
    """Yield the Events of a status change.

    Args:
        before: The current status, empty if there is none.
        after: The status that is written.
        on: ``Q`` for a ClientQuota, ``C`` for a QuotaCluster.
    """
    was, now = condition_of(before, "Ready"), condition_of(after, "Ready")
    reason = _reason(now)
    if reason is not None and now.get("reason") != was.get("reason"):
        yield from _reached(reason, was, str(now.get("message", "")), on)
    yield from _drift(before, after)
    doubt = condition_of(after, "Doubtful")
    if doubt and condition_of(before, "Doubtful").get("message") != doubt.get("message"):
        yield ResourceEvent(kind="Warning", reason=str(doubt["reason"]), note=str(doubt["message"]))


def releases(gave_up: Mapping[str, Sized]) -> Iterator[ResourceEvent]:
    """Yield Events for deleted documents whose limits stay; on the QuotaCluster, as the documents no longer exist.

    A namespace may contain thousands: beyond a limit they share one Event.

    Args:
        gave_up: The limits that stay of each ``namespace/name``.
    """
    items = list(gave_up.items())
    texts = [
        f"ClientQuota {document} is released: {len(limits)} limits"
        for document, limits in items[:MOST_EVENTS]
    ]
    if remaining := items[MOST_EVENTS:]:
        count = sum(len(limits) for _, limits in remaining)
        texts.append(f"{len(remaining)} more ClientQuotas are released: {count} limits")
    for text in texts:
        note = f"{text} stay in Kafka; they could not be removed within the deletion timeout"
        yield ResourceEvent(kind="Warning", reason="Released", note=note)


def left_in_kafka(report: Reconciliation, rules: Rules) -> Iterator[tuple[Resource, ResourceEvent]]:
    """Yield an Event for each deleted document whose limits stay, on a reference to it: the document no longer exists."""
    limits: dict[str, list[str]] = {}
    findings = () if report.preview is None else report.preview.plan.orphans
    for finding in findings if rules.may_record else ():
        if finding.is_new and finding.owner is not None:
            value = quantity(finding.key, finding.live)
            text = f"{entity_text(finding.entity)} {finding.key} {value}"
            limits.setdefault(finding.owner.document, []).append(text)
    for document, texts in limits.items():
        namespace, _, name = document.rpartition("/")
        obj = Resource(kind=QUOTA, namespace=namespace, name=name)
        note = f"it was deleted, and its limits stay in Kafka; to remove them, {REMOVAL}: {'; '.join(texts)}"
        yield obj, ResourceEvent(kind="Warning", reason="Orphaned", note=note)


def _reason(ready: Mapping[str, Any]) -> Reason | None:
    return NAMED.get(str(ready.get("reason")))


def _reached(
    reason: Reason, was: Mapping[str, Any], message: str, on: str
) -> Iterator[ResourceEvent]:
    """Yield the Event for a changed reason of the Ready condition."""
    of_cluster = _is_of_cluster(reason) and reason not in _ALSO_OF_ONE
    if reason.event and on in reason.on and not (on == "Q" and of_cluster):
        kind: Literal["Normal", "Warning"] = "Normal" if reason.paused else "Warning"
        yield ResourceEvent(kind=kind, reason=reason.event, note=message or reason.message)
    elif (
        reason.ready == "True"
        and was.get("status") == "False"
        and not (on == "Q" and _came_from_cluster(was))
    ):
        yield ResourceEvent(kind="Normal", reason="Reconciled", note=message or reason.message)
    elif reason not in _QUIET and reason.ready == "True" and was:
        yield ResourceEvent(kind="Normal", reason=reason.value, note=message or reason.message)


_ALSO_OF_ONE: Final = frozenset({Reason.RECORDS_UNREADABLE, Reason.KUBERNETES_REFUSED})
"""Faults of the cluster that a single document may have alone; while the cluster has them, documents post nothing."""


def _came_from_cluster(was: Mapping[str, Any]) -> bool:
    reason = _reason(was)
    return reason is not None and _is_of_cluster(reason)


def _is_of_cluster(reason: Reason) -> bool:
    """Whether the fault is the cluster's, so that each of its documents would repeat it."""
    return "C" in reason.on and reason not in {
        Reason.INVALID,
        Reason.SUSPENDED,
        Reason.GUARD_REFUSED,
        Reason.AUTHORIZATION_FAILED,
    }


def _drift(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[ResourceEvent]:
    was, now = condition_of(before, "Drifted"), condition_of(after, "Drifted")
    if now.get("status") == "True" and was.get("status") != "True":
        words = str(now.get("message", "")) or "another writer changed a live value"
        yield ResourceEvent(kind="Warning", reason="DriftDetected", note=words)
    corrected = _rewritten(before, after)
    if corrected:
        words = f"corrected after a change by another writer: {', '.join(corrected)}"
        yield ResourceEvent(kind="Normal", reason="DriftCorrected", note=words)


def _keys(status: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    return {str(entry.get("key")): entry for entry in status.get("keys", ())}


def _rewritten(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return keys that were applied again with the same value."""
    previous_keys_by_name = _keys(before)
    return [
        key
        for key, entry in _keys(after).items()
        if key in previous_keys_by_name
        and entry.get("result") == "Applied"
        and entry.get("cause") == "InSync"
        and "applied" in entry
        and entry["applied"] == previous_keys_by_name[key].get("applied")
        and entry.get("appliedAt") != previous_keys_by_name[key].get("appliedAt")
    ]


def _cut(note: str) -> str:
    """Return the escaped note, cut to ``MOST_BYTES`` at a character boundary."""
    coded = escaped_lines(note).encode("utf-8", "replace")
    if len(coded) <= MOST_BYTES:
        return coded.decode("utf-8")
    return coded[: MOST_BYTES - 3].decode("utf-8", "ignore") + "…"
