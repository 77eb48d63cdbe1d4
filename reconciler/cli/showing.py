"""Plans, outcomes and configuration changes on standard output, in the format that was asked for."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reconciler import __version__
from reconciler.cli.console import Console
from reconciler.cli.options import Where
from reconciler.cli.where import Target, read_project

if TYPE_CHECKING:
    from reconciler.quota.report import Outcome, Preview
    from reconciler.reconcile import Prepared
    from reconciler.render.documents import Json
    from reconciler.render.table import Style


def style_of(console: Console) -> "Style":
    """How text may look here."""
    from reconciler.render.table import Style

    return Style(colour=console.colour, width=console.width)


def show_plans(
    console: Console,
    made: "Sequence[tuple[Target, Preview]]",
    output: str,
    *,
    verbose: bool = False,
) -> None:
    """Every plan of a run; one document for programs, one after the other for people."""
    if output == "json":
        from reconciler.render.documents import dump

        console.fact(dump(_plan_documents(made)))
    elif output == "sarif":
        from reconciler.render.documents import dump
        from reconciler.render.sarif import plan_findings, sarif_document

        findings = [one for _, preview in made for one in plan_findings(preview)]
        console.fact(dump(sarif_document(findings, tool_version=__version__)))
    elif output == "markdown":
        from reconciler.render.markdown import plan_markdown

        console.fact("\n".join(plan_markdown(preview) for _, preview in made))
    else:
        _plans_as_text(console, made, verbose=verbose)


def show_page(
    console: Console, made: "Sequence[tuple[Target, Preview]]", looked: "Sequence[Prepared]"
) -> None:
    """Every plan of a run as one HTML page; live quotas and records are those that the plans were made from."""
    from reconciler.cli.pages import page_of
    from reconciler.render.html_facts import Look

    looks = [
        Look(name=target.shown, preview=preview, live=one.seen.live, owned=one.seen.owned)
        for (target, preview), one in zip(made, looked, strict=True)
    ]
    console.fact(page_of(looks, page="plan"))


def _plan_documents(made: "Sequence[tuple[Target, Preview]]") -> "dict[str, Json]":
    """The plan itself where there is one; several stand under their clusters' names."""
    from reconciler.render.json_plan import plan_document

    if len(made) == 1:
        return plan_document(made[0][1])
    documents: list[Json] = [
        {"cluster": target.shown, "plan": plan_document(preview)} for target, preview in made
    ]
    return {"kind": "kquota-plans", "format": 1, "plans": documents}


def _plans_as_text(
    console: Console, made: "Sequence[tuple[Target, Preview]]", *, verbose: bool
) -> None:
    from reconciler.render.names import escaped
    from reconciler.render.text import plan_text

    style = style_of(console)
    for number, (target, preview) in enumerate(made):
        if len(made) > 1:
            console.fact(
                ("\n" if number else "") + style.paint(f"== {escaped(target.shown)}", "bold")
            )
        console.fact(plan_text(preview, style=style, verbose=verbose))


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


def show_config_changes(console: Console, where: Where) -> tuple[str, ...]:
    """What the head revision changes in the trusted configuration: shown, never used. Told, and given as sentences."""
    if where.config_from is None:
        return ()
    from dataclasses import replace

    from reconciler.errors import KquotaError
    from reconciler.manifest.trusted import changes_between

    trusted, _, _ = read_project(where)
    try:
        head, _, _ = read_project(replace(where, config_from=None))
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
