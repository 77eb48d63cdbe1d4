"""``kquota drift``: live values that differ from those we applied last, whatever documents say today."""

from collections.abc import Callable, Sequence
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
from reconciler.cli.options.value_types import DurationParameter
from reconciler.cli.service.metrics_endpoint import MetricsOptions, serving_options
from reconciler.cli.service.notifications import NotificationOptions, notify_options
from reconciler.errors import UsageError

if TYPE_CHECKING:
    from reconciler.cli.context.cluster_targets import ClusterTarget
    from reconciler.quota.planner.comparison import Finding
    from reconciler.quota.results.expired_overrides import ExpiredOverride
    from reconciler.reconcile import PreparedPlan

HELP: Final = """Show live limits that were changed outside kquota.

Live values are compared with the values of the last apply; overrides that have ended and are still live are reported,
too. No manifests are read. Only the time at which drift was first seen is recorded; --read-only records nothing.
`kquota apply --correct-drift` writes the declared values again.

--notify sends new drift and the end of drift to receivers. --watch checks repeatedly until it is stopped; with
--correct-drift it also restores applied values after confirmed drift, and reverts expired overrides.

\b
Example:
  kquota drift --cluster prod
  kquota drift --all --detailed-exitcode --format json
  kquota drift --all --notify slack=env:SLACK_WEBHOOK_URL
  kquota drift --all --watch --interval 1m --metrics-address :9180 --notify webhook=file:/run/secrets/hook"""

ONLY_WATCH: Final = "{} is about --watch: a single look does not remember others"


@command(help=HELP)
@click.option(
    "--detailed-exitcode",
    is_flag=True,
    help="Exit 2 if there is drift, or an expired override is still live.",
)
@click.option("--read-only", is_flag=True, help="Do not record when drift was first seen.")
@click.option("--verbose", "-v", is_flag=True, help="Print long lists in full.")
@where_options(revisions=True)
@format_option("text", "json")
@click.option("--watch", is_flag=True, help="Check repeatedly until stopped; print changes.")
@click.option("--interval", type=DurationParameter(), metavar="DURATION",
              help="Time between two checks  [default: the cluster's interval, 2m].")  # fmt: skip
@click.option("--confirm-after", type=click.IntRange(1), metavar="N",
              help="Number of consecutive observations, three seconds apart, that confirm drift  [default: 2].")  # fmt: skip
@click.option(
    "--correct-drift",
    is_flag=True,
    help="Restore the applied values after confirmed drift, within the guards.",
)
@serving_options
@notify_options
@click.pass_obj
def drift(
    console: Console,
    *,
    detailed_exitcode: bool,
    read_only: bool,
    verbose: bool,
    where: ClusterOptions,
    output: str,
    watch: bool,
    interval: float | None,
    confirm_after: int | None,
    correct_drift: bool,
    serving: MetricsOptions,
    telling: NotificationOptions,
) -> ExitCode:
    """Look at each cluster, then print; or go on looking."""
    from reconciler.cli.context.cluster_targets import targets

    if watch:
        if detailed_exitcode:
            raise UsageError("--watch ends when it is stopped, so --detailed-exitcode says nothing")
        from reconciler.cli.service.drift_service import watch as watch_drift
        from reconciler.cli.service.drift_watcher import DriftWatchOptions
        from reconciler.quota.drift_tracker import CONFIRM_AFTER

        watching = DriftWatchOptions(
            interval=interval,
            confirm_after=confirm_after or CONFIRM_AFTER,
            correct=correct_drift,
            read_only=read_only,
        )
        return watch_drift(
            console, targets(where), watching, telling, serving=serving, output=output
        )
    watch_flags = {
        "--interval": interval,
        "--confirm-after": confirm_after,
        "--correct-drift": correct_drift or None,
        "--metrics-address": serving.address,
    }
    for option, value in watch_flags.items():
        if value is not None:
            raise UsageError(ONLY_WATCH.format(option))
    return _once(
        console, targets(where), telling, output=output, verbose=verbose,
        detailed=detailed_exitcode, read_only=read_only,
    )  # fmt: skip


def _once(
    console: Console,
    cluster_targets: "Sequence[ClusterTarget]",
    telling: NotificationOptions,
    *,
    output: str,
    verbose: bool,
    detailed: bool,
    read_only: bool,
) -> ExitCode:
    from reconciler.cli.context.cluster_iteration import for_each

    plans: list[tuple[ClusterTarget, PreparedPlan]] = []
    notify = _notify_function(console, telling, cluster_targets[0])

    def work(target: "ClusterTarget") -> ExitCode:
        prepared = _looked(console, target, read_only=read_only)
        plans.append((target, prepared))
        if not notify(target, prepared):
            return ExitCode.ERROR
        drifted = (
            any(not finding.ignored for finding in _drift_findings(prepared))
            or prepared.plan.ip_aliases
            or _expired(prepared)
        )
        return ExitCode.CHANGES if detailed and drifted else ExitCode.DONE

    code = for_each(console, cluster_targets, work)
    if output == "json":
        _json(console, plans)
    else:
        for target, prepared in plans:
            _text(console, target, prepared, verbose=verbose)
    return code


