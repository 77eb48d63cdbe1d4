"""The plans of several clusters as one versioned JSON document: printed by ``kquota plan --all``, or saved to be posted."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from reconciler.codecs.plan import read_preview, read_simulation
from reconciler.codecs.reader import DocumentReader, load
from reconciler.quota.results.report import Preview
from reconciler.render.fleet_summary import FleetOutcome, FleetRow, fleet_summary_document
from reconciler.render.json_values import Json, dump

if TYPE_CHECKING:
    from reconciler.usage.impact.result_rows import Simulation

KIND: Final = "kquota-plans"
FORMAT: Final = 1


class FleetPlan(Struct, frozen=True, kw_only=True, gc=False):
    """One cluster of the document and its plan."""

    cluster: str
    preview: Preview
    simulation: "Simulation | None"  # effect on recorded use; None = not requested


def plans_document(
    plans: Iterable[tuple[str, dict[str, Json]]], rows: Sequence[FleetRow]
) -> dict[str, Json]:
    """Return plan documents by the names of their clusters, and the rows of all clusters, failed ones included."""
    documents: list[Json] = [{"cluster": cluster, "plan": plan} for cluster, plan in plans]
    return {
        "kind": KIND,
        "format": FORMAT,
        "plans": documents,
        "summary": fleet_summary_document(rows),
    }


def read_plans(text: str, *, location: str) -> tuple[tuple[FleetRow, ...], tuple[FleetPlan, ...]]:
    """Read the rows of all clusters, and the plans that were computed."""
    reader = load(text, kind=KIND, format_version=FORMAT, location=location)
    fields = reader.fields("kind", "format", "plans", "summary")
    return fields["summary"].rows(_read_row), fields["plans"].rows(_read_plan)


def _read_row(reader: DocumentReader) -> FleetRow:
    fields = reader.fields("cluster", "result", "changes", "drift", "refused")
    changes, drift, refused = (
        fields[name].optional(DocumentReader.integer) for name in ("changes", "drift", "refused")
    )
    return FleetRow(
        cluster=fields["cluster"].text(),
        outcome=fields["result"].word(FleetOutcome),
        changes=changes,
        drift=drift,
        refused=refused,
        seconds=0.0,
    )


def _read_plan(reader: DocumentReader) -> FleetPlan:
    fields = reader.fields("cluster", "plan")
    value, location = fields["plan"].value, fields["plan"].location
    if not isinstance(value, dict):
        fields["plan"].fail("a plan")
    text = dump(value)
    return FleetPlan(
        cluster=fields["cluster"].text(),
        preview=read_preview(text, location=location),
        simulation=read_simulation(text, location=location),
    )
