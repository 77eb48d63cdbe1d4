"""``kquota doctor``: checks clusters from the network to permissions; each failed check has a next step."""

from typing import Final

import click
from msgspec.structs import replace

from reconciler.app.clusters.targets import ClusterTarget, targets
from reconciler.app.fleet import ClusterResult, rows_of
from reconciler.app.inspection.cluster_checks import Checkup, check_cluster
from reconciler.app.requests import TargetRequest
from reconciler.base.escaping import escaped
from reconciler.cli.framework.commands import ExitCode, command
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.runnable_hints import completed
from reconciler.cli.options.shared import format_option, where_options
from reconciler.cli.output import code_of_fleet, for_clusters, show_fleet_summary
from reconciler.render.cluster_state import checks_document, checks_text
from reconciler.render.fleet_summary import FleetOutcome, FleetRow
from reconciler.render.json_values import Json

HELP: Final = """Diagnose connectivity, TLS, SASL, versions, permissions, quota callback, state folder, records and clock.

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
def doctor(console: Console, *, where: TargetRequest, output: str) -> ExitCode:
    """Check all clusters; a failure in one does not stop the others."""
    results = for_clusters(
        console,
        targets(where),
        check_cluster,
        concurrency=where.concurrency,
        is_failed=lambda result: result.value is None or result.value.failed,
    )
    checkups = [
        (result.target, _with_runnable_advice(result.target, result.value))
        for result in results
        if result.value is not None
    ]
    if output == "text":
        for target, checkup in checkups:
            _print_checks(console, target.display_name, checkup)
        show_fleet_summary(console, rows_of(results, _row) if len(results) > 1 else ())
    elif len(results) == 1:
        (_, only), *_ = checkups
        console.document(checks_document(only.checks, cluster_id=only.cluster_id))
    else:
        clusters: list[Json] = [
            {"cluster": target.display_name}
            | checks_document(checkup.checks, cluster_id=checkup.cluster_id)
            for target, checkup in checkups
        ]
        console.document({"kind": "kquota-checkups", "format": 1, "clusters": clusters})
    return code_of_fleet(results, _code)


def _with_runnable_advice(target: ClusterTarget, checkup: Checkup) -> Checkup:
    checks = (
        replace(check, advice=completed(check.advice, target.places)) for check in checkup.checks
    )
    return replace(checkup, checks=tuple(checks))


def _row(result: ClusterResult[Checkup], checkup: Checkup) -> FleetRow:

    broken = FleetOutcome.FAILED if checkup.cluster_id else FleetOutcome.UNREACHABLE
    return FleetRow(
        cluster=result.target.display_name,
        outcome=broken if checkup.failed else FleetOutcome.OK,
        seconds=result.seconds,
    )


def _code(checkup: Checkup) -> ExitCode:
    if checkup.failed:
        return ExitCode.ERROR
    return ExitCode.CHANGES if checkup.has_expired_override else ExitCode.DONE


def _print_checks(console: Console, subject: str, checkup: Checkup) -> None:
    """Print the checks as text, under a headline."""
    style = console.style
    console.fact(style.paint(escaped(subject), "bold"))
    console.fact(checks_text(checkup.checks, style=style))
