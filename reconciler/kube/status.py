"""The status of a ClientQuota: what it owns, what became of each of its keys, and its conditions. Bounded in every direction.

A status is made from the previous one and from a pass. Where nothing happened it is the previous one to the letter, so
that a restart writes nothing. It holds the document's records, so it is never made without them: where there was no
pass, they are taken over as they stand.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from reconciler.kube.cluster_state import cluster_status as cluster_status  # noqa: PLC0414 - the other kind's
from reconciler.kube.cluster_state import pending_cluster as pending_cluster  # noqa: PLC0414 - the same
from reconciler.kube.comparing import unchanged as unchanged  # noqa: PLC0414 - for both kinds
from reconciler.kube.conditions import bounded, condition_of, conditions
from reconciler.kube.reading import KeyReading, Reading
from reconciler.kube.reasons import PRECEDENCE, TABLE, Reason, worst
from reconciler.kube.records import entity_of
from reconciler.kube.resources import Obj, cluster_name_of, generation_of, requested_at
from reconciler.kube.sheet import Sheet, kept_keys, sentence
from reconciler.kube.standing import Kind, Standing
from reconciler.quota.claims import Settled
from reconciler.quota.entity import Entity
from reconciler.quota.keys import COLUMN_OF, Key
from reconciler.quota.owned import Owned
from reconciler.quota.report import Pass
from reconciler.render.names import entity_text

MOST_ENTITY: Final = 2048
"""Longest text of an entity; names may have 32,767 bytes each, and a list shows it."""

GRACE_SECONDS: Final = 60.0
"""So long a cluster may be away before documents in order say so: a blip is not worth a write to each of them."""

_Status = dict[str, Any]

_STANDS: Final[Mapping[Kind, Reason]] = {
    Kind.TERMINATING: Reason.DELETING,
    Kind.NAMESPACE_LIMIT: Reason.NAMESPACE_LIMIT,
    Kind.INVALID: Reason.INVALID,
    Kind.CLUSTER_NOT_FOUND: Reason.CLUSTER_NOT_FOUND,
    Kind.CLUSTER_INVALID: Reason.CLUSTER_INVALID,
    Kind.NOT_GRANTED: Reason.NOT_GRANTED,
    Kind.OUT_OF_SCOPE: Reason.OUT_OF_SCOPE,
    Kind.SUSPENDED: Reason.SUSPENDED,
    Kind.CLUSTER_SUSPENDED: Reason.CLUSTER_SUSPENDED,
}


class _Memo:
    """The last pass that was read: one reading serves all documents of a cluster."""

    def __init__(self) -> None:
        self._last: Reading | None = None

    def read(self, report: Pass, settled: Settled, owned: Owned) -> Reading:
        last = self._last
        if (
            last is None
            or last.report is not report
            or last.settled is not settled
            or last.owned is not owned
        ):
            last = self._last = Reading(report, settled=settled, owned=owned)
        return last

    def forget(self) -> None:
        """Let go of the pass: its plan and outcome are as large as all documents together."""
        self._last = None


_MEMO: Final = _Memo()
told: Final = _MEMO.forget
"""Call it when every status of a pass was made."""


def document_status(
    standing: Standing,
    *,
    settled: Settled | None = None,
    report: Pass | None = None,
    owned: Owned | None = None,
    previous: Obj,
    now: float,
    outage: float = math.inf,
) -> _Status:
    """The status of a document.

    Args:
        standing: How it stands.
        settled: Who asks for what and does not get it; with ``report``.
        report: The pass; ``None`` where there was none, because none was due or none is possible.
        owned: The records after the pass; with ``report``.
        previous: The status so far, empty for none.
        now: Seconds since the epoch.
        outage: For how many seconds passes have failed by now.
    """
    reading = None
    if report is not None and settled is not None and owned is not None:
        reading = _MEMO.read(report, settled, owned)
    if reading is not None and _may_wait(standing, reading, previous, outage):
        return dict(previous)
    subject = _entity(standing)
    made: _Status = {"observedGeneration": generation_of(standing.obj)}
    handled = requested_at(standing.obj) if reading is not None or standing.freezes else None
    handled = handled or previous.get("lastHandledReconcileAt")
    if handled is not None:
        made["lastHandledReconcileAt"] = handled[:128]
    text = previous.get("entity") if subject is None else entity_text(subject)
    if text is not None:
        made["entity"] = bounded(text, MOST_ENTITY)
    sheet = None
    if reading is not None and reading.compared and subject is not None:
        sheet = Sheet(
            standing=standing, subject=subject, reading=reading, previous=previous, now=now
        )
        made["clusterId"] = reading.owned.cluster_id
        keys, drift = sheet.keys(), sheet.drift()
    else:
        if "clusterId" in previous:
            made["clusterId"] = previous["clusterId"]
        keys, drift = kept_keys(standing, previous), list(previous.get("drift", ()))
    if keys:
        made["keys"] = keys
    if drift:
        made["drift"] = drift
    reason, message = _reason(standing, reading, sheet)
    spoken_of = None if standing.freezes else sheet
    made["conditions"] = conditions(
        reason,
        message,
        generation=generation_of(standing.obj),
        previous=previous.get("conditions", ()),
        now=now,
        drifted=None if spoken_of is None else spoken_of.drifted(),
        conflict=None if spoken_of is None else spoken_of.conflict(),
        keep=reading is not None and not reading.compared and not standing.freezes,
    )
    return made


def pending_status(standing: Standing, *, now: float) -> _Status:
    """What a document without any status says while the first pass takes long; a fault is told at once."""
    return document_status(standing, previous={}, now=now)


def _entity(standing: Standing) -> Entity | None:
    return entity_of(standing.obj) if standing.declaration is None else standing.declaration.entity


def _may_wait(standing: Standing, reading: Reading, previous: Obj, outage: float) -> bool:
    """Whether a document that was in order says nothing yet of a pass that failed."""
    trouble = reading.trouble
    if reading.compared or trouble is None or standing.kind is not Kind.ACCEPTED:
        return False
    if previous.get("observedGeneration") != generation_of(standing.obj):
        return False
    if trouble.reason is Reason.PENDING:
        return bool(condition_of(previous, "Ready"))
    passes_by = TABLE[trouble.reason].reconciling and outage < GRACE_SECONDS
    return passes_by and condition_of(previous, "Ready").get("status") == "True"


# ---- the one reason --------------------------------------------------------------------------


def _reason(standing: Standing, reading: Reading | None, sheet: Sheet | None) -> tuple[Reason, str]:
    """The reason that the document shows, and its sentence."""
    stands = _STANDS.get(standing.kind)
    if stands is Reason.DELETING:
        return stands, _said(stands, _waits_for(reading, sheet), ())
    if stands is Reason.INVALID:
        return stands, "; ".join(standing.messages)
    if stands is not None:
        return stands, _said(stands, "; ".join(standing.messages), ())
    if sheet is not None:
        return _of_keys(standing, sheet)
    if reading is None or reading.trouble is None:
        return Reason.PENDING, _said(Reason.PENDING, "", standing.messages)
    reason = _for_documents(reading.trouble.reason)
    cluster = f"QuotaCluster {cluster_name_of(standing.obj)}"
    return reason, _said(reason, "", (cluster, *standing.messages))


def _of_keys(standing: Standing, sheet: Sheet) -> tuple[Reason, str]:
    """The worst of the keys; what is said of them, worst first."""
    shown = {key: _shown(sheet, key, found) for key, found in sheet.readings.items()}
    reason = worst(*shown.values())
    told = sorted(
        (
            (key, found)
            for key, found in sheet.readings.items()
            if found.message and (shown[key] is not Reason.SYNCED or not found.drifts)
        ),
        key=lambda item: (PRECEDENCE[shown[item[0]]], COLUMN_OF[item[0]]),
    )
    return reason, _said(reason, sentence(told), standing.messages)


def _shown(sheet: Sheet, key: Key, found: KeyReading) -> Reason:
    """The reason of a key; drift that does not count yet is none."""
    if found.reason is Reason.DRIFTED and not sheet.counts_as_drift(key):
        return Reason.SYNCED
    return _for_documents(found.reason)


def _for_documents(reason: Reason) -> Reason:
    """What a document says of its cluster's trouble: the cluster's own faults are faults of the cluster."""
    if reason is Reason.INVALID or "Q" not in TABLE[reason].on:
        return Reason.CLUSTER_INVALID
    return reason


def _waits_for(reading: Reading | None, sheet: Sheet | None) -> str:
    """What keeps the limits of a deleted document from being removed; "" = nothing that is known."""
    if sheet is not None:
        return sentence((key, found) for key, found in sheet.readings.items() if found.message)
    if reading is None or reading.trouble is None:
        return ""
    says = TABLE[_for_documents(reading.trouble.reason)].says
    return f"{TABLE[Reason.DELETING].says}, but {says}"


def _said(reason: Reason, detail: str, more: Iterable[str]) -> str:
    """What is known in detail, or the row's sentence; and remarks."""
    return "; ".join((detail or TABLE[reason].says, *more))
