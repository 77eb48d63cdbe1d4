"""``kquota drift``: shows live values that differ from those last applied."""

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from reconciler.app.requests import (
    NOTIFICATION_SHAPES,
    MetricsRequest,
    NotificationRequest,
    TargetRequest,
)
from reconciler.cli.framework.commands import command, flag, option
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.cli.options.shared import (
    FILE,
    OptionPack,
    format_option,
    serving_options,
    where_options,
)
from reconciler.cli.options.value_types import DURATION
from reconciler.errors import UsageError

if TYPE_CHECKING:
    from reconciler.app.clusters.targets import ClusterTarget
    from reconciler.app.drift.service import ObservedDrift
    from reconciler.app.drift.watcher import DriftWatchOptions
    from reconciler.app.notices import Notices
    from reconciler.notify.message import Message

HELP: Final = """Show live limits that were changed outside kquota.

Live values are compared with the values of the last apply; overrides that have ended and are still live are reported,
too. Of the project's manifests only this is read: whether a limit is still declared and not suspended. Only the time at
which drift was first seen is recorded; --read-only records nothing.
`kquota apply --correct-drift` writes the declared values again.

--notify sends new drift and the end of drift to receivers. --watch checks repeatedly until it is stopped; with
--correct-drift it also restores declared values after confirmed drift, and reverts expired overrides.

\b
Example:
  kquota drift --cluster prod
  kquota drift --all --detailed-exitcode --format json
  kquota drift --all --notify slack=env:SLACK_WEBHOOK_URL
  kquota drift --all --watch --interval 1m --metrics-address :9180 --notify webhook=file:/run/secrets/hook"""

_DAY: Final = 86_400.0

ONLY_WATCH: Final = "{} needs --watch"


notify_options: Final = OptionPack(
    "notification_request",
    NotificationRequest,
    (
        option(
            "--notify SHAPE=env:NAME|file:PATH",
            f"Send notifications to the URL in this variable or file; shapes: {', '.join(NOTIFICATION_SHAPES)}.",
            name="receivers",
            multiple=True,
        ),
        option(
            "--remind-after DURATION",
            "Time after which unchanged drift is notified again.",
            DURATION,
            default=_DAY,
            show_default="1d",
        ),
        option(
            "--notify-state FILE",
            "File with the notifications that were sent  [default: .kquota/notified.json beside the project file].",
            FILE,
            name="state",
        ),
    ),
)
"""The options of :class:`NotificationRequest`, passed as ``notification_request``."""


@command(help=HELP)
@flag("--detailed-exitcode", "Exit 2 if there is drift, or an expired override is still live.")
@flag("--read-only", "Do not record when drift was first seen.")
@flag("--verbose -v", "Print long lists in full.")
@where_options(revisions=True)
@format_option("text", "json")
@flag("--watch", "Check repeatedly until stopped; print changes.")
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
@notify_options
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
    notification_request: NotificationRequest,
) -> ExitCode:
    """Check each cluster once and print, or check repeatedly with ``--watch``."""
    from reconciler.app.clusters.targets import targets

    if watch:
        if detailed_exitcode:
            raise UsageError("--detailed-exitcode cannot be combined with --watch")
        from reconciler.app.drift.watcher import DriftWatchOptions
        from reconciler.quota.drift_tracker import CONFIRM_AFTER

        watching = DriftWatchOptions(
            interval=interval,
            confirm_after=confirm_after or CONFIRM_AFTER,
            correct=correct_drift,
            read_only=read_only,
        )
        return _watch(
            console, targets(where), watching, notification_request, serving=serving, output=output
        )
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
        notification_request,
        output=output,
        verbose=verbose,
        detailed=detailed_exitcode,
        read_only=read_only,
        concurrency=where.concurrency,
    )


