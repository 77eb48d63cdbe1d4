"""``kquota doctor``: one question after the other, from the network to the rights; each answer says what to do."""

from typing import TYPE_CHECKING, Final

import click

from reconciler.cli.commands import command
from reconciler.cli.console import Console
from reconciler.cli.exits import Exit
from reconciler.cli.options import Where, format_option, where_options

if TYPE_CHECKING:
    from reconciler.cli.checks import Checkup
    from reconciler.render.documents import Json

HELP: Final = """Diagnose connectivity, TLS, SASL, versions, permissions, quota callback, records and clock.

Nothing is changed. Every line that is not ok has a next step. Exit code 1 if something does not work, 2 if the value of an
expired override is still live.

\b
Example:
  kquota doctor --cluster prod
  kquota doctor --bootstrap-server broker1:9093 --command-config planner.properties"""


@command(help=HELP)
@where_options()
@format_option("text", "json")
@click.pass_obj
def doctor(console: Console, *, where: Where, output: str) -> Exit:
    """Run the checks of each cluster; a failed one does not stop the others where they can still say something."""
    from reconciler.cli import checks
    from reconciler.cli.running import run
    from reconciler.cli.where import targets
    from reconciler.render.documents import dump
    from reconciler.render.states import checks_document

    found = [(target, run(checks.run_all(console, target))) for target in targets(where)]
    if output == "text":
        for target, one in found:
            tell(console, target.shown, one)
    elif len(found) == 1:
        (_, only), *_ = found
        console.fact(dump(checks_document(only.checks, cluster_id=only.cluster_id)))
    else:
        clusters: list[Json] = [
            {"cluster": target.shown} | checks_document(one.checks, cluster_id=one.cluster_id)
            for target, one in found
        ]
        console.fact(dump({"kind": "kquota-checkups", "format": 1, "clusters": clusters}))
    if any(one.failed for _, one in found):
        return Exit.ERROR
    return Exit.CHANGES if any(one.has_expired_override for _, one in found) else Exit.DONE


def tell(console: Console, about: str, one: "Checkup") -> None:
    """The checks as text, under a headline."""
    from reconciler.cli.showing import style_of
    from reconciler.render.names import escaped
    from reconciler.render.states import checks_text

    style = style_of(console)
    console.fact(style.paint(escaped(about), "bold"))
    console.fact(checks_text(one.checks, style=style))
