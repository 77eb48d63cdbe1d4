"""Plans, outcomes and configuration changes on standard output, in the format that was asked for."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reconciler import __version__
from reconciler.cli.context.cluster_targets import (
    ClusterTarget,
    TrustedProjectMissing,
    read_head_project,
    read_project,
)
from reconciler.cli.context.project_files import project_path
from reconciler.cli.framework.console import Console
from reconciler.cli.options.shared import ClusterOptions

if TYPE_CHECKING:
    from reconciler.quota.results.report import Outcome, Preview
    from reconciler.reconcile import PreparedPlan
    from reconciler.render.json_values import Json
    from reconciler.render.recorded_use import RecordedUse
    from reconciler.render.table import Style
    from reconciler.usage.impact.result_rows import Simulation


UNNAMED: Final = (
    "CI is set and no trusted revision is named: the project file of this checkout decides where to connect and what is"
    " allowed, even if the change to be judged wrote it"
)
UNTRUSTED: Final = (
    "the project file of the head revision says only where the manifests are, and no cluster, records or evidence that it"
    " names are read"
)


def style_of(console: Console) -> "Style":
    """How text may look here."""
    from reconciler.render.table import Style

    return Style(colour=console.colour, width=console.width)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWithEvidence:
    """One plan of a run, and what recorded use says to it; ``None`` = not asked for."""

    target: ClusterTarget
    preview: "Preview"
    simulation: "Simulation | None" = None

    @property
    def recorded(self) -> "RecordedUse | None":
        """The simulation in words."""
        return recorded_of(self.simulation, self.preview)

    @property
    def document(self) -> "dict[str, Json]":
        """The plan document."""
        from reconciler.codecs.plan import plan_document

        if self.simulation is None:
            return plan_document(self.preview)
        from reconciler.codecs.simulation import whatif_document

        return plan_document(self.preview, whatif_document(self.simulation))


def recorded_of(simulation: "Simulation | None", preview: "Preview") -> "RecordedUse | None":
    """What recorded use said when a plan was made, in words; ``None`` = not asked for."""
    if simulation is None:
        return None
    from reconciler.evidence.render.simulation_text import recorded_of as recorded_use_of

    return recorded_use_of(simulation, at=preview.created_at)


def show_plans(
    console: Console, plans: Sequence[PlanWithEvidence], output: str, *, verbose: bool = False
) -> None:
    """Every plan of a run; one document for programs, one after the other for people."""
    if output == "json":
        from reconciler.render.json_values import dump

        console.fact(dump(_plan_documents(plans)))
    elif output == "sarif":
        from reconciler.render.json_values import dump
        from reconciler.render.sarif import plan_findings, sarif_document

        findings = [
            finding
            for plan_view in plans
            for finding in plan_findings(plan_view.preview, plan_view.recorded)
        ]
        console.fact(dump(sarif_document(findings, tool_version=__version__)))
    elif output == "markdown":
        from reconciler.render.comment import MOST_ROWS
        from reconciler.render.markdown import plan_markdown

        max_rows = None if verbose else MOST_ROWS
        console.fact(
            "\n".join(
                plan_markdown(plan_view.preview, max_rows=max_rows, recorded=plan_view.recorded)
                for plan_view in plans
            )
        )
    else:
        _plans_as_text(console, plans, verbose=verbose)


def plan_page(made: Sequence[PlanWithEvidence], looked: "Sequence[PreparedPlan]") -> str:
    """Every plan of a run as one HTML page; live quotas and records are those that the plans were made from."""
    from reconciler.app.html_page import page_of
    from reconciler.render.html.facts import ClusterPage

    looks = [
        ClusterPage(
            name=shown.target.display_name,
            preview=shown.preview,
            live=one.observation.live,
            owned=one.observation.owned,
            recorded=shown.recorded,
        )
        for shown, one in zip(made, looked, strict=True)
    ]
    return page_of(looks, page="plan")


def _plan_documents(plans: Sequence[PlanWithEvidence]) -> "dict[str, Json]":
    """The plan itself where there is one; several stand under their clusters' names."""
    if len(plans) == 1:
        return plans[0].document
    documents: list[Json] = [
        {"cluster": plan_view.target.display_name, "plan": plan_view.document}
        for plan_view in plans
    ]
    return {"kind": "kquota-plans", "format": 1, "plans": documents}


