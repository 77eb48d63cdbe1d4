"""Rows of the table at the end of a run over several clusters, from the results of the use cases."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from reconciler.app.fleet import ClusterResult
from reconciler.cli.output.fleet_summary import FleetOutcome, FleetRow
from reconciler.errors import PlanRefused
from reconciler.quota.results.report import Outcome, Preview

if TYPE_CHECKING:
    from reconciler.app.change.plan import ClusterPlan
    from reconciler.app.drift.observation import ObservedDrift
    from reconciler.app.inspection.cluster_checks import Checkup
    from reconciler.render.html.facts import ClusterPage

Value = TypeVar("Value")


def rows_of(
    results: Sequence[ClusterResult[Value]], row: Callable[[ClusterResult[Value], Value], FleetRow]
) -> list[FleetRow]:
    """A row for each cluster; one without a result says why there is none.

    Args:
        results: What came of each cluster.
        row: Makes the row of a cluster that has a result.
    """
    return [
        _without_value(result) if result.value is None else row(result, result.value)
        for result in results
    ]


def plan_rows(results: "Sequence[ClusterResult[ClusterPlan]]") -> list[FleetRow]:
    """The rows of ``kquota plan``."""
    return rows_of(results, lambda result, plan: preview_row(result, plan.preview))


def page_rows(results: "Sequence[ClusterResult[ClusterPage]]") -> list[FleetRow]:
    """The rows of ``kquota report``."""
    return rows_of(results, lambda result, page: preview_row(result, page.preview))


def drift_rows(results: "Sequence[ClusterResult[ObservedDrift]]") -> list[FleetRow]:
    """The rows of ``kquota drift``."""
    return rows_of(
        results,
        lambda result, drift: FleetRow(
            cluster=result.target.display_name,
            outcome=FleetOutcome.OK,
            drift=len(drift.findings) + len(drift.expired),
            seconds=result.seconds,
        ),
    )


def check_rows(results: "Sequence[ClusterResult[Checkup]]") -> list[FleetRow]:
    """The rows of ``kquota doctor``."""

    def row(result: "ClusterResult[Checkup]", checkup: "Checkup") -> FleetRow:
        broken = FleetOutcome.FAILED if checkup.cluster_id else FleetOutcome.UNREACHABLE
        return FleetRow(
            cluster=result.target.display_name,
            outcome=broken if checkup.failed else FleetOutcome.OK,
            seconds=result.seconds,
        )

    return rows_of(results, row)


def preview_row(
    result: ClusterResult[Value], preview: Preview, outcome: Outcome | None = None
) -> FleetRow:
    """The row of a plan, or of what became of it.

    Args:
        result: The cluster, and how long it took.
        preview: Its plan.
        outcome: What was applied; ``None`` = nothing was to be.
    """
    plan = preview.plan
    refused = len(preview.violations) + len(plan.conflicts) + len(preview.verdict.rejections)
    is_complete = outcome is None or outcome.complete
    return FleetRow(
        cluster=result.target.display_name,
        outcome=FleetOutcome.REFUSED
        if refused
        else FleetOutcome.OK
        if is_complete
        else FleetOutcome.FAILED,
        changes=len(plan.changes) if outcome is None else outcome.count("APPLIED"),
        drift=len(plan.drift),
        refused=refused,
        seconds=result.seconds,
    )


def outcome_of_error(result: ClusterResult[Value]) -> FleetOutcome:
    """What the error of a cluster means for its row."""
    if isinstance(result.error, PlanRefused):
        return FleetOutcome.REFUSED
    return FleetOutcome.UNREACHABLE if result.is_unreachable else FleetOutcome.FAILED


def _without_value(result: ClusterResult[Value]) -> FleetRow:
    return FleetRow(
        cluster=result.target.display_name,
        outcome=outcome_of_error(result),
        seconds=result.seconds,
    )
