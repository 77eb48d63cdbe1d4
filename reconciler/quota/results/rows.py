"""Flat rows for outside readers: JSON, tables and data frames. Every column is text or a number."""

from dataclasses import dataclass

from reconciler.quota.entity import Entity, level, parts
from reconciler.quota.outcome import Applied, Held, Rejected, Result
from reconciler.quota.planner.plan import Plan, QuotaChange

PartsRow = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """One change. ``entity`` is the canonical array of ``(type, name)`` with ``None`` for the default."""

    cluster_id: str
    entity: PartsRow
    level: int
    key: str
    action: str
    cause: str
    before: float | None
    after: float | None
    document: str
    path: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """What became of one change."""

    plan: PlanRow
    outcome: str
    code: int | None
    message: str


def plan_rows(plan: Plan) -> tuple[PlanRow, ...]:
    """The changes of a plan, in its order."""
    return tuple(_row(plan.cluster_id, change) for change in plan.changes)


def _row(cluster_id: str, change: QuotaChange) -> PlanRow:
    claim, owner = change.claim, change.owner
    return PlanRow(
        cluster_id=cluster_id,
        entity=parts(change.entity),
        level=level(change.entity),
        key=str(change.key),
        action=change.action,
        cause=str(change.cause),
        before=change.before,
        after=change.after,
        document=(source.document if (source := claim or owner) is not None else ""),
        path=claim.path if claim is not None else "",
        line=claim.line_of(change.key) if claim is not None else 0,
    )


def result_row(row: PlanRow, result: Result) -> ResultRow:
    """A change with its outcome."""
    outcome, code, message = _result_fields(result)
    return ResultRow(plan=row, outcome=outcome, code=code, message=message)


def _result_fields(result: Result) -> tuple[str, int | None, str]:
    match result:
        case Applied():
            return "APPLIED", None, ""
        case Rejected():
            return "REJECTED", result.code, f"{result.name}: {result.message}"
        case Held():
            return "HELD", None, "waits for " + ", ".join(map(_text, result.waits_for))
        case _:
            return "UNKNOWN", None, result.reason


def _text(subject: Entity) -> str:
    """An entity in one line; quotes keep the default apart from a name that looks like it."""
    return " + ".join(
        f"default {kind}" if name is None else f"{kind} {name!r}" for kind, name in parts(subject)
    )
