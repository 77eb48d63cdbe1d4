"""The state after a reconciliation that the next one may rely on to be partial.

A partial reconciliation compares everything, but describes, judges and writes only the entities of changed documents.
Its result equals that of a complete one if nothing was open for all other entities: no difference that waits for
time, a second observation, a budget or a retry. Otherwise, and after each resync, the next reconciliation is
complete.
"""

from dataclasses import dataclass
from typing import Final

from reconciler.app.loop import LoopTrigger
from reconciler.kube.status.reconcile_result import ReconcileResult
from reconciler.manifest.project.cluster import QuotaCluster
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.planner.claims import ResolvedClaims
from reconciler.quota.planner.plan import Finding
from reconciler.quota.policy import Action, Cause
from reconciler.quota.state import QuotaState

_OPEN_CAUSES: Final = frozenset({Cause.DRIFT, Cause.OVERRIDE, Cause.OVERRIDE_EXPIRED})
"""Differences whose meaning changes with time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownState:
    """The state after the last reconciliation.

    Attributes:
        cluster: The QuotaCluster.
        live: The quotas in Kafka.
        settled: The resolved claims of all documents.
    """

    cluster: QuotaCluster
    live: QuotaState
    settled: ResolvedClaims


def known_state(
    result: ReconcileResult, owned: OwnershipRecords, *, pending: str
) -> KnownState | None:
    """Return what a partial reconciliation may rely on; ``None`` if the next one has to be complete.

    Args:
        result: The result of the reconciliation.
        owned: The records after it.
        pending: What could not be done yet, as a sentence; "" = nothing.
    """
    report = result.report
    if pending or not report.in_order or report.preview is None or report.live is None:
        return None
    if result.cluster is None:
        return None
    if report.waiting or report.observations or report.expired_overrides:
        return None
    if owned.intents or owned.overrides or owned.drift_since:
        return None
    if any(map(_is_open, report.preview.plan.findings)):
        return None
    return KnownState(cluster=result.cluster, live=report.live, settled=result.settled)


def _is_open(finding: Finding) -> bool:
    """Whether a difference may have to be handled in another way later, although no document changes."""
    is_removal_open = finding.cause in {Cause.PRUNE, Cause.GONE} and finding.action is Action.REPORT
    return finding.cause in _OPEN_CAUSES or finding.ignored or is_removal_open


def names_documents(trigger: LoopTrigger) -> bool:
    """Whether changed documents are the only reason for a reconciliation.

    The key of a document contains a slash; other keys are names of QuotaClusters and Secrets, and listings.
    """
    is_complete = trigger.everything or trigger.resync or trigger.retry
    return bool(trigger.keys) and not is_complete and all("/" in key for key in trigger.keys)
