"""Plans, outcomes and configuration changes on standard output, in the format that was asked for."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reconciler import __version__
from reconciler.cli.console import Console
from reconciler.cli.options import Where
from reconciler.cli.where import Target, read_project

if TYPE_CHECKING:
    from reconciler.quota.report import Outcome, Preview
    from reconciler.render.documents import Json
    from reconciler.render.table import Style


def style_of(console: Console) -> "Style":
    """How text may look here."""
    from reconciler.render.table import Style

    return Style(colour=console.colour, width=console.width)


def show_plans(console: Console, made: "Sequence[tuple[Target, Preview]]", output: str) -> None:
    """Every plan of a run; one document for programs, one after the other for people."""
    if output == "json":
        from reconciler.render.documents import dump
        from reconciler.render.json_plan import plan_document

        documents: list[Json] = [plan_document(preview) for _, preview in made]
        if len(documents) == 1:
            console.fact(dump(plan_document(made[0][1])))
        else:
            console.fact(dump({"kind": "kquota-plans", "format": 1, "plans": documents}))
    elif output == "sarif":
        from reconciler.render.documents import dump
        from reconciler.render.sarif import sarif_document
        from reconciler.render.sarif_plan import findings_of_plan

        findings = [one for _, preview in made for one in findings_of_plan(preview)]
        console.fact(dump(sarif_document(findings, tool_version=__version__)))
    elif output == "markdown":
        from reconciler.render.markdown import plan_markdown

        for target, preview in made:
            console.fact(plan_markdown(preview, cluster=target.shown))
    else:
        from reconciler.render.text import plan_lines

        for target, preview in made:
            console.fact(
                "\n".join(plan_lines(preview, cluster=target.shown, style=style_of(console)))
            )


def show_outcome(console: Console, target: Target, outcome: "Outcome", output: str) -> None:
    """What became of an apply."""
    if output == "json":
        from reconciler.render.json_outcome import outcome_text

        console.fact(outcome_text(outcome))
    else:
        from reconciler.render.text import outcome_lines

        console.fact(
            "\n".join(outcome_lines(outcome, cluster=target.shown, style=style_of(console)))
        )


def show_config_changes(console: Console, where: Where) -> None:
    """What the head revision changes in the trusted configuration: shown, never used."""
    if where.config_from is None:
        return
    from dataclasses import replace

    from reconciler.errors import KquotaError
    from reconciler.manifest.trusted import changes_between
    from reconciler.render.names import escaped

    trusted, _, _ = read_project(where)
    try:
        head, _, _ = read_project(replace(where, config_from=None))
    except KquotaError as error:
        console.warning(f"the project file of the head revision cannot be used: {error}")
        return
    changes = changes_between(trusted, head)
    if not changes:
        return
    console.warning(
        f"the head revision changes the configuration; {where.config_from} is in force, this is not used:"
    )
    for one in changes:
        field = f" {one.field}" if one.field else ""
        console.note(
            f"  - {escaped(one.document)}{escaped(field)}: {escaped(one.trusted)} -> {escaped(one.head)}"
        )
