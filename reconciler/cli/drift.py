"""``kquota drift``: live values that differ from those we applied last, whatever documents say today."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from reconciler.cli.console import Console
from reconciler.cli.exits import Exit
from reconciler.cli.options import Where, format_option, where_options

if TYPE_CHECKING:
    from reconciler.cli.where import Target
    from reconciler.quota.plan import Finding
    from reconciler.reconcile import Prepared

HELP: Final = """What somebody changed behind our back: live values against those that we applied last.

No manifests are read. The records learn when drift was first seen, nothing else is written; with
--read-only not even that. `kquota apply --correct-drift` writes the declared values again.

\b
Example:
  kquota drift --cluster prod
  kquota drift --all --detailed-exitcode --format json"""


@click.command(help=HELP)
@click.option("--detailed-exitcode", is_flag=True, help="Exit 2 if there is drift.")
@click.option("--read-only", is_flag=True, help="Do not write down when drift was first seen.")
@where_options(revisions=True)
@format_option("text", "json")
@click.pass_obj
def drift(
    console: Console, *, detailed_exitcode: bool, read_only: bool, where: Where, output: str
) -> Exit:
    """Look at each cluster, then print."""
    from reconciler.cli.every import for_each
    from reconciler.cli.where import targets

    made: list[tuple[Target, Prepared]] = []

    def work(target: "Target") -> Exit:
        prepared = _looked(console, target, read_only=read_only)
        made.append((target, prepared))
        drifted = detailed_exitcode and _found(prepared)
        return Exit.CHANGES if drifted else Exit.DONE

    code = for_each(console, targets(where), work)
    if output == "json":
        _json(console, made)
    else:
        for target, prepared in made:
            _text(console, target, prepared)
    return code


def _looked(console: Console, target: "Target", *, read_only: bool) -> "Prepared":
    """Our own records as the documents: what differs from them is drift."""
    from reconciler.cli.orders import origin_of
    from reconciler.cli.running import run
    from reconciler.cli.world import Records, world
    from reconciler.quota.policy import DriftMode, Policy
    from reconciler.quota.report import Verdict
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
            return prepared

    return run(look())


def _found(prepared: "Prepared") -> "Sequence[Finding]":
    from reconciler.quota.policy import Cause

    return prepared.plan.found(Cause.DRIFT)


def _text(console: Console, target: "Target", prepared: "Prepared") -> None:
    from reconciler.render import units
    from reconciler.render.names import entity_text, escaped
    from reconciler.render.table import Cell, Style, table

    found = _found(prepared)
    owned = prepared.seen.owned
    if not owned.known:
        console.warning(f"there are no records of {target.shown}: what is ours cannot be known")
    head = f"{target.shown}: {units.count(owned.pair_count, 'pair')} of ours, "
    console.fact(head + (f"{len(found)} drifted" if found else "no drift"))
    rows: list[list[Cell | str]] = [
        [
            entity_text(one.entity),
            str(one.key),
            Cell(text=units.limit(one.key, one.applied), colours=("green",)),
            "->",
            Cell(text=units.limit(one.key, one.live) if one.live is not None else "not set", colours=("red",)),
            f"for {units.age(prepared.seen.at - one.since)}" if one.since is not None else "",
            escaped(one.owner.document) if one.owner is not None else "",
        ]
        for one in found
    ]  # fmt: skip
    for line in table(
        rows,
        heads=("ENTITY", "KEY", "APPLIED", "", "LIVE", "SEEN", "DOCUMENT") if rows else (),
        style=Style(colour=console.colour),
        indent="  ",
    ):
        console.fact(line)


def _json(console: Console, made: "Sequence[tuple[Target, Prepared]]") -> None:
    from reconciler.render.documents import Json, dump, entity_json, value_json
    from reconciler.render.units import instant

    clusters: list[Json] = [
        {
            "cluster": target.shown,
            "clusterId": prepared.plan.cluster_id,
            "recordsKnown": prepared.seen.owned.known,
            "ownedPairs": prepared.seen.owned.pair_count,
            "drift": [
                {
                    "entity": entity_json(one.entity),
                    "key": str(one.key),
                    "applied": value_json(one.applied),
                    "live": value_json(one.live),
                    "firstSeen": None if one.since is None else instant(one.since),
                    "document": one.owner.document if one.owner is not None else "",
                }
                for one in _found(prepared)
            ],
        }
        for target, prepared in made
    ]
    console.fact(dump({"kind": "kquota-drift", "format": 1, "clusters": clusters}))
