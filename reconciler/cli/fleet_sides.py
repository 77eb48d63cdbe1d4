"""Documents, records and rules of many clusters, read for a fleet plan: what ``plan`` reads of one, without asking any broker."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from reconciler.cli.console import Console
from reconciler.cli.documents import load_loosely
from reconciler.cli.options import Where
from reconciler.cli.orders import orders_for, unlimited
from reconciler.cli.records import read_only_inventory
from reconciler.cli.spark_options import Chosen, Clusters
from reconciler.cli.where import Target, target
from reconciler.client.clock import SystemClock
from reconciler.errors import ManifestErrors, Problem, UsageError
from reconciler.quota.desired import merge
from reconciler.quota.report import Origin

if TYPE_CHECKING:
    from reconciler.quota.guards import Guards
    from reconciler.spark.sides import Intended


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What a fleet plan is made from, by cluster id."""

    intended: "dict[str, Intended]"
    guards: "dict[str, Guards]"


def fleet(console: Console, clusters: Clusters) -> Fleet:
    """Read the documents and records of all clusters.

    Two documents that claim one pair are no error here: they become rows.

    Raises:
        UsageError: A cluster was named by its id alone, so nothing says where its documents are.
        ManifestErrors: Every problem of every file of every cluster.
        InventoryError: Records cannot be read.
    """
    found = Fleet(intended={}, guards={})
    problems: list[Problem] = []
    for one in clusters.chosen():
        try:
            _read(console, one, _target(one, clusters), found)
        except ManifestErrors as error:
            problems += error.problems
    if problems:
        raise ManifestErrors(_once(problems))
    return found


def _read(console: Console, one: Chosen, chosen: Target, found: Fleet) -> None:
    from reconciler.spark.sides import Intended

    loaded = load_loosely(chosen, ())
    if loaded.problems:
        raise ManifestErrors(loaded.problems)
    for warning in loaded.warnings:
        console.warning(str(warning))
    clock = SystemClock()
    owned = asyncio.run(read_only_inventory(chosen, clock).load(one.id))
    orders = orders_for(
        chosen, unlimited("none"), complete=True, removals_known=owned.known, origin=Origin()
    )
    found.guards[one.id] = orders.guards
    found.intended[one.id] = Intended(
        desired=merge(loaded.of(chosen.name)),
        owned=owned,
        rules=orders.rules,
        day=datetime.fromtimestamp(clock.now(), UTC).date(),
    )


def _target(one: Chosen, clusters: Clusters) -> Target:
    if not one.name:
        raise UsageError(
            f"nothing says where the documents of {one.id} are",
            hint="name a cluster of a project file with --cluster, or take --all",
        )
    return target(
        Where(
            project=clusters.project, cluster=one.name, every=False, bootstrap_server=None,
            command_config=None, config_from=None, timeout=None,
        )
    )  # fmt: skip


def _once(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Files that several clusters share are read for each of them."""
    return tuple(dict.fromkeys(problems))