def _watch(
    console: Console,
    cluster_targets: "Sequence[ClusterTarget]",
    watching: "DriftWatchOptions",
    notification_request: NotificationRequest,
    *,
    serving: MetricsRequest,
    output: str,
) -> ExitCode:
    from reconciler.app.drift.service import watch_drift
    from reconciler.app.event_loop import run
    from reconciler.cli.framework.logs import collect_as_usual, print_loop_warnings
    from reconciler.errors import TaskDied

    collect_as_usual()
    receiver = ConsoleReceiver(console, output)
    with print_loop_warnings(console), contextlib.suppress(KeyboardInterrupt):
        try:
            run(
                watch_drift(
                    console,
                    cluster_targets,
                    watching,
                    notification_request,
                    serving=serving,
                    receiver=receiver,
                )
            )
        except TaskDied as died:
            if isinstance(died.reason, BrokenPipeError):
                raise died.reason from None  # Standard output is closed: no message is needed.
            raise
    console.note("stopped")
    return ExitCode.DONE


class ConsoleReceiver:
    """A receiver of notifications that prints them on standard output.

    Args:
        output: ``text``: a headline and a line per quota key; ``json``: one message per line.
    """

    name = "standard output"

    def __init__(self, console: Console, output: str) -> None:
        self._console, self._output = console, output

    async def take(self, message: "Message") -> None:
        """Print a message and flush: standard output may be a pipe."""
        import json

        from reconciler.notify.message import document
        from reconciler.notify.message_text import headline, lines
        from reconciler.render.units import instant

        if self._output == "json":
            self._console.fact(json.dumps(document(message), sort_keys=True))
        else:
            message_lines = [f"{instant(message.at)} {headline(message)}"]
            self._console.fact(
                "\n".join([*message_lines, *(f"  {line}" for line in lines(message))])
            )
        self._console.flush()


def _once(
    console: Console,
    cluster_targets: "Sequence[ClusterTarget]",
    notification_request: NotificationRequest,
    *,
    output: str,
    verbose: bool,
    detailed: bool,
    read_only: bool,
    concurrency: int,
) -> ExitCode:
    from reconciler.app.drift.notifications import DriftNotifications
    from reconciler.app.drift.service import ObservedDrift, observe_drift
    from reconciler.app.fleet import ClusterResult, rows_of
    from reconciler.base.clock import SystemClock
    from reconciler.cli.output.fleet import code_of_fleet, for_clusters
    from reconciler.cli.output.plans import show_fleet_summary
    from reconciler.render.fleet_summary import FleetOutcome, FleetRow

    notifications = DriftNotifications(
        console, notification_request, cluster_targets[0].root, SystemClock()
    )
    not_delivered: set[str] = set()

    async def work(notices: "Notices", target: "ClusterTarget") -> ObservedDrift:
        observation = await observe_drift(notices, target, read_only=read_only)
        drift, at = observation.cluster_drift, observation.prepared.observation.at
        if drift is not None and not await notifications.notify(drift, at):
            not_delivered.add(target.name)
        return observation

    def row(result: ClusterResult[ObservedDrift], drift: ObservedDrift) -> FleetRow:
        return FleetRow(
            cluster=result.target.display_name,
            outcome=FleetOutcome.OK,
            drift=len(drift.findings) + len(drift.expired),
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
        if observation.target.name in not_delivered:
            return ExitCode.ERROR
        return ExitCode.CHANGES if detailed and observation.has_drift else ExitCode.DONE

    return code_of_fleet(results, code)


def _text(console: Console, observation: "ObservedDrift", *, verbose: bool) -> None:
    from reconciler.base.escaping import escaped
    from reconciler.render.terminal import drift_text
    from reconciler.render.units import count

    target, observed = observation.target, observation.prepared.observation
    console.fact(
        f"{escaped(target.display_name)}: {count(observed.owned.pair_count, 'managed quota key')}"
    )
    expired = observation.expired
    console.fact(
        drift_text(
            observation.findings, expired, now=observed.at, style=console.style, verbose=verbose
        )
    )
    if expired:
        command = target.command("override", "end", "--expired")
        console.hint(f"`{command}` writes the expected values of expired overrides")


def _json(console: Console, observations: "Sequence[ObservedDrift]", *, alone: bool) -> None:
    from msgspec import to_builtins

    from reconciler.codecs.drift import drift_document
    from reconciler.render.json_values import Json

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
