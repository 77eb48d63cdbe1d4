"""The status of a QuotaCluster: what holds for the cluster as a whole. Its readers are admins, so it may name anything.

A fault of one document is that document's; here stands what keeps the cluster from being reached, read or trusted, and
what no document is left to tell of, such as removals that a guard withholds.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from reconciler.errors import ConfigError, CredentialsError, KquotaError
from reconciler.kube.conditions import Trouble, bounded, condition_of, conditions, trouble_of
from reconciler.kube.reading import violation_text
from reconciler.kube.reasons import TABLE, Reason, worst
from reconciler.kube.references import refused_references
from reconciler.kube.resources import Obj, generation_of, requested_at, spec_of, time_text
from reconciler.quota.change import Plan
from reconciler.quota.claims import Settled
from reconciler.quota.owned import Owned, Pair
from reconciler.quota.policy import Action, Cause, Policy
from reconciler.quota.report import Pass, Preview, Withheld
from reconciler.quota.state import State
from reconciler.quota.vigil import Sighting
from reconciler.render.names import entity_text
from reconciler.render.units import json_number, number

MOST_DRIFT: Final = 20
MOST_NAMED: Final = 5
MOST_ENTITY: Final = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretUse:
    """The credentials of a session.

    Attributes:
        version: Resource version of the Secret that the session was built with.
        rotated_at: When it was taken into use, in seconds since the epoch.
        rejected_version: A newer version that could not be used; the old session stays.
        why: Why not.
    """

    version: str
    rotated_at: float
    rejected_version: str = ""
    why: str = ""


def cluster_status(
    obj: Obj,
    *,
    report: Pass | None,
    settled: Settled | None = None,
    owned: Owned | None = None,
    documents: int = 0,
    previous: Obj,
    now: float,
    behaves_as: str = "",
    secret: SecretUse | None = None,
    next_sync: float | None = None,
) -> dict[str, Any]:
    """The status of a QuotaCluster.

    Args:
        obj: The resource.
        report: The pass; ``None`` before the first.
        settled: Who asks for what and does not get it.
        owned: The records after the pass.
        documents: How many documents refer to the cluster.
        previous: The status so far, empty for none.
        now: Seconds since the epoch.
        behaves_as: Line of Kafka versions; "" = as before.
        secret: The credentials in use; ``None`` = as before.
        next_sync: When everything is due again, in seconds since the epoch; not told if ``None``.
    """
    made: dict[str, Any] = {"observedGeneration": generation_of(obj)}
    made |= {name: previous[name] for name in _KEPT if name in previous}
    asked = requested_at(obj)
    if report is not None and asked is not None:
        made["lastHandledReconcileAt"] = asked[:128]
    if behaves_as:
        made["behavesAs"] = behaves_as
    if next_sync is not None:
        made["nextSyncTime"] = time_text(next_sync)
    if secret is not None:
        made["secret"] = _secret(secret)
    compared = report is not None and report.preview is not None
    drift = () if report is None else _open_drift(report, previous)
    if report is not None and report.preview is not None and owned is not None:
        made |= _facts(report, report.preview)
        made["counts"] = {
            "documents": documents,
            **_counts(report, report.preview.plan, owned, now),
        }
        made["counts"]["conflicts"] = len(_lost(settled))
        _ = made.pop("drift", None)
        made["counts"]["drifted"] = len(drift)
        if drift:
            made["drift"] = _drift(drift)
    reason, message = _reason(obj, report, secret)
    made["conditions"] = conditions(
        reason,
        message,
        generation=generation_of(obj),
        previous=previous.get("conditions", ()),
        now=now,
        drifted=_drifted(drift) if compared else None,
        conflict=_conflict(settled) if settled is not None and compared else None,
        keep=not compared,
    )
    return made


_KEPT: Final = (
    "lastHandledReconcileAt", "clusterId", "behavesAs", "lastSuccessfulSyncTime",
    "policyInForce", "counts", "secret", "drift", "planDigest",
)  # fmt: skip
"""What stays as it was told last until it is known anew."""


def pending_cluster(obj: Obj, *, previous: Obj, now: float) -> dict[str, Any]:
    """What a QuotaCluster says while its first pass takes long."""
    return cluster_status(obj, report=None, previous=previous, now=now)


# ---- facts -----------------------------------------------------------------------------------


def _secret(use: SecretUse) -> dict[str, Any]:
    made = {"resourceVersion": use.version[:128], "rotatedAt": time_text(use.rotated_at)}
    if use.rejected_version:
        made["rejectedVersion"] = use.rejected_version[:128]
    return made


def _facts(report: Pass, preview: Preview) -> dict[str, Any]:
    plan = preview.plan
    made: dict[str, Any] = {"clusterId": plan.cluster_id, "policyInForce": preview.policy.value}
    if report.in_order and not _waiting_removals(plan):
        made["lastSuccessfulSyncTime"] = time_text(report.ended_at)
    if plan.changes:
        made["planDigest"] = plan.digest
    return made


def _counts(report: Pass, plan: Plan, owned: Owned, now: float) -> dict[str, int]:
    return {
        "declared": plan.desired_pairs,
        "owned": owned.pair_count,
        "unmanaged": len(plan.unmanaged),
        "orphaned": len(owned.orphaned),
        "frozen": len(plan.found(Cause.FROZEN)),
        "overridden": sum(now < one.until for one in owned.overrides.values()),
        "foreign": _foreign(report.live),
    }


def _lost(settled: Settled | None) -> frozenset[Pair]:
    """Pairs that two documents ask for."""
    losses = {} if settled is None else settled.losses
    return frozenset(pair for lost in losses.values() for pair in lost)


def _foreign(live: State | None) -> int:
    if live is None:
        return 0
    values = sum(len(found) for found in live.foreign_values.values())
    return values + sum(len(found) for _, found in live.foreign_entities)


def _open_drift(report: Pass, previous: Obj) -> tuple[Sighting, ...]:
    """Drift that was seen often enough and is not back by now.

    A process that begins anew counts looks from one again; what was spoken of before it is spoken of further.
    """
    spoken_of = condition_of(previous, "Drifted").get("status") == "True"
    corrected = {
        (one.change.entity, one.change.key)
        for one in (() if report.outcome is None else report.outcome.pairs)
        if one.is_done
    }
    return tuple(
        one
        for one in report.sightings
        if (one.confirmed or (spoken_of and one.since < report.started_at))
        and (one.entity, one.key) not in corrected
    )


def _drift(found: Sequence[Sighting]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for seen in found[:MOST_DRIFT]:
        one: dict[str, Any] = {
            "entity": bounded(entity_text(seen.entity), MOST_ENTITY),
            "key": seen.key.value,
            "firstSeen": time_text(seen.since),
        }
        if seen.expected is not None:
            one["expected"] = json_number(seen.expected)
        if seen.live is not None and math.isfinite(seen.live):
            one["live"] = json_number(seen.live)
        made.append(one)
    return made


# ---- conditions ------------------------------------------------------------------------------


def _drifted(found: Sequence[Sighting]) -> str:
    named = "; ".join(
        f"{entity_text(one.entity)} {one.key}: {number(one.expected)} was applied, {number(one.live)} is live"
        for one in found[:MOST_NAMED]
    )
    more = f"; and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return named + more


def _conflict(settled: Settled) -> str:
    pairs = _lost(settled)
    if not pairs:
        return ""
    losers = _first(sorted(settled.losses))
    return f"{_several(len(pairs), 'limit')} asked for twice; not by the word of {losers}"


def _several(count: int, what: str) -> str:
    return f"{count} {what} is" if count == 1 else f"{count} {what}s are"


def _first(names: Collection[str]) -> str:
    shown = ", ".join(tuple(names)[:MOST_NAMED])
    return f"{shown} and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else shown


def _reason(obj: Obj, report: Pass | None, secret: SecretUse | None) -> tuple[Reason, str]:
    """The worst of what holds, with its sentence."""
    found: dict[Reason, str] = {}
    if spec_of(obj).get("suspend") is True:
        found[Reason.SUSPENDED] = "suspended: nothing is written to the cluster"
    if report is None:
        found.setdefault(Reason.PENDING, TABLE[Reason.PENDING].says)
    elif report.error is not None:
        trouble = _trouble(obj, report.error)
        found[trouble.reason] = trouble.message
    if secret is not None and secret.rejected_version:
        found[Reason.SECRET_REJECTED] = "; ".join(
            (
                f"version {secret.rejected_version} of the Secret cannot be used",
                *filter(None, [secret.why]),
            )
        )
    if report is not None and report.preview is not None:
        found |= _of_plan(obj, report, report.preview.plan)
    reason = worst(*found)
    return reason, found.get(reason, TABLE[reason].says)


def _trouble(obj: Obj, error: KquotaError) -> Trouble:
    """The error's row; what is refused as a reference has one of its own."""
    if isinstance(error, ConfigError) and not isinstance(error, CredentialsError):
        refused = [one for one in refused_references(obj) if one in str(error)]
        if refused:
            return Trouble(reason=Reason.REFERENCE_REFUSED, message="; ".join(refused))
    return trouble_of(error)


