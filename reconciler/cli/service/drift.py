"""``kquota drift``: shows live values that differ from those last applied."""

from collections.abc import Sequence
from typing import Final

import click
from msgspec import to_builtins

from reconciler.app.clusters.targets import ClusterTarget, targets
from reconciler.app.fleet import ClusterResult, rows_of
from reconciler.app.inspection.drift import ObservedDrift, observe_drift
from reconciler.app.notices import Notices
from reconciler.app.requests import MetricsRequest, TargetRequest
from reconciler.app.watch.drift import DriftWatchOptions, watch_drift
from reconciler.base.escaping import escaped
from reconciler.cli.framework.commands import ExitCode, command, flag, option
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.logs import collect_as_usual, log_records
from reconciler.cli.options.shared import DURATION, format_option, serving_options, where_options
from reconciler.cli.output import code_of_fleet, for_clusters, show_fleet_summary
from reconciler.codecs.drift import drift_document
from reconciler.errors import UsageError
from reconciler.quota.drift_tracker import CONFIRM_AFTER
from reconciler.render.fleet_summary import FleetOutcome, FleetRow
from reconciler.render.json_values import Json
from reconciler.render.terminal import drift_text
from reconciler.render.units import count

HELP: Final = """Show live limits that were changed outside kquota.

Live values are compared with the values of the last apply; overrides that have ended and are still live are reported,
too. Of the project's manifests only this is read: whether a limit is still declared and not suspended. Only the time at
which drift was first seen is recorded; --read-only records nothing.
`kquota apply --correct-drift` writes the declared values again.

--watch checks repeatedly until it is stopped, and logs what begins and ends; with --correct-drift it also restores
declared values after confirmed drift, and reverts expired overrides.

\b
Example:
  kquota drift --cluster prod
  kquota drift --all --detailed-exitcode --format json
  kquota drift --all --watch --interval 1m --metrics-address :9180"""

ONLY_WATCH: Final = "{} needs --watch"


@command(help=HELP)
@flag("--detailed-exitcode", "Exit 2 if there is drift, or an expired override is still live.")
@flag("--read-only", "Do not record when drift was first seen.")
@flag("--verbose -v", "Print long lists in full.")
@where_options(revisions=True)
@format_option("text", "json")
@flag("--watch", "Check repeatedly until stopped; log changes.")
@option(
    "--interval DURATION",
    "Time between two checks  [default: the cluster's interval, 2m].",
    DURATION,
)
@option(
    "--confirm-after N",
    "Number of consecutive observations, three seconds apart, that confirm drift  [default: 2].",
    click.IntRange(1),
)
@flag("--correct-drift", "Restore the declared values after confirmed drift, within the guards.")
@serving_options
@click.pass_obj
def drift(
    console: Console,
    *,
    detailed_exitcode: bool,
    read_only: bool,
    verbose: bool,
    where: TargetRequest,
    output: str,
    watch: bool,
    interval: float | None,
    confirm_after: int | None,
    correct_drift: bool,
    serving: MetricsRequest,
) -> ExitCode:
    """Check each cluster once and print, or check repeatedly with ``--watch``."""
    if watch:
        if detailed_exitcode:
            raise UsageError("--detailed-exitcode cannot be combined with --watch")
        if output == "json":
            raise UsageError(
                "--format json is of one observation, and cannot be combined with --watch"
            )

        watching = DriftWatchOptions(
            interval=interval,
            confirm_after=confirm_after or CONFIRM_AFTER,
            correct=correct_drift,
            read_only=read_only,
        )
        return _watch(console, targets(where), watching, serving)
    watch_flags = {
        "--interval": interval,
        "--confirm-after": confirm_after,
        "--correct-drift": correct_drift or None,
        "--metrics-address": serving.address,
    }
    for usage, value in watch_flags.items():
        if value is not None:
            raise UsageError(ONLY_WATCH.format(usage))
    return _once(
        console,
        targets(where),
        output=output,
        verbose=verbose,
        detailed=detailed_exitcode,
        read_only=read_only,
        concurrency=where.concurrency,
    )


def _watch(
    console: Console,
    cluster_targets: Sequence[ClusterTarget],
    watching: DriftWatchOptions,
    serving: MetricsRequest,
) -> ExitCode:

    collect_as_usual()
    with log_records(console):
        watch_drift(console, cluster_targets, watching, serving=serving)
    return ExitCode.DONE


def _once(
    console: Console,
    cluster_targets: Sequence[ClusterTarget],
    *,
    output: str,
    verbose: bool,
    detailed: bool,
    read_only: bool,
    concurrency: int,
) -> ExitCode:

    async def work(notices: Notices, target: ClusterTarget) -> ObservedDrift:
        return await observe_drift(notices, target, read_only=read_only)

    def row(result: ClusterResult[ObservedDrift], drift: ObservedDrift) -> FleetRow:
        return FleetRow(
            cluster=result.target.display_name,
            outcome=FleetOutcome.OK,
            drift=len(drift.findings) + len(drift.expired) if drift.is_known else None,
            seconds=result.seconds,
        )

    results = for_clusters(console, cluster_targets, work, concurrency=concurrency)
    observations = [result.value for result in results if result.value is not None]
    if output == "json":
        _json(console, observations, alone=len(results) == 1)
    else:
        for observation in observations:
            _text(console, observation, verbose=verbose)
        show_fleet_summary(console, rows_of(results, row) if len(results) > 1 else ())

    def code(observation: ObservedDrift) -> ExitCode:
        return ExitCode.CHANGES if detailed and observation.has_drift else ExitCode.DONE

    return code_of_fleet(results, code)


def _text(console: Console, observation: ObservedDrift, *, verbose: bool) -> None:

    target, observed = observation.target, observation.prepared.observation
    console.fact(
        f"{escaped(target.display_name)}: {count(observed.owned.pair_count, 'managed quota key')}"
    )
    expired = observation.expired
    console.fact(
        drift_text(
            observation.findings,
            expired,
            now=observed.at,
            is_known=observation.is_known,
            style=console.style,
            verbose=verbose,
        )
    )
    if expired:
        command = target.command("override", "end", "--expired")
        console.hint(f"`{command}` writes the expected values of expired overrides")


def _json(console: Console, observations: Sequence[ObservedDrift], *, alone: bool) -> None:

    documents = [
        drift_document(
            observation.findings,
            observation.expired,
            cluster_id=observation.prepared.plan.cluster_id,
            now=observation.prepared.observation.at,
            owned_pairs=observation.prepared.observation.owned.pair_count,
            records_known=observation.is_known,
        )
        for observation in observations
    ]
    if alone:
        console.document(documents[0])
        return
    clusters: list[Json] = [
        {"cluster": observation.target.display_name, "drift": to_builtins(document, enc_hook=float)}
        for observation, document in zip(observations, documents, strict=True)
    ]
    console.document({"kind": "kquota-drifts", "format": 1, "clusters": clusters})
