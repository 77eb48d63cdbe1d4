"""The status of a QuotaCluster: the state of the cluster as a whole. Its readers are admins, so it may contain any name.

Faults of one document are reported in that document. The QuotaCluster reports what prevents the cluster from being
reached, read or trusted, and what no document can report, such as removals that a guard withholds.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from reconciler.errors import ConfigError, CredentialsError, KquotaError
from reconciler.kube.api.custom_resources import Resource, time_text
from reconciler.kube.configuration.cluster_references import ignored_properties, refused_references
from reconciler.kube.configuration.credentials import SecretState
from reconciler.kube.status.conditions import ReconcileFailure, conditions, first_of, trouble_of
from reconciler.kube.status.key_status import drift_text, violation_text
from reconciler.kube.status.reasons import Reason, worst
from reconciler.kube.status.reconcile_result import ReconcileResult
from reconciler.metrics.reconciliation_values import foreign_pairs
from reconciler.quota.drift_tracker import DriftObservation
from reconciler.quota.entity import entity_text
from reconciler.quota.ownership import OwnershipRecords, Pair
from reconciler.quota.planner.desired_state import Losses
from reconciler.quota.planner.plan import Plan
from reconciler.quota.policy import Action, Cause, DriftMode, Policy
from reconciler.quota.results.report import Preview, Reconciliation, WithheldChange

MOST_NAMED: Final = 5


def cluster_status(
    result: ReconcileResult, *, owned: OwnershipRecords, now: float
) -> dict[str, Any]:
    """Return the status of a QuotaCluster; what the reconciliation did not determine stays as it is.

    Args:
        owned: The records after the reconciliation.
        now: Seconds since the epoch.
    """
    obj, report = result.obj, result.report
    previous, preview = obj.status, report.preview
    status: dict[str, Any] = {"observedGeneration": obj.generation}
    status |= {name: previous[name] for name in _KEPT if name in previous}
    if obj.requested_at is not None:
        status["lastHandledReconcileAt"] = obj.requested_at
    is_failed = result.cluster is None or report.error is not None
    if result.next_resync_at is not None and not is_failed:  # A failure is retried sooner.
        status["nextSyncTime"] = time_text(result.next_resync_at)
    drift = _open_drift(report)
    if preview is not None:
        status |= _facts(report, preview)
        unsent = _unsent_counts(report)
        status["counts"] = {
            "documents": len(result.documents),
            **_counts(report, preview.plan, owned, now),
            "conflicts": len(_conflicting_pairs(result.losses)),
            **unsent,
            "drifted": len(drift),
        }
        if any(unsent.values()):
            status.setdefault("unsentSince", time_text(report.started_at))
        else:
            _ = status.pop("unsentSince", None)
    reason, message = _reason(obj, report, result.secret)
    status["conditions"] = conditions(
        reason,
        message,
        generation=obj.generation,
        previous=previous.get("conditions", ()),
        now=now,
        drifted=_drifted(drift, result),
        conflict=None if preview is None else _conflict(result.losses),
        doubt="; ".join(ignored_properties(obj)),
        doubt_reason="UnknownProperty",
        over_budget=_over_budget(report),
        keep=preview is None,
    )
    return status


_KEPT: Final = (
    "lastHandledReconcileAt",
    "clusterId",
    "lastSuccessfulSyncTime",
    "policyInForce",
    "counts",
    "unsentSince",
)
"""Fields that keep their previous value until a new one is known."""


# ---- facts -----------------------------------------------------------------------------------


def _facts(report: Reconciliation, preview: Preview) -> dict[str, Any]:
    plan = preview.plan
    facts: dict[str, Any] = {"clusterId": plan.cluster_id, "policyInForce": preview.policy.value}
    if report.is_finished and not _waiting_removals(plan):
        facts["lastSuccessfulSyncTime"] = time_text(report.ended_at)
    return facts


def _counts(
    report: Reconciliation, plan: Plan, owned: OwnershipRecords, now: float
) -> dict[str, int]:
    return {
        "declared": plan.desired_pairs,
        "owned": owned.pair_count,
        "unmanaged": len(plan.unmanaged),
        "orphaned": owned.orphan_count,
        "frozen": len(plan.findings_for(Cause.FROZEN)),
        "overridden": sum(now < override.until for override in owned.overrides.values()),
        "foreign": 0 if report.live is None else foreign_pairs(report.live),
    }


def _unsent_counts(report: Reconciliation) -> dict[str, int]:
    """Return how many changes guards withheld, the broker refused, or wait for others."""
    outcome = report.outcome
    return {
        "withheld": len(report.withheld),
        "rejected": 0 if outcome is None else outcome.count("REJECTED"),
        "held": 0 if outcome is None else outcome.count("HELD"),
    }


def _conflicting_pairs(losses: Losses) -> frozenset[Pair]:
    """Return the pairs that two documents claim."""
    return frozenset(pair for lost_pairs in losses.values() for pair in lost_pairs)


def _open_drift(report: Reconciliation) -> tuple[DriftObservation, ...]:
    """Return confirmed drift that is not corrected yet."""
    corrected = {
        pair_outcome.change.pair
        for pair_outcome in (() if report.outcome is None else report.outcome.pairs)
        if pair_outcome.is_done
    }
    return tuple(
        observation
        for observation in report.observations
        if observation.confirmed and (observation.entity, observation.key) not in corrected
    )


# ---- conditions ------------------------------------------------------------------------------


def _drifted(observations: Sequence[DriftObservation], result: ReconcileResult) -> str | None:
    """Return the message of the Drifted condition; "" = no drift, ``None`` = a difference is not confirmed yet."""
    preview = result.report.preview
    if preview is None or (not observations and _has_unconfirmed_drift(result, preview)):
        return None
    texts = (
        f"{entity_text(observation.entity)} {observation.key}: {drift_text(observation.expected, observation.live)}"
        for observation in observations
    )
    return first_of(texts, MOST_NAMED)


def _has_unconfirmed_drift(result: ReconcileResult, preview: Preview) -> bool:
    """Whether a difference is not counted as drift yet: by too few observations, or because an earlier leader may write."""
    is_unconfirmed = any(not observation.confirmed for observation in result.report.observations)
    is_settling = result.unexplained > 0 and preview.drift_mode is not DriftMode.DISABLED
    return is_unconfirmed or is_settling


def _over_budget(report: Reconciliation) -> str:
    """Return what the declared limits promise beyond budgets; "" = nothing, or nothing was compared."""
    uses = () if report.preview is None else report.preview.budgets
    return "; ".join(use.words for use in uses if use.is_exceeded and use.is_judged)


def _conflict(losses: Losses) -> str:
    pairs = _conflicting_pairs(losses)
    if not pairs:
        return ""
    ineffective = first_of(sorted(losses), MOST_NAMED)
    return f"{_several(len(pairs), 'limit')} declared twice; not effective: {ineffective}"


def _several(count: int, noun: str) -> str:
    return f"{count} {noun} is" if count == 1 else f"{count} {noun}s are"


def _reason(obj: Resource, report: Reconciliation, secret: SecretState) -> tuple[Reason, str]:
    """Return the worst reason that applies, with its message."""
    problems: dict[Reason, str] = {}
    if obj.spec.get("suspend") is True:
        problems[Reason.SUSPENDED] = "suspended: nothing is written to the cluster"
    if report.error is not None:
        failure = _failure_of(obj, report.error)
        problems[failure.reason] = failure.message
    if secret.version and secret.rejected_version:
        words = f"version {secret.rejected_version} of the Secret cannot be used"
        problems[Reason.SECRET_REJECTED] = "; ".join(
            (words, *([str(secret.problem)] if secret.problem is not None else ()))
        )
    if report.preview is not None:
        problems |= _of_plan(obj, report, report.preview)
    reason = worst(*problems)
    return reason, problems.get(reason, reason.message)


def _failure_of(obj: Resource, error: KquotaError) -> ReconcileFailure:
    """Map an error to a reason; refused references have a separate reason."""
    if isinstance(error, ConfigError) and not isinstance(error, CredentialsError):
        refused_texts = [
            reference for reference in refused_references(obj) if reference in str(error)
        ]
        if refused_texts:
            return ReconcileFailure(
                reason=Reason.REFERENCE_REFUSED, message="; ".join(refused_texts)
            )
    return trouble_of(error)


_AGREEING: Final = frozenset({Cause.ADOPT, Cause.CONVERGED})
"""The live value is as declared; only the record is missing."""


def _of_plan(obj: Resource, report: Reconciliation, preview: Preview) -> dict[Reason, str]:
    problems: dict[Reason, str] = {}
    plan, policy = preview.plan, preview.policy
    removals = [withheld for withheld in report.withheld if withheld.change.removes]
    if removals:
        problems[Reason.GUARD_REFUSED] = (
            f"{_several(len(removals), 'removal')} not made: {_violations_text(removals)}"
        )
    unsent = _unsent_counts(report)
    if any(unsent.values()):
        problems[Reason.CHANGES_UNSENT] = _unsent_text(unsent, report.withheld)
    waiting = _waiting_removals(plan)
    if waiting:
        problems[Reason.LISTING_INCOMPLETE] = (
            f"not every document was read, so {_several(waiting, 'limit')} kept that no document declares any more"
        )
    failure = "" if report.outcome is None else report.outcome.failure
    if failure and report.error is None:
        problems[Reason.BROKER_UNAVAILABLE] = failure
    differing = [finding for finding in plan.restricted if finding.cause not in _AGREEING]
    if policy is Policy.OBSERVE and differing:
        problems[Reason.OBSERVE_ONLY] = f"{_several(len(differing), 'difference')} only shown"
    if obj.spec.get("policy") == Policy.SYNC and policy is Policy.UPSERT:
        problems[Reason.SYNC_NOT_CONFIRMED] = (
            f"policy Sync is not confirmed for {plan.cluster_id}, so Upsert is in force;"
            " set spec.confirmSync to this id to confirm"
        )
    return problems


def _unsent_text(unsent: Mapping[str, int], withheld: Collection[WithheldChange]) -> str:
    """Return what was not sent, with the guards that withhold changes."""
    words = {
        "withheld": "refused by guards",
        "rejected": "refused by the broker",
        "held": "waiting for those",
    }
    text = ", ".join(f"{count} {words[name]}" for name, count in unsent.items() if count)
    violations = _violations_text(withheld)
    return f"changes that were not made: {text}{': ' if violations else ''}{violations}"


def _violations_text(withheld: Collection[WithheldChange]) -> str:
    sentences = dict.fromkeys(
        violation_text(violation) for change in withheld for violation in change.violations
    )
    return "; ".join(sentences)


def _waiting_removals(plan: Plan) -> int:
    """Return the number of removals that an incomplete listing prevents."""
    if plan.complete:
        return 0
    return sum(
        finding.cause is Cause.PRUNE and finding.action is Action.REPORT
        for finding in plan.findings
    )