def _notify_function(
    console: Console, telling: NotificationOptions, first: "ClusterTarget"
) -> "Callable[[ClusterTarget, PreparedPlan], bool]":
    """What notifies the receivers of a look, and returns whether all of them took it."""
    if not telling.receivers:
        return lambda *_: True
    from reconciler.app.event_loop import run
    from reconciler.base.clock import SystemClock
    from reconciler.cli.service.notifications import DriftNotifications
    from reconciler.quota.drift_tracker import DriftTracker

    voice = DriftNotifications(console, telling, first.root, SystemClock())

    def told(target: "ClusterTarget", prepared: "PreparedPlan") -> bool:
        from reconciler.notify import drift_of

        at = prepared.observation.at
        tracker = DriftTracker(confirm_after=1).after(
            prepared.plan, now=at, first_seen=prepared.observation.owned.drift_since
        )
        drift = drift_of(
            target.display_name, prepared.plan.cluster_id, tracker.observations, _expired(prepared)
        )
        return run(voice.notify(drift, at))

    return told


def _looked(console: Console, target: "ClusterTarget", *, read_only: bool) -> "PreparedPlan":
    """Our own records as the documents: what differs from them is drift."""
    from reconciler.app.event_loop import run
    from reconciler.cli.context.plan_preparation import broker_text
    from reconciler.cli.context.reconcile_options import origin_of
    from reconciler.cli.context.runtime import RecordOptions, world
    from reconciler.quota.ip_aliases import ADDRESS
    from reconciler.quota.policy import DriftMode, Policy
    from reconciler.quota.results.report import ValidationResult
    from reconciler.reconcile import ReconcileOptions, note_drift, observe, preview
    from reconciler.reconcile.drift import as_applied

    orders = ReconcileOptions(
        rules=target.settings.rules(policy=Policy.OBSERVE, drift=DriftMode.WARN),
        expected_cluster_id=target.settings.expected_cluster_id,
        origin=origin_of(target),
    )

    async def look() -> "PreparedPlan":
        async with world(
            console, target, RecordOptions(), command="drift", writes=not read_only
        ) as runtime:
            observation = await observe(runtime.ports, orders)
            prepared = preview(
                observation,
                as_applied(observation),
                orders,
                verdict=ValidationResult(source="none"),
            )
            if not read_only:
                await note_drift(runtime.ports, prepared)
            broker = broker_text(target, runtime)
            for twin in prepared.plan.ip_aliases:
                console.warning(twin.shadow_message.replace(ADDRESS, broker))
            return prepared

    return run(look())


def _drift_findings(prepared: "PreparedPlan") -> "Sequence[Finding]":
    from reconciler.quota.policy import Cause

    return prepared.plan.findings_for(Cause.DRIFT)


def _expired(prepared: "PreparedPlan") -> "Sequence[ExpiredOverride]":
    from reconciler.quota.results.expired_overrides import expired_overrides

    return expired_overrides(prepared.plan, prepared.observation.owned)


def _text(
    console: Console, target: "ClusterTarget", prepared: "PreparedPlan", *, verbose: bool
) -> None:
    from reconciler.cli.output.plans import style_of
    from reconciler.render.cluster_state import drift_text
    from reconciler.render.names import escaped
    from reconciler.render.units import count

    owned = prepared.observation.owned
    if not owned.is_known:
        console.warning(
            f"there are no records of {target.display_name}: what is ours cannot be known"
        )
    console.fact(f"{escaped(target.display_name)}: {count(owned.pair_count, 'pair')} of ours")
    findings, expired = _drift_findings(prepared), _expired(prepared)
    console.fact(
        drift_text(
            findings, expired, now=prepared.observation.at, style=style_of(console), verbose=verbose
        )
    )
    if expired:
        command = target.command("override", "end", "--expired")
        console.hint(f"`{command}` writes the expected values of expired overrides")


def _json(console: Console, plans: "Sequence[tuple[ClusterTarget, PreparedPlan]]") -> None:
    """One document for one cluster; several stand under their clusters' names."""
    from reconciler.codecs.drift import drift_document
    from reconciler.render.json_values import Json, dump

    documents = [
        drift_document(
            _drift_findings(prepared),
            _expired(prepared),
            cluster_id=prepared.plan.cluster_id,
            now=prepared.observation.at,
            aliases=prepared.plan.ip_aliases,
        )
        | {
            "recordsKnown": prepared.observation.owned.is_known,
            "ownedPairs": prepared.observation.owned.pair_count,
        }
        for _, prepared in plans
    ]
    if len(documents) == 1:
        console.fact(dump(documents[0]))
        return
    clusters: list[Json] = [
        {"cluster": target.display_name, "drift": document}
        for (target, _), document in zip(plans, documents, strict=True)
    ]
    console.fact(dump({"kind": "kquota-drifts", "format": 1, "clusters": clusters}))
