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
@click.option("--verbose", "-v", is_flag=True, help="Print long lists whole.")
@where_options(revisions=True)
@format_option("text", "json")
@click.pass_obj
def drift(
    console: Console,
    *,
    detailed_exitcode: bool,
    read_only: bool,
    verbose: bool,
    where: Where,
    output: str,
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
            _text(console, target, prepared, verbose=verbose)
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


def _text(console: Console, target: "Target", prepared: "Prepared", *, verbose: bool) -> None:
    from reconciler.cli.showing import style_of
    from reconciler.render.names import escaped
    from reconciler.render.states import drift_text
    from reconciler.render.units import count

    owned = prepared.seen.owned
    if not owned.known:
        console.warning(f"there are no records of {target.shown}: what is ours cannot be known")
    console.fact(f"{escaped(target.shown)}: {count(owned.pair_count, 'pair')} of ours")
    found = _found(prepared)
    console.fact(drift_text(found, now=prepared.seen.at, style=style_of(console), verbose=verbose))


def _json(console: Console, made: "Sequence[tuple[Target, Prepared]]") -> None:
    """One document for one cluster; several stand under their clusters' names."""
    from reconciler.render.documents import Json, dump
    from reconciler.render.states import drift_document

    documents = [
        drift_document(_found(one), cluster_id=one.plan.cluster_id, now=one.seen.at)
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