def _plans_as_text(console: Console, plans: Sequence[PlanWithEvidence], *, verbose: bool) -> None:
    from reconciler.render.names import escaped
    from reconciler.render.terminal import plan_text

    style = style_of(console)
    for number, plan_view in enumerate(plans):
        if len(plans) > 1:
            console.fact(
                ("\n" if number else "")
                + style.paint(f"== {escaped(plan_view.target.display_name)}", "bold")
            )
        console.fact(
            plan_text(plan_view.preview, style=style, verbose=verbose, recorded=plan_view.recorded)
        )


def show_summary(console: Console, preview: "Preview") -> None:
    """A plan that was reviewed, without its rows."""
    from reconciler.render.terminal import plan_summary_text

    console.fact(plan_summary_text(preview, style=style_of(console)))


def document_of(outcome: "Outcome | None") -> "dict[str, Json]":
    """What became of an apply, for programs; ``None`` where there was nothing to do."""
    if outcome is None:
        return {"kind": "kquota-outcome", "format": 1, "complete": True, "pairs": []}
    from reconciler.codecs.outcome import outcome_document

    return outcome_document(outcome)


def show_outcomes(
    console: Console, outcomes: "Sequence[tuple[ClusterTarget, Outcome | None]]"
) -> None:
    """What became of several clusters, as one document for programs."""
    from reconciler.render.json_values import dump

    documents: list[Json] = [
        {"cluster": target.display_name, "outcome": document_of(outcome)}
        for target, outcome in outcomes
    ]
    console.fact(dump({"kind": "kquota-outcomes", "format": 1, "outcomes": documents}))


def show_outcome(
    console: Console, outcome: "Outcome | None", output: str, *, verbose: bool = False
) -> None:
    """What became of an apply; ``None`` where there was nothing to do."""
    if output == "json":
        from reconciler.render.json_values import dump

        console.fact(dump(document_of(outcome)))
    elif outcome is not None:
        from reconciler.render.terminal import outcome_text

        console.fact("\n" + outcome_text(outcome, style=style_of(console), verbose=verbose))


def show_trust(console: Console, cluster_options: ClusterOptions) -> tuple[str, ...]:
    """What a plan trusts, where that is not all that is planned; printed, and returned as sentences.

    Besides what :func:`show_config_changes` says, it is a warning that a run in CI trusts its whole checkout.
    """
    if (
        cluster_options.config_from is not None
        or cluster_options.by_address
        or not in_ci(os.environ)
    ):
        return show_config_changes(console, cluster_options)
    if not project_path(cluster_options).exists():
        return ()
    console.warning(UNNAMED)
    console.hint(
        "before a merge name the branch that it goes into: --config-from refs/remotes/origin/main, or its full commit id;"
        ' on that branch itself: --config-from "$(git rev-parse HEAD)"'
    )
    return (UNNAMED,)


def in_ci(environment: Mapping[str, str]) -> bool:
    """Whether this runs in a pipeline."""
    return environment.get("CI", "").lower() not in {"", "0", "false"}


def show_config_changes(console: Console, cluster_options: ClusterOptions) -> tuple[str, ...]:
    """What the head revision changes in the trusted configuration: shown, never used. Printed and returned."""
    if cluster_options.config_from is None:
        return ()
    from reconciler.errors import KquotaError
    from reconciler.manifest.project.trusted_changes import changes_between

    try:
        trusted, _, _ = read_project(cluster_options)
    except TrustedProjectMissing as error:
        console.warning(untrusted := f"{error.message}; {UNTRUSTED}")
        return (untrusted,)
    try:
        head = read_head_project(cluster_options)
    except KquotaError as error:
        unusable = f"the project file of the head revision cannot be used: {error}"
        console.warning(unusable)
        return (unusable,)
    changes = changes_between(trusted, head)
    if not changes:
        return ()
    intro = "the head revision changes the configuration"
    console.warning(f"{intro}; {cluster_options.config_from} is in force, this is not used:")
    warnings: list[str] = []
    for change in changes:
        field = f" {change.field}" if change.field else ""
        sentence = f"{change.document}{field}: {change.trusted} -> {change.head}"
        console.detail(sentence)
        warnings.append(f"{intro}, and this is not used: {sentence}")
    return tuple(warnings)
