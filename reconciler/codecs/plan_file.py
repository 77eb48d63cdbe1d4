"""A saved plan: the type of its JSON document, made from a preview and back. It holds the facts of a preview alone."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta

from reconciler.codecs.impact import BudgetRow, ImpactPart, budget_row, impact_part
from reconciler.codecs.plan_rows import (
    ChangeRow,
    ClaimRow,
    FindingRow,
    Place,
    PlanPart,
    change_row,
    claim_row,
    finding_row,
)
from reconciler.codecs.reader import values_of
from reconciler.errors import QuotaValueError
from reconciler.quota.entity import Entity, EntityParts, from_parts, parts
from reconciler.quota.keys import Key, SetValue
from reconciler.quota.ownership import Moment
from reconciler.quota.planner.desired_state import DeclarationConflict
from reconciler.quota.planner.effects import Effect, Fallback, change_factor
from reconciler.quota.planner.guards import Guard, Violation
from reconciler.quota.planner.plan import Plan, QuotaChange
from reconciler.quota.policy import Cause, DriftMode, Policy
from reconciler.quota.results.report import Preview, RunOrigin, ValidationResult
from reconciler.quota.rule_warnings import RuleWarning, WarningKind
from reconciler.quota.state import Rejected
from reconciler.render.json_values import Json, read_set_value, read_value, written_set_value

KIND: Final = "kquota-plan"
FORMAT: Final = 1

Count: TypeAlias = Annotated[int, Meta(ge=0)]
_ANY_ENTITY: Final = Entity((None, False, False))


# ---- what reviewers are told -----------------------------------------------------------------


class ConflictRow(PlanPart, frozen=True, kw_only=True):
    """A pair that several documents declare."""

    claims: list[ClaimRow]
    entity: EntityParts
    key: Key

    def conflict(self) -> DeclarationConflict:
        """Return the conflict."""
        subject = from_parts(self.entity)
        claims = tuple(row.claim(subject) for row in self.claims)
        return DeclarationConflict(entity=subject, key=self.key, claims=claims)


class ViolationRow(PlanPart, frozen=True, kw_only=True):
    """A violation of a guard."""

    cause: Cause | None
    entity: EntityParts | None
    guard: Guard
    key: Key | None
    message: str
    place: Place

    def violation(self) -> Violation:
        """Return the violation."""
        return Violation(
            guard=self.guard,
            message=self.message,
            entity=None if self.entity is None else from_parts(self.entity),
            key=self.key,
            place=self.place,
            cause=self.cause,
        )


class AdviceRow(PlanPart, frozen=True, kw_only=True):
    """A warning about a rule; its entity is only in its message."""

    accepted: str
    claim: ClaimRow
    kind: WarningKind
    message: str

    def warning(self) -> RuleWarning:
        """Return the warning."""
        return RuleWarning(
            claim=self.claim.claim(_ANY_ENTITY),
            kind=self.kind,
            message=self.message,
            accepted=self.accepted,
        )


class RefusalRow(PlanPart, frozen=True, kw_only=True):
    """An entity whose changes the broker refuses."""

    code: int
    entity: EntityParts
    message: str
    name: str


class ValidationRow(PlanPart, frozen=True, kw_only=True):
    """The answer of the broker."""

    reason: str
    refused: list[RefusalRow]
    source: str


class FallbackRow(PlanPart, frozen=True, kw_only=True):
    """A live limit that clients of a removal fall back to."""

    entity: EntityParts
    key: Key
    live: SetValue

    def fallback(self) -> Fallback:
        """Return the limit."""
        return Fallback(from_parts(self.entity), self.key, read_set_value(self.live))


# ---- the document ----------------------------------------------------------------------------


class PlanCounts(PlanPart, frozen=True, kw_only=True):
    """Counts that do not follow from rows."""

    declared: Count
    in_sync: Count
    owned: Count


class PlanFile(PlanPart, frozen=True, kw_only=True, tag_field="kind", tag=KIND):
    """The document of a saved plan."""

    advice: list[AdviceRow]
    budgets: tuple[BudgetRow, ...] = ()
    changed_documents: list[str] | None
    changes: list[ChangeRow]
    cluster_id: str
    complete: bool
    conflicts: list[ConflictRow]
    counts: PlanCounts
    created: Moment
    digest: str
    document_digest: str
    drift_detection: DriftMode
    findings: list[FindingRow]
    format: Literal[1]
    impact: ImpactPart | None
    origin: RunOrigin
    pending: list[ChangeRow]
    policy: Policy
    relied_on: list[FallbackRow]
    removals_known: bool
    selection: list[str]
    # The effect on recorded use, as `codecs.simulation` reads and writes it; None = not requested.
    simulation: dict[str, Any] | None = None
    snapshot_at: Moment | None = None
    validation: ValidationRow
    violations: list[ViolationRow]
    warnings: list[str]


# ---- from a preview --------------------------------------------------------------------------


def plan_file(
    preview: Preview, document_digest: str, simulation: dict[str, Json] | None = None
) -> PlanFile:
    """Return the document of a preview; equal previews have equal documents.

    Args:
        preview: The plan with its checks and impact.
        document_digest: Its second digest.
        simulation: Effect on recorded use (:func:`~reconciler.codecs.simulation.whatif_document`); ``None`` = not
            requested. Not part of the digests.
    """
    plan, impact, verdict = preview.plan, preview.impact, preview.verdict
    effects: Sequence[Effect | None] = (
        [None] * len(plan.changes) if impact is None else impact.effects
    )
    changed = preview.changed_documents
    return PlanFile(
        advice=list(map(_advice_row, preview.advice)),
        budgets=tuple(map(budget_row, preview.budgets)),
        changed_documents=None if changed is None else sorted(changed),
        changes=list(map(change_row, plan.changes, effects)),
        cluster_id=plan.cluster_id,
        complete=plan.complete,
        conflicts=[
            ConflictRow(
                claims=[claim_row(claim, conflict.key) for claim in conflict.claims],
                entity=parts(conflict.entity),
                key=conflict.key,
            )
            for conflict in plan.conflicts
        ],
        counts=PlanCounts(
            declared=plan.desired_pairs, in_sync=plan.in_sync, owned=plan.owned_pairs
        ),
        created=preview.created_at,
        digest=preview.digest,
        document_digest=document_digest,
        drift_detection=preview.drift_mode,
        findings=list(map(finding_row, plan.findings)),
        format=FORMAT,
        impact=None if impact is None else impact_part(impact),
        origin=preview.origin,
        pending=list(map(change_row, plan.pending)),
        policy=preview.policy,
        relied_on=[
            FallbackRow(entity=parts(entity), key=key, live=written_set_value(value))
            for entity, key, value in preview.fallbacks
        ],
        removals_known=plan.removals_known,
        selection=list(preview.selection),
        simulation=simulation,
        snapshot_at=preview.snapshot_at,
        validation=ValidationRow(
            reason=verdict.reason,
            refused=[
                RefusalRow(
                    code=rejected.code,
                    entity=parts(entity),
                    message=rejected.message,
                    name=rejected.name,
                )
                for entity, rejected in sorted(verdict.rejections.items(), key=str)
            ],
            source=verdict.source,
        ),
        violations=list(map(_violation_row, preview.violations)),
        warnings=list(preview.warnings),
    )


def _advice_row(warning: RuleWarning) -> AdviceRow:
    claim, key = warning.claim, warning.key
    line = claim.line if key is None else claim.line_of(key)
    return AdviceRow(
        accepted=warning.accepted,
        claim=ClaimRow(document=claim.document, file=claim.path, line=line),
        kind=warning.kind,
        message=warning.message,
    )


def _violation_row(violation: Violation) -> ViolationRow:
    entity = violation.entity
    return ViolationRow(
        cause=violation.cause,
        entity=None if entity is None else parts(entity),
        guard=violation.guard,
        key=violation.key,
        message=violation.message,
        place=violation.place,
    )


# ---- to a preview ----------------------------------------------------------------------------


def preview_of(file: PlanFile) -> Preview:
    """Return the preview of a document, except for values that it does not contain (record changes, overridden limits).

    Raises:
        QuotaValueError: An entity cannot be, a change changes nothing, or effects are missing; with the place.
    """
    changes = values_of("changes", file.changes, ChangeRow.change)
    effects = tuple(_effects(file.changes, changes))
    if file.impact is not None and len(effects) != len(changes):
        raise QuotaValueError("changes: each should have its effect")
    changed = file.changed_documents
    return Preview(
        plan=Plan(
            cluster_id=file.cluster_id,
            changes=changes,
            pending=values_of("pending", file.pending, ChangeRow.change),
            findings=values_of("findings", file.findings, FindingRow.finding),
            conflicts=values_of("conflicts", file.conflicts, ConflictRow.conflict),
            desired_pairs=file.counts.declared,
            in_sync=file.counts.in_sync,
            owned_pairs=file.counts.owned,
            removals_known=file.removals_known,
            complete=file.complete,
        ),
        fallbacks=values_of("reliedOn", file.relied_on, FallbackRow.fallback),
        budgets=values_of("budgets", file.budgets, BudgetRow.use),
        violations=values_of("violations", file.violations, ViolationRow.violation),
        verdict=ValidationResult(
            source=file.validation.source,
            rejections=dict(values_of("validation.refused", file.validation.refused, _rejection)),
            reason=file.validation.reason,
        ),
        impact=None if file.impact is None else file.impact.impact(effects),
        warnings=tuple(file.warnings),
        advice=tuple(row.warning() for row in file.advice),
        changed_documents=None if changed is None else frozenset(changed),
        selection=tuple(file.selection),
        policy=file.policy,
        drift_mode=file.drift_detection,
        created_at=file.created,
        snapshot_at=file.snapshot_at,
        origin=file.origin,
    )


def _effects(rows: Sequence[ChangeRow], changes: Sequence[QuotaChange]) -> Iterator[Effect]:
    for row, change in zip(rows, changes, strict=True):
        if row.effect is not None:
            before, after = read_value(row.effect.before), read_value(row.effect.after)
            factor = change_factor(before, after)
            yield Effect(change, row.effect.direction, before, after, factor)


def _rejection(row: RefusalRow) -> tuple[Entity, Rejected]:
    rejected = Rejected(code=row.code, name=row.name, message=row.message)
    return from_parts(row.entity), rejected
