"""Plans, outcomes and configuration changes on standard output, in the format that was asked for."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reconciler import __version__
from reconciler.cli.console import Console
from reconciler.cli.options import Where
from reconciler.cli.project_files import project_path
from reconciler.cli.where import NoTrustedProject, Target, read_head_project, read_project

if TYPE_CHECKING:
    from reconciler.quota.report import Outcome, Preview
    from reconciler.reconcile import Prepared
    from reconciler.render.documents import Json
    from reconciler.render.recorded import Recorded
    from reconciler.render.table import Style
    from reconciler.usage.findings import Simulation


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
class Shown:
    """One plan of a run, and what recorded use says to it; ``None`` = nobody asked."""

    target: Target
    preview: "Preview"
    simulation: "Simulation | None" = None

    @property
    def recorded(self) -> "Recorded | None":
        """The simulation in words."""
        return recorded_of(self.simulation, self.preview)

    @property
    def document(self) -> "dict[str, Json]":
        """The plan document."""
        from reconciler.render.json_plan import plan_document

        if self.simulation is None:
            return plan_document(self.preview)
        from reconciler.render.whatif_json import whatif_document

        return plan_document(self.preview, whatif_document(self.simulation))


def recorded_of(simulation: "Simulation | None", preview: "Preview") -> "Recorded | None":
    """What recorded use said when a plan was made, in words; ``None`` = nobody asked."""
    if simulation is None:
        return None
    from reconciler.render.whatif_words import recorded_of as told

    return told(simulation, at=preview.created_at)


def show_plans(
    console: Console, made: Sequence[Shown], output: str, *, verbose: bool = False
) -> None:
    """Every plan of a run; one document for programs, one after the other for people."""
    if output == "json":
        from reconciler.render.documents import dump

        console.fact(dump(_plan_documents(made)))
    elif output == "sarif":
        from reconciler.render.documents import dump
        from reconciler.render.sarif import plan_findings, sarif_document

        findings = [found for one in made for found in plan_findings(one.preview, one.recorded)]
        console.fact(dump(sarif_document(findings, tool_version=__version__)))
    elif output == "markdown":
        from reconciler.render.comment import MOST_ROWS
        from reconciler.render.markdown import plan_markdown

        most = None if verbose else MOST_ROWS
        console.fact(
            "\n".join(
                plan_markdown(shown.preview, most=most, recorded=shown.recorded) for shown in made
            )
        )
    else:
        _plans_as_text(console, made, verbose=verbose)


def plan_page(made: Sequence[Shown], looked: "Sequence[Prepared]") -> str:
    """Every plan of a run as one HTML page; live quotas and records are those that the plans were made from."""
    from reconciler.cli.pages import page_of
    from reconciler.render.html_facts import Look

    looks = [
        Look(
            name=shown.target.shown,
            preview=shown.preview,
            live=one.seen.live,
            owned=one.seen.owned,
            recorded=shown.recorded,
        )
        for shown, one in zip(made, looked, strict=True)
    ]
    return page_of(looks, page="plan")


def _plan_documents(made: Sequence[Shown]) -> "dict[str, Json]":
    """The plan itself where there is one; several stand under their clusters' names."""
    if len(made) == 1:
        return made[0].document
    documents: list[Json] = [{"cluster": one.target.shown, "plan": one.document} for one in made]
    return {"kind": "kquota-plans", "format": 1, "plans": documents}


def _plans_as_text(console: Console, made: Sequence[Shown], *, verbose: bool) -> None:
    from reconciler.render.names import escaped
    from reconciler.render.text import plan_text

    style = style_of(console)
    for number, one in enumerate(made):
        if len(made) > 1:
            console.fact(
                ("\n" if number else "") + style.paint(f"== {escaped(one.target.shown)}", "bold")
            )
        console.fact(plan_text(one.preview, style=style, verbose=verbose, recorded=one.recorded))


def show_summary(console: Console, preview: "Preview") -> None:
    """A plan that was reviewed, without its rows."""
    from reconciler.render.text import plan_summary_text

    console.fact(plan_summary_text(preview, style=style_of(console)))


def document_of(outcome: "Outcome | None") -> "dict[str, Json]":
    """What became of an apply, for programs; ``None`` where there was nothing to do."""
    if outcome is None:
        return {"kind": "kquota-outcome", "format": 1, "complete": True, "pairs": []}
    from reconciler.render.json_outcome import outcome_document

    return outcome_document(outcome)


def show_outcomes(console: Console, made: "Sequence[tuple[Target, Outcome | None]]") -> None:
    """What became of several clusters, as one document for programs."""
    from reconciler.render.documents import dump

    documents: list[Json] = [
        {"cluster": target.shown, "outcome": document_of(outcome)} for target, outcome in made
    ]
    console.fact(dump({"kind": "kquota-outcomes", "format": 1, "outcomes": documents}))


def show_outcome(
    console: Console, outcome: "Outcome | None", output: str, *, verbose: bool = False
) -> None:
    """What became of an apply; ``None`` where there was nothing to do."""
    if output == "json":
        from reconciler.render.documents import dump

        console.fact(dump(document_of(outcome)))
    elif outcome is not None:
        from reconciler.render.text import outcome_text

        console.fact("\n" + outcome_text(outcome, style=style_of(console), verbose=verbose))


def show_trust(console: Console, where: Where) -> tuple[str, ...]:
    """What a plan trusts, where that is not all that is planned; printed, and returned as sentences.

    Besides what :func:`show_config_changes` says, it is a warning that a run in CI trusts its whole checkout.
    """
    if where.config_from is not None or where.by_address or not in_ci(os.environ):
        return show_config_changes(console, where)
    if not project_path(where).exists():
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


def show_config_changes(console: Console, where: Where) -> tuple[str, ...]:
    """What the head revision changes in the trusted configuration: shown, never used. Told, and given as sentences."""
    if where.config_from is None:
        return ()
    from reconciler.errors import KquotaError
    from reconciler.manifest.trusted import changes_between

    try:
        trusted, _, _ = read_project(where)
    except NoTrustedProject as error:
        console.warning(untrusted := f"{error.message}; {UNTRUSTED}")
        return (untrusted,)
    try:
        head = read_head_project(where)
    except KquotaError as error:
        unusable = f"the project file of the head revision cannot be used: {error}"
        console.warning(unusable)
        return (unusable,)
    changes = changes_between(trusted, head)
    if not changes:
        return ()
    intro = "the head revision changes the configuration"
    console.warning(f"{intro}; {where.config_from} is in force, this is not used:")
    told: list[str] = []
    for one in changes:
        field = f" {one.field}" if one.field else ""
        sentence = f"{one.document}{field}: {one.trusted} -> {one.head}"
        console.detail(sentence)
        told.append(f"{intro}, and this is not used: {sentence}")
    return tuple(told)
