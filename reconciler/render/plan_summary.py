"""A plan in two lines, and what keeps it from being applied, for every output."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from reconciler.quota.entity import entity_text
from reconciler.quota.planner.plan import Plan
from reconciler.quota.results.report import Preview
from reconciler.render.cause_text import counts
from reconciler.render.sections import CellText
from reconciler.render.units import age, count


class ProblemGroup(NamedTuple):
    """Problems of one kind."""

    name: str
    title: str
    effect: str  # what follows from them; "" = nothing
    lines: Sequence[CellText]


def problem_groups(preview: Preview) -> tuple[ProblemGroup, ...]:
    """Return all kinds, also those without a problem; the last one are warnings, those about changed documents first."""
    conflicts = [
        CellText(
            f"{entity_text(conflict.entity)} {conflict.key} is declared by",
            tuple(f"{claim.place(conflict.key)} ({claim.document})" for claim in conflict.claims),
        )
        for conflict in preview.plan.conflicts
    ]
    refusals = sorted(
        CellText(f"{entity_text(subject)}: {rejected.name}: {rejected.message}")
        for subject, rejected in preview.verdict.rejections.items()
    )
    violations = [
        CellText(
            f"{violation.place}: " * bool(violation.place)
            + ("" if violation.entity is None else f"{entity_text(violation.entity)}: ")
            + f"{violation.message} [{violation.allow_with}]"
        )
        for violation in preview.violations
    ]
    warnings = [CellText(warning) for warning in preview.warnings]
    warnings += [
        CellText(f"{advice.place}: {advice.message}")
        for advice in sorted(
            preview.open_advice,
            key=lambda advice: advice.claim.document not in preview.touched_documents,
        )
    ]
    if accepted := len(preview.advice) - len(preview.open_advice):
        warnings.append(CellText(count(accepted, "accepted warning")))
    return (
        ProblemGroup("conflicts", "Conflicts", "nothing can be applied", conflicts),
        ProblemGroup("refused", "The broker would refuse", "", refusals),
        ProblemGroup("guards", "Refused by guards", "nothing would be applied", violations),
        ProblemGroup("warnings", "Warnings", "", warnings),
    )


def headline(preview: Preview) -> str:
    """Return the first line: the cluster, and who validated the plan."""
    source = preview.verdict.source
    counted = {"broker": "validated by the broker", "none": "not validated by a broker"}.get(
        source, f"validated by the rules of the {source}, not by the broker"
    )
    reason = f" ({preview.verdict.reason})" if preview.verdict.reason else ""
    snapshot = (
        f", computed from a snapshot that is {age(preview.created_at - preview.snapshot_at)} old"
        if preview.snapshot_at is not None
        else ""
    )
    return f"Plan for {cluster_text(preview)}, {counted}{reason}{snapshot}" + (
        f", made with {' '.join(preview.selection)}" if preview.selection else ""
    )


def cluster_text(preview: Preview) -> str:
    """Return the cluster's name in the project with its id: ``demo (cluster id lkc-1)``."""
    name, cluster_id = preview.origin.cluster, preview.plan.cluster_id
    if not cluster_id:
        return f"{name} (cluster id unknown)" if name else "no known cluster"
    return f"{name} (cluster id {cluster_id})" if name else f"cluster {cluster_id}"


_ATTENTION: Final[Mapping[str, str]] = {
    "drift": "drifted (changed outside kquota)",
    "restricted": "restricted by policy",
    "changedByAnother": "changed by another",
    "notRemoved": "not removed",
    "newOrphans": "left in Kafka by deleted documents",
}
"""Sections that keep a plan from being "nothing to do", with what the summary calls their rows."""


def record_words(plan: Plan) -> list[str]:
    """Return that records alone change, beside those of adopted limits; empty if they do not, or limits are written too."""
    updated = plan.records_to_update
    return (
        [f"{count(updated, 'record')} to bring up to date"] if updated and not plan.changes else []
    )


def summary(preview: Preview) -> str:
    """Return the second line: counts, or that there is nothing to do."""
    numbers, plan = counts(preview), preview.plan
    delayed = len(plan.delayed)
    written = [
        f"{numbers[name]:,} to {name}" for name in ("create", "update", "remove") if numbers[name]
    ]
    if written:
        written[-1] += f" on {count(numbers['entities'], 'entity', 'entities')}"
    notable = [
        *([f"{delayed:,} under temporary limits"] if delayed else ()),
        *(f"{numbers[name]:,} {words}" for name, words in _ATTENTION.items() if numbers[name]),
    ]
    if plan.conflicts:
        notable.insert(0, count(len(plan.conflicts), "conflict"))
    adopted = (
        [f"{count(len(plan.adopted), 'limit')} already live as declared"] if plan.adopted else []
    )
    notable += record_words(plan)
    if written:
        in_sync = f"{numbers['inSync']:,} in sync"
        parts = [", ".join(written), *notable, *adopted, in_sync, f"policy {preview.policy}."]
        return "; ".join(parts)
    in_sync = f"{count(numbers['inSync'], 'declared limit')} in sync."
    verdict = "No limit to write" if notable else "Nothing to do"
    return f"{verdict}: {'; '.join([*notable, *adopted, in_sync])}"
