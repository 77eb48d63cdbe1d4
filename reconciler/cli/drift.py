"""``kquota drift``: live values that differ from those we applied last, whatever documents say today."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import click

from reconciler.cli.commands import command
from reconciler.cli.console import Console
from reconciler.cli.exits import Exit
from reconciler.cli.notifying import Telling, notify_options
from reconciler.cli.options import Where, format_option, where_options
from reconciler.cli.serving import Serving, serving_options
from reconciler.cli.values import Duration
from reconciler.errors import UsageError

if TYPE_CHECKING:
    from reconciler.cli.where import Target
    from reconciler.quota.expired_overrides import ExpiredOverride
    from reconciler.quota.plan import Finding
    from reconciler.reconcile import Prepared

HELP: Final = """Show live limits that were changed outside kquota.

Live values are compared with those that kquota applied last; overrides that have ended and are still live are reported,
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
@click.option("--interval", type=Duration(), metavar="DURATION",
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
    where: Where,
    output: str,
    watch: bool,
    interval: float | None,
    confirm_after: int | None,
    correct_drift: bool,
    serving: Serving,
    telling: Telling,
) -> Exit:
    """Look at each cluster, then print; or go on looking."""
    from reconciler.cli.where import targets

    if watch:
        if detailed_exitcode:
            raise UsageError("--watch ends when it is stopped, so --detailed-exitcode says nothing")
        from reconciler.cli.drifting import watch as go_on
        from reconciler.cli.lookout import Watching
        from reconciler.quota.vigil import CONFIRM_AFTER

        watching = Watching(
            interval=interval,
            confirm_after=confirm_after or CONFIRM_AFTER,
            correct=correct_drift,
            read_only=read_only,
        )
        return go_on(console, targets(where), watching, telling, serving=serving, output=output)
    given = {
        "--interval": interval,
        "--confirm-after": confirm_after,
        "--correct-drift": correct_drift or None,
        "--metrics-address": serving.address,
    }
    for option, value in given.items():
        if value is not None:
            raise UsageError(ONLY_WATCH.format(option))
    return _once(
        console, targets(where), telling, output=output, verbose=verbose,
        detailed=detailed_exitcode, read_only=read_only,
    )  # fmt: skip


def _once(
    console: Console,
    chosen: "Sequence[Target]",
    telling: Telling,
    *,
    output: str,
    verbose: bool,
    detailed: bool,
    read_only: bool,
) -> Exit:
    from reconciler.cli.every import for_each

    made: list[tuple[Target, Prepared]] = []
    told = _told_by(console, telling, chosen[0])

    def work(target: "Target") -> Exit:
        prepared = _looked(console, target, read_only=read_only)
        made.append((target, prepared))
        if not told(target, prepared):
            return Exit.ERROR
        drifted = (
            any(not one.ignored for one in _found(prepared))
            or prepared.plan.twins
            or _expired(prepared)
        )
        return Exit.CHANGES if detailed and drifted else Exit.DONE

    code = for_each(console, chosen, work)
    if output == "json":
        _json(console, made)
    else:
        for target, prepared in made:
            _text(console, target, prepared, verbose=verbose)
    return code


def _told_by(
    console: Console, telling: Telling, first: "Target"
) -> "Callable[[Target, Prepared], bool]":
    """What tells the receivers of a look, and answers whether all of them took it."""
    if not telling.receivers:
        return lambda *_: True
    from reconciler.cli.notifying import Voice
    from reconciler.cli.running import run
    from reconciler.client.clock import SystemClock
    from reconciler.quota.vigil import Vigil

    voice = Voice(console, telling, first.root, SystemClock())

    def told(target: "Target", prepared: "Prepared") -> bool:
        from reconciler.notify import drift_of

        at = prepared.seen.at
        seen = Vigil(confirm_after=1).after(
            prepared.plan, now=at, first_seen=prepared.seen.owned.drift_since
        )
        found = drift_of(target.shown, prepared.plan.cluster_id, seen.sightings, _expired(prepared))
        return run(voice.tell(found, at))

    return told


def _looked(console: Console, target: "Target", *, read_only: bool) -> "Prepared":
    """Our own records as the documents: what differs from them is drift."""
    from reconciler.cli.orders import origin_of
    from reconciler.cli.planning import broker_text
    from reconciler.cli.running import run
    from reconciler.cli.world import Records, world
    from reconciler.quota.policy import DriftMode, Policy
    from reconciler.quota.report import Verdict
    from reconciler.quota.twins import ADDRESS
    from reconciler.reconcile import Orders, note_drift, observe, preview
    from reconciler.reconcile.drift import as_applied

    orders = Orders(
        rules=target.settings.rules(policy=Policy.OBSERVE, drift=DriftMode.WARN),
        expected_cluster_id=target.settings.expected_cluster_id,
        origin=origin_of(target),
    )

    async def look() -> "Prepared":
        async with world(
            console, target, Records(), command="drift", writes=not read_only
        ) as outside:
            seen = await observe(outside.ports, orders)
            prepared = preview(seen, as_applied(seen), orders, verdict=Verdict(source="none"))
            if not read_only:
                await note_drift(outside.ports, prepared)
            broker = broker_text(target, outside)
            for twin in prepared.plan.twins:
                console.warning(twin.shadow_message.replace(ADDRESS, broker))
            return prepared

    return run(look())


def _found(prepared: "Prepared") -> "Sequence[Finding]":
    from reconciler.quota.policy import Cause

    return prepared.plan.found(Cause.DRIFT)


def _expired(prepared: "Prepared") -> "Sequence[ExpiredOverride]":
    from reconciler.quota.expired_overrides import expired_overrides

    return expired_overrides(prepared.plan, prepared.seen.owned)


def _text(console: Console, target: "Target", prepared: "Prepared", *, verbose: bool) -> None:
    from reconciler.cli.showing import style_of
    from reconciler.render.names import escaped
    from reconciler.render.states import drift_text
    from reconciler.render.units import count

    owned = prepared.seen.owned
    if not owned.known:
        console.warning(f"there are no records of {target.shown}: what is ours cannot be known")
    console.fact(f"{escaped(target.shown)}: {count(owned.pair_count, 'pair')} of ours")
    found, expired = _found(prepared), _expired(prepared)
    console.fact(
        drift_text(found, expired, now=prepared.seen.at, style=style_of(console), verbose=verbose)
    )
    if expired:
        command = target.command("override", "end", "--expired")
        console.hint(f"`{command}` writes the expected values of expired overrides")


def _json(console: Console, made: "Sequence[tuple[Target, Prepared]]") -> None:
    """One document for one cluster; several stand under their clusters' names."""
    from reconciler.render.documents import Json, dump
    from reconciler.render.states import drift_document

    documents = [
        drift_document(
            _found(one),
            _expired(one),
            cluster_id=one.plan.cluster_id,
            now=one.seen.at,
            twins=one.plan.twins,
        )
        | {"recordsKnown": one.seen.owned.known, "ownedPairs": one.seen.owned.pair_count}
        for _, one in made
    ]
    if len(documents) == 1:
        console.fact(dump(documents[0]))
        return
    clusters: list[Json] = [
        {"cluster": target.shown, "drift": document}
        for (target, _), document in zip(made, documents, strict=True)
    ]
    console.fact(dump({"kind": "kquota-drifts", "format": 1, "clusters": clusters}))
