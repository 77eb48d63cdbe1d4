"""A plan as a versioned JSON document: printed for other tools and policies, or saved as facts, to be shown and applied.

Three facts are separate, as in Terraform's plan format: ``applyable`` (apply would send changes and nothing forbids
it), ``complete`` (every document was read) and ``errored`` (a conflict, or the broker would refuse a change).

:func:`read_plan` reads what applying needs; ``apply`` recomputes the rest from the documents.
:func:`read_preview` reads the whole plan, for a job that only shows it and cannot recompute it.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from reconciler.codecs.change_rows import (
    ChangeReader,
    change_summary,
    claim_place,
    printed_change,
    read_claim,
    reasons_withheld,
)
from reconciler.codecs.impact import impact_document, read_impact
from reconciler.codecs.plan_rows import fallback_row, finding_row, read_fallback, read_finding
from reconciler.codecs.reader import DocumentReader, load
from reconciler.errors import ConfigError, StalePlan
from reconciler.quota.entity import Entity
from reconciler.quota.entity_forms import entity_json, entity_text
from reconciler.quota.keys import Key
from reconciler.quota.outcome import Rejected
from reconciler.quota.planner.desired_state import DeclarationConflict
from reconciler.quota.planner.guards import Guard, Violation
from reconciler.quota.planner.impact import Effect
from reconciler.quota.planner.plan import Plan
from reconciler.quota.policy import Cause, DriftMode, Policy
from reconciler.quota.results.report import Preview, RunOrigin, ValidationResult
from reconciler.quota.rule_warnings import RuleWarning, WarningKind
from reconciler.render.cause_text import SECTIONS, counts, sections
from reconciler.render.json_values import Json
from reconciler.render.units import instant

if TYPE_CHECKING:
    from reconciler.usage.impact.result_rows import Simulation

KIND: Final = "kquota-plan"
FORMAT: Final = 1

_ANY_ENTITY: Final = Entity((None, False, False))

DERIVED: Final = frozenset(
    {
        *("createdAt", "applyable", "errored", "takeover", "exclusive", "corrected"),
        *("text", "level", "actions", "reason", "withheld", "section", "allowWith"),
        *("movesBucket", "sharing"),
    }
)
"""Fields that follow from others: they are printed, and no saved plan has them."""

COUNTED: Final = ("declared", "inSync", "owned")
"""Counts that do not follow from rows."""


def plan_facts(preview: Preview, simulation: Mapping[str, Json] | None = None) -> dict[str, Json]:
    """Return the document of a saved plan: facts alone, from which everything else is derived by its readers.

    The simulation is that of :func:`plan_document`.
    """
    numbers, document = counts(preview), plan_document(preview)
    facts = {name: _facts(value) for name, value in document.items() if name not in DERIVED}
    facts["counts"] = {name: numbers[name] for name in COUNTED}
    return facts if simulation is None else {**facts, "simulation": simulation}


def _facts(value: Json) -> Json:
    if isinstance(value, Mapping):
        return {name: _facts(item) for name, item in value.items() if name not in DERIVED}
    return [_facts(item) for item in value] if isinstance(value, list) else value


def plan_document(
    preview: Preview, simulation: Mapping[str, Json] | None = None
) -> dict[str, Json]:
    """Return the document of a preview as it is printed; equal previews have equal documents.

    Args:
        preview: The plan with its checks and impact.
        simulation: Effect on recorded use (:func:`~reconciler.codecs.simulation.whatif_document`); ``None`` = not
            requested. Not part of the digest.
    """
    plan, digest = preview.plan, preview.digest
    effects = preview.impact.effects if preview.impact is not None else ()
    withheld = reasons_withheld(preview)
    rows: list[Json] = [
        printed_change(
            change, effects[at] if effects else None, withheld.get((change.pair, change.cause), ())
        )
        for at, change in enumerate(plan.changes)
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
        "selection": list(preview.selection),
        "policy": str(preview.policy),
        "driftDetection": str(preview.drift_mode),
        "applyable": preview.applyable,
        "complete": plan.complete,
        "errored": preview.errored,
        "removalsKnown": plan.removals_known,
        "digest": digest,
        "documentDigest": document_digest(digest, preview.created_at),
        "counts": dict(counts(preview)),
        "changes": rows,
        "pending": [
            printed_change(change, None, withheld.get((change.pair, change.cause), ()))
            for change in plan.pending
        ],
        "takeover": [
            change_summary(change) for change in plan.changes if change.cause is Cause.TAKEOVER
        ],
        "exclusive": [change_summary(change) for change in plan.exclusive],
        "corrected": [
            change_summary(change) for change in plan.changes if change.cause is Cause.DRIFT
        ],
        "conflicts": [
            {
                "entity": entity_json(conflict.entity),
                "text": entity_text(conflict.entity),
                "key": str(conflict.key),
                "claims": [
                    {"document": claim.document, **claim_place(claim, conflict.key)}
                    for claim in conflict.claims
                ],
            }
            for conflict in plan.conflicts
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
        "impact": impact_document(preview.impact) if preview.impact is not None else None,
        "reliedOn": [fallback_row(fallback) for fallback in preview.fallbacks],
    }
    for name, findings in sections(plan).items():
        document[name] = [finding_row(finding) for finding in findings]
    if preview.snapshot_at is not None:
        document["snapshotTakenAt"] = instant(preview.snapshot_at)
    if simulation is not None:
        document["simulation"] = simulation
    return document


def document_digest(effect: str, created: float) -> str:
    """Return SHA-256 over the digest of the effect and the time of the plan, which is not part of the effect.

    Only the effect is approved and compared with a later plan. This second digest detects that the time, which
    ``--max-age`` checks, was edited; like the first, it is not a signature.
    """
    return "sha256:" + sha256(f"{effect} {float(created)!r}".encode()).hexdigest()


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


# ---- reading -----------------------------------------------------------------------------------


def read_plan(text: str, *, location: str) -> Preview:
    """Read a preview as far as applying needs it: changes, limits that removals rely on, time and cluster.

    Guards, impact and findings are omitted: the run that applies recomputes them, from the trusted configuration.

    Raises:
        StalePlan: It has another format, so another version of kquota wrote it.
        ConfigError: It is truncated, edited, or not a plan.
    """
    preview, _ = _read_operations(_load(text, location))
    return preview


def read_preview(text: str, *, location: str) -> Preview:
    """Read a complete preview, except for values that the document does not contain (record changes, overridden limits).

    Raises:
        StalePlan: It has another format, so another version of kquota wrote it.
        ConfigError: It is truncated, edited, or not a plan.
    """
    top = _load(text, location)
    operations, effects = _read_operations(top)
    if top["impact"].value is not None and len(effects) != len(operations.plan.changes):
        top["changes"].fail("changes with their effects")
    preview = replace(
        operations,
        plan=replace(
            operations.plan,
            findings=tuple(
                read_finding(row, kind.name) for kind in SECTIONS for row in top[kind.name].items()
            ),
            conflicts=top["conflicts"].rows(_read_conflict),
        ),
        violations=top["violations"].rows(_read_violation),
        verdict=_read_validation(top["validation"]),
        impact=top["impact"].optional(lambda impact: read_impact(impact, effects)),
        warnings=top["warnings"].rows(DocumentReader.text),
        advice=top["advice"].rows(_read_advice),
        changed_documents=top["changedDocuments"].optional(
            lambda names: frozenset(names.rows(DocumentReader.text))
        ),
        snapshot_at=top["snapshotTakenAt"].instant() if "snapshotTakenAt" in top else None,
    )
    for name, value in plan_facts(preview).items():
        if name != "changes":  # compared row by row as they were read
            top[name].expect(value)
    return preview


def read_simulation(text: str, *, location: str) -> "Simulation | None":
    """Read the simulation of a plan; ``None`` = not requested.

    Raises:
        KquotaError: As :func:`read_preview`.
    """
    return _read_simulation(_load(text, location))


def _load(text: str, location: str) -> DocumentReader:
    try:
        top = load(text, kind=KIND, format_version=FORMAT, location=location)
    except ConfigError as error:
        if error.key == "format":
            raise StalePlan(error.message, hint=error.hint) from error
        raise
    if "applyable" in top:
        raise ConfigError(
            "this plan was printed with --format json",
            location=location,
            hint="expected: the file of `plan --out`",
        )
    return top


def _read_operations(top: DocumentReader) -> tuple[Preview, tuple[Effect, ...]]:
    """Read what applying needs, and the effects in the rows of the changes."""
    _ = _read_simulation(top)
    rows, pending = top["changes"].rows(ChangeReader()), top["pending"].rows(ChangeReader())
    counted, origin, created = top["counts"], top["origin"], top["created"].number()
    preview = Preview(
        plan=Plan(
            cluster_id=top["clusterId"].text(),
            changes=tuple(row.change for row in rows),
            pending=tuple(row.change for row in pending),
            desired_pairs=counted["declared"].integer(),
            in_sync=counted["inSync"].integer(),
            owned_pairs=counted["owned"].integer(),
            removals_known=top["removalsKnown"].boolean(),
            complete=top["complete"].boolean(),
        ),
        fallbacks=top["reliedOn"].rows(read_fallback),
        verdict=ValidationResult(source=top["validation"]["source"].text()),
        selection=top["selection"].rows(DocumentReader.text),
        policy=top["policy"].word(Policy),
        drift_mode=top["driftDetection"].word(DriftMode),
        created_at=created,
        snapshot_at=created if "snapshotTakenAt" in top else None,
        origin=RunOrigin(
            author=origin["who"].text(),
            commit=origin["commit"].text(),
            cluster=origin["cluster"].text(),
            tool_version=origin["toolVersion"].text(),
        ),
    )
    _check_digests(top, preview)
    nothing = replace(preview, plan=Plan(cluster_id=""), fallbacks=())
    _ = top.fields(*plan_facts(nothing), optional=("snapshotTakenAt", "simulation"))
    return preview, tuple(row.effect for row in rows if row.effect is not None)


def _check_digests(top: DocumentReader, preview: Preview) -> None:
    """Check the digests against the content."""
    digest = preview.digest
    if digest != top["digest"].text():
        raise _edited_error(top, "its changes and its digest do not match")
    if document_digest(digest, preview.created_at) != top["documentDigest"].text():
        raise _edited_error(top, "its time and its digests do not match")
    try:
        _ = instant(preview.created_at)
    except (OverflowError, OSError, ValueError):
        top["created"].fail("a time between the years 1 and 9999")


def _edited_error(top: DocumentReader, message: str) -> ConfigError:
    return ConfigError(f"{message}, so it was edited", location=top.location, hint="plan again")


def _read_simulation(top: DocumentReader) -> "Simulation | None":
    if "simulation" not in top:
        return None
    from reconciler.codecs.simulation import read_whatif  # noqa: PLC0415 - the models of use, only for plans with a simulation

    return read_whatif(top["simulation"], top["clusterId"].text())


def _read_conflict(row: DocumentReader) -> DeclarationConflict:
    subject = row["entity"].entity()
    return DeclarationConflict(
        entity=subject,
        key=row["key"].word(Key),
        claims=row["claims"].rows(
            lambda claim: read_claim(claim, subject, claim["document"].text())
        ),
    )


def _read_violation(row: DocumentReader) -> Violation:
    place = row["file"].optional(lambda file: f"{file.text()}:{row['line'].integer()}")
    return Violation(
        guard=row["guard"].word(Guard),
        message=row["message"].text(),
        entity=row["entity"].optional(DocumentReader.entity),
        key=row["key"].optional(lambda key: key.word(Key)),
        place=place or "",
    )


def _read_validation(row: DocumentReader) -> ValidationResult:
    return ValidationResult(
        source=row["source"].text(),
        reason=row["why"].text(),
        rejections={
            item["entity"].entity(): Rejected(
                code=item["code"].integer(),
                name=item["name"].text(),
                message=item["message"].text(),
            )
            for item in row["refused"].items()
        },
    )


def _read_advice(row: DocumentReader) -> RuleWarning:
    # The entity of a warning is only in its message; the document has its place.
    return RuleWarning(
        claim=read_claim(row, _ANY_ENTITY, row["document"].text()),
        kind=row["kind"].word(WarningKind),
        message=row["message"].text(),
        accepted=row["accepted"].text(),
    )
