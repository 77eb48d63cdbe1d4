"""One comment for a pull request about many clusters: a table of all of them, then the plans with changes."""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from reconciler.base.escaping import prose
from reconciler.quota.results.report import Preview
from reconciler.render.fleet_summary import FleetOutcome, FleetRow, fleet_summary_markdown
from reconciler.render.markdown.comment import CommentContext, Icon, footer
from reconciler.render.markdown.plan import plan_markdown
from reconciler.render.recorded_use import RecordedUse
from reconciler.render.units import count

_LEAST_ROOM: Final = 1_500
"""Minimum characters for a plan; with less room it is omitted."""


class PostedPlan(Struct, frozen=True, kw_only=True, gc=False):
    """The plan of one cluster."""

    cluster: str
    preview: Preview
    recorded: RecordedUse | None  # the effect by recorded use; None = not requested


class PostedFleet(Struct, frozen=True, kw_only=True, gc=False):
    """The plans of one run over several clusters."""

    rows: tuple[FleetRow, ...]  # all clusters, those without a plan included
    plans: tuple[PostedPlan, ...]

    @property
    def outputs(self) -> dict[str, str]:
        """Return outputs for the next step of a pipeline."""
        changed = [plan for plan in self.plans if plan.preview.plan.changes]
        failed = [row for row in self.rows if row.outcome is not FleetOutcome.OK]
        return {
            "clusters": str(len(self.rows)),
            "changed-clusters": str(len(changed)),
            "has-changes": str(bool(changed)).lower(),
            "errored": str(bool(failed)).lower(),
        }


def fleet_markdown(
    fleet: PostedFleet, *, limit: int, max_rows: int, context: CommentContext
) -> str:
    """Return the comment, of at most ``limit`` characters unless the table alone is longer.

    Args:
        max_rows: Maximum number of rows of the table of one plan.
    """
    outcomes = {row.outcome for row in fleet.rows}
    icon, words = Icon.READY, "Ready"
    if FleetOutcome.REFUSED in outcomes:
        icon, words = Icon.REFUSED, "Refused"
    elif outcomes - {FleetOutcome.OK}:
        icon, words = Icon.ATTENTION, "Needs attention"
    title = context.title or f"Kafka quotas of {count(len(fleet.rows), 'cluster')}"
    head = [context.marker] if context.marker else []
    head += [
        f"### {icon.value} {prose(f'{words}: {title}')}",
        "",
        fleet_summary_markdown(fleet.rows),
    ]
    footer_lines = footer(context)
    room = limit - sum(len(line) + 1 for line in [*head, *footer_lines]) - 200
    listed_plans = [plan for plan in fleet.plans if not plan.preview.is_quiet]
    parts = list(_details(listed_plans, room, max_rows))
    missing = len(listed_plans) - len(parts)
    if missing:
        parts.append(f"\n… and {count(missing, 'more plan')}. The JSON document has all of them.")
    return "\n".join([*head, *parts, *footer_lines]).rstrip("\n") + "\n"


def _details(plans: Sequence[PostedPlan], room: int, max_rows: int) -> Iterable[str]:
    """Yield the plans that fit, each folded under the name of its cluster."""
    for plan in plans:
        frame = ["", "<details>", f"<summary>{prose(plan.cluster)}</summary>", "", "</details>"]
        left_room = room - sum(len(line) + 1 for line in frame)
        if left_room < _LEAST_ROOM:
            return
        text = plan_markdown(
            plan.preview, limit=left_room, max_rows=max_rows, recorded=plan.recorded
        )
        if len(text) > left_room:
            return
        part = "\n".join([*frame[:-1], text, frame[-1]])
        room -= len(part) + 1
        yield part
