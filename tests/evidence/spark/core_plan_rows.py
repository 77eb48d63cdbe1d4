"""The changes of a plan of the core as flat rows, which the rows of a plan on Spark must equal."""

from dataclasses import dataclass

from reconciler.quota.entity import level, parts
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
