"""A plan as a versioned JSON document: for people's tools, for policies, and to be applied after review.

Three facts are kept apart, as in Terraform's plan format: ``applyable`` (apply would do something and nothing forbids
it), ``complete`` (every document was read) and ``errored`` (a conflict, or the broker would refuse a change).
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from reconciler.quota.basis import Ground
from reconciler.quota.change import Change, Finding
from reconciler.quota.desired import Declaration
from reconciler.quota.entity import Entity, level
from reconciler.quota.guards import Violation
from reconciler.quota.impact import Affected, Effect, HiddenRule, Hiding, Impact, Shadow
from reconciler.quota.outcome import Rejected
from reconciler.quota.owned import Owner
from reconciler.quota.policy import Cause
from reconciler.quota.precedence import Effective
from reconciler.quota.report import Preview
from reconciler.render.documents import Json, entity_json, value_json
from reconciler.render.names import entity_text
from reconciler.render.reasons import REASONS, section_of, sections
from reconciler.render.units import instant

KIND: Final = "kquota-plan"
FORMAT: Final = 1


def plan_document(
    preview: Preview, simulation: Mapping[str, Json] | None = None
) -> dict[str, Json]:
    """The document of a preview; equal facts give equal documents.

    Args:
        preview: The plan and what belongs to it.
        simulation: What recorded use says (``whatif_json``); ``None`` = nobody asked. No part of the digest.
    """
    plan = preview.plan
    effects = preview.impact.effects if preview.impact is not None else ()
    grounds = {(one.entity, one.key): one for one in preview.basis.pairs}
    rows: list[Json] = [
        change_row(change, effects[at] if effects else None, grounds[change.entity, change.key])
        for at, change in enumerate(plan.changes)
    ]
    corrected: list[Json] = [_short(one) for one in plan.changes if one.cause is Cause.DRIFT]
    document: dict[str, Json] = {
        "kind": KIND,
        "format": FORMAT,
        "clusterId": plan.cluster_id,
        "createdAt": instant(preview.created_at),
        "created": preview.created_at,
        "origin": {
            "who": preview.origin.who,
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
        "takeover": [_short(one) for one in plan.changes if one.cause is Cause.TAKEOVER],
        "exclusive": [_short(one) for one in plan.exclusive],
        "corrected": corrected,
        "conflicts": [
            {
                "entity": entity_json(one.entity),
                "text": entity_text(one.entity),
                "key": str(one.key),
                "claims": [
                    {"document": claim.document, **_place(claim, one.key)} for claim in one.claims
                ],
            }
            for one in plan.conflicts
        ],
        "twins": [
            {
                "entity": entity_json(one.entity),
                "live": entity_json(one.live),
                "removal": one.removal,
            }
            for one in plan.twins
        ],
        "violations": [_violation(one) for one in preview.violations],
        "warnings": list(preview.warnings),
        "advice": [
            {
                "document": one.claim.document,
                "file": one.claim.path,
                "line": int(one.place.rpartition(":")[2]),
                "kind": str(one.kind),
                "message": one.message,
                "accepted": one.accepted,
            }
            for one in preview.advice
        ],
        "changedDocuments": None
        if preview.changed_documents is None
        else sorted(preview.changed_documents),
        "validation": {
            "source": preview.verdict.source,
            "why": preview.verdict.why,
            "refused": [
                _refusal(subject, one)
                for subject, one in sorted(preview.verdict.refused.items(), key=str)
            ],
        },
        "impact": _impact(preview.impact) if preview.impact is not None else None,
        "reliedOn": [_ground(one) for one in preview.basis.relied_on],
    }
    for name, findings in sections(plan).items():
        document[name] = [finding_row(one) for one in findings]
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
        "refused": len(preview.verdict.refused),
        **{name: len(findings) for name, findings in sections(plan).items()},
    }


def change_row(change: Change, effect: Effect | None, ground: Ground) -> dict[str, Json]:
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
        if ground.applied is None and not ground.document
        else {"value": value_json(ground.applied), "document": ground.document},
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


def finding_row(one: Finding) -> dict[str, Json]:
    """One finding."""
    return {
        "entity": entity_json(one.entity),
        "text": entity_text(one.entity),
        "key": str(one.key),
        "cause": str(one.cause),
        "section": section_of(one),
        "desired": value_json(one.desired),
        "applied": value_json(one.applied),
        "live": value_json(one.live),
        "reason": REASONS[one.cause],
        "note": one.note,
        "document": one.owner.document if one.owner is not None else None,
        "since": None if one.since is None else instant(one.since),
        **_place(one.claim, one.key),
    }


def _short(change: Change) -> dict[str, Json]:
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


def _ground(one: Ground) -> dict[str, Json]:
    return {
        "entity": entity_json(one.entity),
        "key": str(one.key),
        "live": value_json(one.live),
        "applied": value_json(one.applied),
        "document": one.document,
    }


def _violation(one: Violation) -> dict[str, Json]:
    path, _, line = one.place.rpartition(":")
    return {
        "guard": str(one.guard),
        "message": one.message,
        "entity": None if one.entity is None else entity_json(one.entity),
        "text": None if one.entity is None else entity_text(one.entity),
        "key": None if one.key is None else str(one.key),
        "file": path or None,
        "line": int(line) if path else None,
        "allowWith": one.allow_with,
    }


def _refusal(subject: Entity, one: Rejected) -> dict[str, Json]:
    return {
        "entity": entity_json(subject),
        "text": entity_text(subject),
        "code": one.code,
        "name": one.name,
        "message": one.message,
    }


def _impact(impact: Impact) -> dict[str, Json]:
    return {
        "known": impact.known,
        "affected": [_affected(one) for one in impact.affected],
        "shadows": [_shadow(one) for one in impact.shadows],
        "newShadows": [_shadow(one) for one in impact.new_shadows],
        "silentKeys": [str(key) for key in impact.silent],
        "hiding": [_hiding(one) for one in impact.hiding],
    }


def _affected(one: Affected) -> dict[str, Json]:
    return {
        "user": one.principal.user,
        "clientId": one.principal.client_id,
        "ip": one.principal.ip,
        "key": str(one.key),
        "before": _effective(one.before),
        "after": _effective(one.after),
        "movesBucket": one.moved,
        "direction": str(one.direction),
        "factor": one.factor,
        "sharing": str(one.sharing),
    }


def _effective(one: Effective) -> dict[str, Json]:
    return {
        "value": value_json(one.value),
        "level": one.level,
        "source": None if one.source is None else entity_json(one.source),
    }


def _hiding(one: Hiding) -> dict[str, Json]:
    return {
        "entity": entity_json(one.entity),
        "text": entity_text(one.entity),
        "key": str(one.key),
        "total": one.total,
        "rules": [_rule(rule) for rule in one.rules],
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


def _shadow(one: Shadow) -> dict[str, Json]:
    return {
        "entity": entity_json(one.entity),
        "text": entity_text(one.entity),
        "key": str(one.key),
        "by": entity_json(one.by),
    }
