"""The plans of several clusters as one versioned JSON document: printed by ``kquota plan --all``, or saved to be posted."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from reconciler.codecs.plan import checked_preview, refuse_printed, simulation_of
from reconciler.codecs.plan_file import PlanFile
from reconciler.codecs.plan_rows import PlanPart
from reconciler.codecs.reader import typed
from reconciler.errors import ConfigError
from reconciler.quota.results.report import Preview
from reconciler.render.fleet_summary import FleetRow
from reconciler.render.json_values import Json

if TYPE_CHECKING:
    from reconciler.usage.impact.result_rows import Simulation

KIND: Final = "kquota-plans"
FORMAT: Final = 1


class FleetPlan(Struct, frozen=True, kw_only=True, gc=False):
    """One cluster of the document and its plan."""

    cluster: str
    preview: Preview
    simulation: "Simulation | None"  # effect on recorded use; None = not requested


class ClusterPlanRow(PlanPart, frozen=True, kw_only=True):
    """A plan with the name of its cluster."""

    cluster: str
    plan: PlanFile


class PlansFile(PlanPart, frozen=True, kw_only=True, tag_field="kind", tag=KIND):
    """The document of the saved plans of several clusters."""

    format: Literal[1]
    plans: list[ClusterPlanRow]
    summary: list[FleetRow]


def plans_document(
    plans: Iterable[tuple[str, dict[str, Json]]], rows: Sequence[FleetRow]
) -> dict[str, Json]:
    """Return printed plans by the names of their clusters, and the rows of all clusters, failed ones included."""
    return {
        "kind": KIND,
        "format": FORMAT,
        "plans": [{"cluster": cluster, "plan": plan} for cluster, plan in plans],
        "summary": to_builtins(_summary(rows)),
    }


def saved_plans(plans: Iterable[tuple[str, PlanFile]], rows: Sequence[FleetRow]) -> PlansFile:
    """Return saved plans by the names of their clusters, and the rows of all clusters, failed ones included."""
    return PlansFile(
        format=FORMAT,
        plans=[ClusterPlanRow(cluster=cluster, plan=plan) for cluster, plan in plans],
        summary=_summary(rows),
    )


def _summary(rows: Sequence[FleetRow]) -> list[FleetRow]:
    """Return the rows without durations: equal runs give equal documents."""
    return [replace(row, seconds=0.0) for row in rows]


def read_plans(text: str, *, location: str) -> tuple[tuple[FleetRow, ...], tuple[FleetPlan, ...]]:
    """Read the rows of all clusters, and the plans that were computed.

    Raises:
        ConfigError: It is truncated, edited, or not such a document.
    """
    try:
        file = typed(text, PlansFile, format_version=FORMAT, location=location)
    except ConfigError:
        refuse_printed(text, location)
        raise
    plans = tuple(
        FleetPlan(
            cluster=row.cluster,
            preview=checked_preview(row.plan, location=location),
            simulation=simulation_of(row.plan, location=location),
        )
        for row in file.plans
    )
    return tuple(file.summary), plans
