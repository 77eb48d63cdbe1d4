"""``kquota doctor``: one question after the other, from the network to the rights; each answer says what to do."""

from typing import TYPE_CHECKING, Final

import click

from reconciler.cli.framework.commands import command
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.cli.options.shared import (
    ClusterOptions,
    format_option,
    where_options,
)

if TYPE_CHECKING:
    from reconciler.cli.inspection.cluster_checks import Checkup
    from reconciler.render.json_values import Json

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
def doctor(console: Console, *, where: ClusterOptions, output: str) -> ExitCode:
    """Run the checks of each cluster; a failed one does not stop the others where they can still say something."""
    from reconciler.app.event_loop import run
    from reconciler.cli.context.cluster_targets import targets
    from reconciler.cli.inspection import cluster_checks
    from reconciler.render.cluster_state import checks_document
    from reconciler.render.json_values import dump

    checkups = [(target, run(cluster_checks.run_all(console, target))) for target in targets(where)]
    if output == "text":
        for target, checkup in checkups:
            print_checks(console, target.display_name, checkup)
    elif len(checkups) == 1:
        (_, only), *_ = checkups
        console.fact(dump(checks_document(only.checks, cluster_id=only.cluster_id)))
    else:
        clusters: list[Json] = [
            {"cluster": target.display_name}
            | checks_document(checkup.checks, cluster_id=checkup.cluster_id)
            for target, checkup in checkups
        ]
        console.fact(dump({"kind": "kquota-checkups", "format": 1, "clusters": clusters}))
    if any(checkup.failed for _, checkup in checkups):
        return ExitCode.ERROR
    return (
        ExitCode.CHANGES
        if any(checkup.has_expired_override for _, checkup in checkups)
        else ExitCode.DONE
    )


def print_checks(console: Console, subject: str, checkup: "Checkup") -> None:
    """The checks as text, under a headline."""
    from reconciler.cli.output.plans import style_of
    from reconciler.render.cluster_state import checks_text
    from reconciler.render.names import escaped

    style = style_of(console)
    console.fact(style.paint(escaped(subject), "bold"))
    console.fact(checks_text(checkup.checks, style=style))
