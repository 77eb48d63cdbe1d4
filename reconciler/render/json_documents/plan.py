"""A plan as a versioned JSON document: for people's tools, for policies, and to be applied after review.

Three facts are kept apart, as in Terraform's plan format: ``applyable`` (apply would do something and nothing forbids
it), ``complete`` (every document was read) and ``errored`` (a conflict, or the broker would refuse a change).
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from reconciler.quota.entity import Entity, level
from reconciler.quota.outcome import Rejected
from reconciler.quota.ownership import Owner
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.planner.guards import Violation
from reconciler.quota.planner.impact import (
    AffectedPrincipal,
    Effect,
    HiddenRule,
    HidingOrphan,
    Impact,
    ShadowedLimit,
)
from reconciler.quota.planner.plan import Finding, QuotaChange
from reconciler.quota.planner.preconditions import Precondition
from reconciler.quota.policy import Cause
from reconciler.quota.precedence import EffectiveLimit
from reconciler.quota.results.report import Preview
from reconciler.render.cause_text import REASONS, section_of, sections
from reconciler.render.json_documents.codec import Json, entity_json, value_json
from reconciler.render.names import entity_text
from reconciler.render.units import instant

KIND: Final = "kquota-plan"
FORMAT: Final = 1


def plan_document(
    preview: Preview, simulation: Mapping[str, Json] | None = None
) -> dict[str, Json]:
    """The document of a preview; equal facts give equal documents.

    Args:
        preview: The plan and what belongs to it.
        simulation: What recorded use says (``whatif_json``); ``None`` = not requested. No part of the digest.
    """
    plan = preview.plan
    effects = preview.impact.effects if preview.impact is not None else ()
    preconditions = {
        (precondition.entity, precondition.key): precondition
        for precondition in preview.preconditions.pairs
    }
    rows: list[Json] = [
        change_row(
            change, effects[at] if effects else None, preconditions[change.entity, change.key]
        )
        for at, change in enumerate(plan.changes)
    ]
    corrected: list[Json] = [
        _short(change) for change in plan.changes if change.cause is Cause.DRIFT
    ]
    document: dict[str, Json] = {
        "kind": KIND,
        "format": FORMAT,
        "clusterId": plan.cluster_id,
        "createdAt": instant(preview.created_at),
        "created": preview.created_at,
        "origin": {
            "who": preview.origin.author,
            "commit": preview.origin.commit,
            "cluster": preview.origin.cluster,
            "toolVersion": preview.origin.tool_version,
        },
        "policy": str(preview.policy),
        "driftDetection": str(preview.drift_mode),
        "applyable": preview.applyable,
        "complete": plan.complete,
        "errored": preview.errored,
        "removalsKnown": plan.removals_known,
        "digest": plan.digest,
        "documentDigest": document_digest(plan.digest, preview.created_at),
        "counts": dict(counts(preview)),
        "changes": rows,
        "takeover": [_short(change) for change in plan.changes if change.cause is Cause.TAKEOVER],
        "exclusive": [_short(change) for change in plan.exclusive],
        "corrected": corrected,
        "conflicts": [
            {
                "entity": entity_json(conflict.entity),
                "text": entity_text(conflict.entity),
                "key": str(conflict.key),
                "claims": [
                    {"document": claim.document, **_place(claim, conflict.key)}
                    for claim in conflict.claims
                ],
            }
            for conflict in plan.conflicts
        ],
        "twins": [
            {
                "entity": entity_json(alias.entity),
                "live": entity_json(alias.live),
                "removal": alias.removal,
            }
            for alias in plan.ip_aliases
        ],
        "violations": [_violation(violation) for violation in preview.violations],
        "warnings": list(preview.warnings),
        "advice": [
            {
                "document": warning.claim.document,
                "file": warning.claim.path,
                "line": int(warning.place.rpartition(":")[2]),
                "kind": str(warning.kind),
                "message": warning.message,
                "accepted": warning.accepted,
            }
            for warning in preview.advice
        ],
        "changedDocuments": None
        if preview.changed_documents is None
        else sorted(preview.changed_documents),
        "validation": {
            "source": preview.verdict.source,
            "why": preview.verdict.reason,
            "refused": [
                _refusal(subject, rejected)
                for subject, rejected in sorted(preview.verdict.rejections.items(), key=str)
            ],
        },
        "impact": _impact(preview.impact) if preview.impact is not None else None,
        "reliedOn": [
            _precondition_row(precondition) for precondition in preview.preconditions.relied_on
        ],
    }
    for name, findings in sections(plan).items():
        document[name] = [finding_row(finding) for finding in findings]
    if preview.snapshot_at is not None:
        document["snapshotTakenAt"] = instant(preview.snapshot_at)
    if simulation is not None:
        document["simulation"] = simulation
    return document


def document_digest(effect: str, created: float) -> str:
    """SHA-256 over the digest of the effect and the time of the plan, which is no part of the effect.

    The effect alone is what people approve and what a plan of today is compared with. This second digest shows that
    the time, which ``--max-age`` is about, was edited; like the first it is no signature.
    """
    return "sha256:" + sha256(f"{effect} {float(created)!r}".encode()).hexdigest()


def counts(preview: Preview) -> Mapping[str, int]:
    """How many of everything."""
    plan = preview.plan
    actions = [change.action for change in plan.changes]
    return {
        "create": actions.count("create"),
        "update": actions.count("update"),
        "remove": actions.count("remove"),
        "entities": len({change.entity for change in plan.changes}),
        "declared": plan.desired_pairs,
        "inSync": plan.in_sync,
        "owned": plan.owned_pairs,
        "takeover": sum(change.cause is Cause.TAKEOVER for change in plan.changes),
        "exclusive": len(plan.exclusive),
        "conflicts": len(plan.conflicts),
        "violations": len(preview.violations),
        "refused": len(preview.verdict.rejections),
        **{name: len(findings) for name, findings in sections(plan).items()},
    }


def change_row(
    change: QuotaChange, effect: Effect | None, precondition: Precondition
) -> dict[str, Json]:
    """One change. ``actions`` is an array, so that a later kind of change may have two."""
    row: dict[str, Json] = {
        "entity": entity_json(change.entity),
        "text": entity_text(change.entity),
        "level": level(change.entity),
        "key": str(change.key),
        "actions": [change.action],
        "cause": str(change.cause),
        "before": value_json(change.before),
        "after": value_json(change.after),
        "reason": REASONS[change.cause],
        "note": change.note,
        "owner": None if change.owner is None else _owner(change.owner),
        "record": None
        if precondition.applied is None and not precondition.document
        else {"value": value_json(precondition.applied), "document": precondition.document},
        **_place(change.claim, change.key),
        "document": change.claim.document if change.claim is not None else None,
    }
    if effect is not None:
        row["effect"] = {
            "direction": str(effect.direction),
            "before": value_json(effect.before),
            "after": value_json(effect.after),
            "factor": effect.factor,
        }
    return row


def finding_row(finding: Finding) -> dict[str, Json]:
    """One finding."""
    return {
        "entity": entity_json(finding.entity),
        "text": entity_text(finding.entity),
        "key": str(finding.key),
        "cause": str(finding.cause),
        "section": section_of(finding),
        "desired": value_json(finding.desired),
        "applied": value_json(finding.applied),
        "live": value_json(finding.live),
        "reason": REASONS[finding.cause],
        "note": finding.note,
        "document": finding.owner.document if finding.owner is not None else None,
        "since": None if finding.since is None else instant(finding.since),
        **_place(finding.claim, finding.key),
    }


def _short(change: QuotaChange) -> dict[str, Json]:
    return {
        "entity": entity_json(change.entity),
        "text": entity_text(change.entity),
        "key": str(change.key),
        "before": value_json(change.before),
        "after": value_json(change.after),
    }


def _place(claim: Declaration | None, key: object) -> dict[str, Json]:
    if claim is None:
        return {"file": None, "line": None}
    path, _, line = claim.place(key).rpartition(":")  # type: ignore[arg-type]  # always a Key
    return {"file": path, "line": int(line)}


def _owner(owner: Owner) -> dict[str, Json]:
    policy = owner.deletion_policy
    return {
        "document": owner.document,
        "deletionPolicy": None if policy is None else str(policy),
        "since": owner.since,
    }


def _precondition_row(precondition: Precondition) -> dict[str, Json]:
    return {
        "entity": entity_json(precondition.entity),
        "key": str(precondition.key),
        "live": value_json(precondition.live),
        "applied": value_json(precondition.applied),
        "document": precondition.document,
    }


def _violation(violation: Violation) -> dict[str, Json]:
    path, _, line = violation.place.rpartition(":")
    return {
        "guard": str(violation.guard),
        "message": violation.message,
        "entity": None if violation.entity is None else entity_json(violation.entity),
        "text": None if violation.entity is None else entity_text(violation.entity),
        "key": None if violation.key is None else str(violation.key),
        "file": path or None,
        "line": int(line) if path else None,
        "allowWith": violation.allow_with,
    }


def _refusal(subject: Entity, rejected: Rejected) -> dict[str, Json]:
    return {
        "entity": entity_json(subject),
        "text": entity_text(subject),
        "code": rejected.code,
        "name": rejected.name,
        "message": rejected.message,
    }


def _impact(impact: Impact) -> dict[str, Json]:
    return {
        "known": impact.principal_count,
        "affected": [_affected(affected) for affected in impact.affected],
        "shadows": [_shadow(shadow) for shadow in impact.shadows],
        "newShadows": [_shadow(shadow) for shadow in impact.new_shadows],
        "silentKeys": [str(key) for key in impact.silent],
        "hiding": [_hiding(hiding) for hiding in impact.hiding],
    }


def _affected(affected: AffectedPrincipal) -> dict[str, Json]:
    return {
        "user": affected.principal.user,
        "clientId": affected.principal.client_id,
        "ip": affected.principal.ip,
        "key": str(affected.key),
        "before": _effective(affected.before),
        "after": _effective(affected.after),
        "movesBucket": affected.moved,
        "direction": str(affected.direction),
        "factor": affected.factor,
        "sharing": str(affected.sharing),
    }


def _effective(effective: EffectiveLimit) -> dict[str, Json]:
    return {
        "value": value_json(effective.value),
        "level": effective.level,
        "source": None if effective.source is None else entity_json(effective.source),
    }


def _hiding(hiding: HidingOrphan) -> dict[str, Json]:
    return {
        "entity": entity_json(hiding.entity),
        "text": entity_text(hiding.entity),
        "key": str(hiding.key),
        "total": hiding.total,
        "rules": [_rule(rule) for rule in hiding.rules],
    }


def _rule(rule: HiddenRule) -> dict[str, Json]:
    path, _, line = rule.place.rpartition(":")
    return {
        "entity": entity_json(rule.entity),
        "text": entity_text(rule.entity),
        "value": value_json(rule.value),
        "file": path or None,
        "line": int(line) if path else None,
    }


def _shadow(shadow: ShadowedLimit) -> dict[str, Json]:
    return {
        "entity": entity_json(shadow.entity),
        "text": entity_text(shadow.entity),
        "key": str(shadow.key),
        "by": entity_json(shadow.by),
    }