_AGREEING: Final = frozenset({Cause.ADOPT, Cause.CONVERGED})
"""Live as declared, and only not recorded so."""


def _of_plan(obj: Obj, report: Pass, plan: Plan) -> dict[Reason, str]:
    found: dict[Reason, str] = {}
    withheld = [one for one in report.withheld if one.change.removes]
    if withheld:
        found[Reason.GUARD_REFUSED] = _withheld_text(withheld)
    waiting = _waiting_removals(plan)
    if waiting:
        found[Reason.LISTING_INCOMPLETE] = (
            f"not every document was read, so {_several(waiting, 'limit')} kept that nobody declares any more"
        )
    failure = "" if report.outcome is None else report.outcome.failure
    if failure and report.error is None:
        found[Reason.BROKER_UNAVAILABLE] = failure
    policy = None if report.preview is None else report.preview.policy
    differing = [one for one in plan.restricted if one.cause not in _AGREEING]
    if policy is Policy.OBSERVE and differing:
        found[Reason.OBSERVE_ONLY] = f"{_several(len(differing), 'difference')} only shown"
    if spec_of(obj).get("policy") == Policy.SYNC and policy is Policy.UPSERT:
        found[Reason.SYNC_NOT_CONFIRMED] = (
            f"policy Sync is not confirmed for {plan.cluster_id}, so Upsert is in force;"
            " spec.confirmSync with that very id confirms it"
        )
    return found


def _withheld_text(withheld: Collection[Withheld]) -> str:
    said = dict.fromkeys(
        violation_text(violation) for one in withheld for violation in one.violations
    )
    return f"{_several(len(withheld), 'removal')} withheld: {'; '.join(said)}"


def _waiting_removals(plan: Plan) -> int:
    """Removals that an incomplete listing keeps from being made."""
    if plan.complete:
        return 0
    return sum(
        one.cause in {Cause.PRUNE, Cause.GONE} and one.action is Action.REPORT
        for one in plan.findings
    )
