"""A plan as a versioned JSON document: saved as facts, to be shown and applied, or printed for other tools and policies.

What is printed has the facts of the saved document (``plan_file``) and what follows from them. Three of its fields are
separate, as in Terraform's plan format: ``applyable`` (apply would send changes and nothing forbids it), ``complete``
(every document was read) and ``errored`` (a conflict, or the broker would refuse a change).
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from reconciler.codecs.plan_file import FORMAT, PlanFile, plan_file, preview_of
from reconciler.codecs.plan_rows import printed_finding
from reconciler.codecs.reader import edited, typed
from reconciler.errors import ConfigError, QuotaValueError, StalePlan
from reconciler.quota.entity import entity_json, entity_text, level
from reconciler.quota.ownership import Pair
from reconciler.quota.planner.impact import (
    Impact,
    ShadowedLimit,
    UnmatchedClientId,
)
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.policy import Cause
from reconciler.quota.results.report import Preview
from reconciler.render.cause_text import REASONS, counts, sections
from reconciler.render.json_values import Json, value_json
from reconciler.render.units import instant

if TYPE_CHECKING:
    from reconciler.usage.impact.result_rows import Simulation


def saved_plan(preview: Preview, simulation: dict[str, Json] | None = None) -> PlanFile:
    """Return the document of a saved plan; the simulation is that of :func:`plan_document`."""
    return plan_file(preview, document_digest(preview.digest, preview.created_at), simulation)


def document_digest(effect: str, created: float) -> str:
    """Return SHA-256 over the digest of the effect and the time of the plan, which is not part of the effect.

    Only the effect is approved and compared with a later plan. This second digest detects that the time, which
    ``--max-age`` checks, was edited; like the first, it is not a signature.
    """
    return "sha256:" + sha256(f"{effect} {float(created)!r}".encode()).hexdigest()


_NO_PLACE: Final = {"file": None, "line": None}


# ---- printing --------------------------------------------------------------------------------


def plan_document(preview: Preview, simulation: dict[str, Json] | None = None) -> dict[str, Json]:
    """Return the document of a preview as it is printed; equal previews have equal documents.

    Args:
        preview: The plan with its checks and impact.
        simulation: Effect on recorded use (:func:`~reconciler.codecs.simulation.whatif_document`); ``None`` = not
            requested. Not part of the digest.
    """
    plan, file = preview.plan, saved_plan(preview, simulation)
    document: dict[str, Any] = msgspec.to_builtins(file, enc_hook=float)
    withheld = _reasons_withheld(preview)
    for rows, changes in ((document["changes"], plan.changes), (document["pending"], plan.pending)):
        for row, change in zip(rows, changes, strict=True):
            _complete_change(row, change, withheld.get((change.pair, change.cause), ()))
    if preview.impact is not None:
        for row, effect in zip(document["changes"], preview.impact.effects, strict=True):
            row["effect"]["factor"] = effect.factor
        _complete_impact(document["impact"], preview.impact)
    _complete_notes(document, preview)
    del document["findings"]
    for name, findings in sections(plan).items():
        printed = map(printed_finding, findings)
        document[name] = msgspec.to_builtins(list(printed), enc_hook=float)
    snapshot_at = document.pop("snapshotAt", None)
    return (
        document
        | {
            "applyable": preview.applyable,
            "corrected": _summaries(plan.changes, Cause.DRIFT),
            "counts": dict(counts(preview)),
            "createdAt": instant(preview.created_at),
            "errored": preview.errored,
            "takeover": _summaries(plan.changes, Cause.TAKEOVER),
        }
        | ({} if snapshot_at is None else {"snapshotTakenAt": instant(snapshot_at)})
    )


def _complete_notes(document: dict[str, Any], preview: Preview) -> None:
    """Add what follows from conflicts, guards, warnings and the answer of the broker."""
    for row, conflict in zip(document["conflicts"], preview.plan.conflicts, strict=True):
        row["text"] = entity_text(conflict.entity)
        for claim in row["claims"]:
            _ = claim.pop("selection", None), claim.pop("until", None)
    for row, violation in zip(document["violations"], preview.violations, strict=True):
        text = None if violation.entity is None else entity_text(violation.entity)
        file, _, line = row.pop("place").rpartition(":")
        del row["cause"]
        row.update(
            file=file or None,
            line=int(line) if file else None,
            text=text,
            allowWith=violation.allow_with,
        )
    for row in document["advice"]:
        row.update(row.pop("claim"))
    for row, use in zip(document.get("budgets", ()), preview.budgets, strict=True):
        row.update(allowed=value_json(use.budget.allowed), exceeded=use.is_exceeded, text=use.words)
    document["validation"]["why"] = document["validation"].pop("reason")
    for row, entity in zip(
        document["validation"]["refused"], sorted(preview.verdict.rejections, key=str), strict=True
    ):
        row["text"] = entity_text(entity)


def _complete_change(row: dict[str, Any], change: QuotaChange, withheld: Sequence[str]) -> None:
    """Add what follows from a change. ``actions`` is an array, so that a later kind of change may have two.

    Args:
        row: Its facts.
        change: The change.
        withheld: What refuses it: guards, or "validation".
    """
    row.update(
        row.pop("claim") or {"document": None, **_NO_PLACE},
        text=entity_text(change.entity),
        level=level(change.entity),
        actions=[change.action],
        reason=REASONS[change.cause],
        withheld=[*withheld],
    )


def _reasons_withheld(preview: Preview) -> Mapping[tuple[Pair, Cause], Sequence[str]]:
    """Return what refuses each row that is refused by itself, by pair and cause."""
    reasons: dict[tuple[Pair, Cause], list[str]] = {}
    for violation in preview.violations:
        entity, key, cause = violation.entity, violation.key, violation.cause
        if entity is not None and key is not None and cause is not None:
            reasons.setdefault(((entity, key), cause), []).append(str(violation.guard))
    for change in preview.plan.changes:
        if change.entity in preview.verdict.rejections:
            reasons.setdefault((change.pair, change.cause), []).append("validation")
    return reasons


def _summaries(changes: Sequence[QuotaChange], cause: Cause) -> list[Json]:
    """Return the changes of one cause, for a list that repeats them."""
    return [
        {
            "entity": entity_json(change.entity),
            "text": entity_text(change.entity),
            "key": str(change.key),
            "before": value_json(change.before),
            "after": value_json(change.after),
        }
        for change in changes
        if change.cause is cause
    ]


def _complete_impact(part: dict[str, Any], impact: Impact) -> None:
    """Add what follows from an impact."""
    for row, affected in zip(part["affected"], impact.affected, strict=True):
        row.update(
            movesBucket=affected.moved,
            direction=str(affected.direction),
            factor=affected.factor,
            sharing=str(affected.sharing),
        )
        for name, effective in (("before", affected.before), ("after", affected.after)):
            row[name]["level"] = effective.level
            if effective.unranked:
                row[name]["known"] = effective.is_known
    named: dict[str, Sequence[ShadowedLimit | UnmatchedClientId]] = {
        "shadows": impact.shadows,
        "newShadows": impact.new_shadows,
        "unmatchedClientIds": impact.unmatched,
    }
    for name, values in named.items():
        for row, value in zip(part[name], values, strict=True):
            row["text"] = entity_text(value.entity)


# ---- reading ---------------------------------------------------------------------------------


def read_plan(text: str, *, location: str, is_shown: bool = True) -> Preview:
    """Read a saved plan.

    Args:
        text: The document.
        location: Its name, for errors.
        is_shown: Whether the impact is needed; ``apply`` recomputes it, from the trusted configuration.

    Raises:
        StalePlan: It has another format, so another version of kquota wrote it.
        ConfigError: It is truncated, edited, or not a plan.
    """
    file = _read(text, location)
    _ = simulation_of(file, location=location)
    return checked_preview(file if is_shown else replace(file, impact=None), location=location)


def read_simulation(text: str, *, location: str) -> "Simulation | None":
    """Read the simulation of a plan; ``None`` = not requested.

    Raises:
        KquotaError: As :func:`read_plan`.
    """
    return simulation_of(_read(text, location), location=location)


def checked_preview(file: PlanFile, *, location: str) -> Preview:
    """Return the preview of a document whose digests match its content.

    Raises:
        ConfigError: It was edited.
    """
    try:
        preview = preview_of(file)
    except QuotaValueError as error:
        raise edited(str(error), location) from error
    if preview.digest != file.digest:
        raise edited("its changes and its digest do not match, so it was edited", location)
    if document_digest(file.digest, file.created) != file.document_digest:
        raise edited("its time and its digests do not match, so it was edited", location)
    return preview


def simulation_of(file: PlanFile, *, location: str) -> "Simulation | None":
    """Return the simulation of a document; ``None`` = not requested.

    Raises:
        ConfigError: It was edited.
    """
    if file.simulation is None:
        return None
    from reconciler.codecs.simulation import read_whatif  # noqa: PLC0415 - the models of use, only for plans with a simulation

    return read_whatif(file.simulation, file.cluster_id, location=location)


def _read(text: str, location: str) -> PlanFile:
    try:
        return typed(text, PlanFile, format_version=FORMAT, location=location)
    except ConfigError as error:
        if error.key == "format":
            raise StalePlan(error.message, hint=error.hint) from error
        refuse_printed(text, location)
        raise


def refuse_printed(text: str, location: str) -> None:
    """Say so of a text that cannot be read because it was printed.

    Raises:
        ConfigError: It was.
    """
    if '"applyable":' in text:
        raise ConfigError(
            "this plan was printed with --format json",
            location=location,
            hint="expected: the file of `plan --out`",
        )
