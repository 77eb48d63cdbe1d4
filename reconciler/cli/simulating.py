"""What ``kquota spark simulate`` does: limits to come from manifests, plans or snapshots, and an engine to replay use under them."""

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reconciler.cli.console import Console
from reconciler.cli.exits import Exit
from reconciler.cli.extras import needs
from reconciler.cli.options import Where
from reconciler.cli.orders import Limits
from reconciler.cli.planning import Sources, task_for
from reconciler.cli.spark_options import Clusters, Window
from reconciler.cli.spark_running import Running
from reconciler.cli.where import offline_targets
from reconciler.client.clock import SystemClock
from reconciler.errors import QuotaValueError, UsageError

if TYPE_CHECKING:
    from reconciler.cli.planning import Task
    from reconciler.lake.lake import Lake
    from reconciler.quota.desired import Declaration
    from reconciler.spark.candidates import Candidate, Work
    from reconciler.usage.findings import Simulation
    from reconciler.usage.tiers import WhatIfPolicy

SWITCH_ROWS: Final = 4_000_000
"""Up to so many samples ``--engine auto`` leaves to the core.

By whole commands on a lake of a million (``python -m tests.bench.spark_simulate switch``), the core took an eighth of
what Spark took, JVM start and files included, so it is ahead beyond four million, too; but it holds them in memory, about
250 bytes each.
"""

NO_LIMITS: Final = Limits(
    policy=None, confirm_sync=None, validate="none", only=(), correct_drift=True, force=False,
    max_removals=None, max_removed_percent=None, max_change_factor=None, max_exception_factor=None,
    allow_newly_unlimited=False, allow_small_values=False, allow_defaults=False, allow_empty=False,
)  # fmt: skip
"""A simulation writes nothing: guards are for ``plan`` and ``apply`` to tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What was typed.

    Attributes:
        lake: Its address.
        clusters: Which clusters of the project; with files, whose these have to be.
        paths: Manifests, instead of those that the project configures.
        plans: Saved plans.
        after: Snapshots of limits to come.
        window: Of evidence.
        engine: ``auto``, ``core`` or ``spark``.
        running: Where Spark runs.
        most: So many rows are shown; tenants whole, at least one.
    """

    lake: str
    clusters: Clusters
    paths: tuple[str, ...]
    plans: tuple[Path, ...]
    after: tuple[Path, ...]
    window: Window
    engine: str
    running: Running
    most: int

    def __post_init__(self) -> None:
        if self.paths and (self.plans or self.after):
            raise UsageError(
                "manifests, --plan and --after are three ways to say one thing; choose"
            )
        if not (self.plans or self.after) and self.clusters.ids:
            raise UsageError(
                "--cluster-id names no manifests",
                hint="give --plan or --after, or choose with --cluster",
            )


def opened(address: str) -> "Lake":
    """The lake.

    Raises:
        LakeError: There is none.
    """
    from reconciler.lake.lake import Lake
    from reconciler.lake.store import opened as store_opened

    return Lake(store_opened(address), clock=SystemClock(), run_id=uuid.uuid4().hex)


def simulated(console: Console, given: Given) -> "Simulation":
    """Simulate on the engine that fits.

    Raises:
        KquotaError: A file, the lake, or the session.
    """
    needs("usage", "kquota spark simulate")
    from reconciler.lake import replay
    from reconciler.spark import candidates

    lake = opened(given.lake)
    clock = SystemClock()
    begin, end = given.window.span(clock)
    declared: Mapping[str, Sequence[Declaration]] = {}
    if given.plans or given.after:
        found: tuple[Candidate, ...] = candidates.read(given.plans, given.after)
        given.clusters.check({one.cluster_id for one in found})
    else:
        found, declared = _of_manifests(console, given, lake, (begin, end))
    work = candidates.Work(
        candidates=found,
        from_ms=begin,
        to_ms=end,
        policy=policy_for(console, given.clusters.project, declared),
        most=given.most,
        source=lake.store.shown,
        now_ms=round(clock.now() * 1000),
    )
    rows = sum(
        replay.opened(lake, one.cluster_id, begin, end).rows for one in work.candidates
    ) if given.engine == "auto" else 0  # fmt: skip
    if given.engine == "core" or (given.engine == "auto" and rows <= SWITCH_ROWS):
        return candidates.by_core(lake, work)
    if given.engine == "auto":
        console.note(f"{rows:,} samples: Spark replays them (--engine core would read them here)")
    return _on_spark(given, work)


def _on_spark(given: Given, work: "Work") -> "Simulation":
    needs("spark", "kquota spark simulate")
    from reconciler.spark import running
    from reconciler.spark.candidates import Work
    from reconciler.spark.job import Job
    from reconciler.spark.jobs import simulate

    job = Job(name="simulate", summary="", settings=Work, run=simulate.simulated)
    found: Simulation = running.run(job, given.lake, given.running.settings(), work)
    return found


def policy_for(
    console: Console, project_path: Path | None, declared: "Mapping[str, Sequence[Declaration]]"
) -> "WhatIfPolicy":
    """The what-if policy of the project, if there is a project, with the tiers that documents say they belong to.

    Args:
        console: Where warnings go.
        project_path: The project file; ``None`` = the one here, if there is one.
        declared: Documents by cluster id.

    Raises:
        UsageError: The policy is in itself wrong, or a project was named and is not there.
    """
    from reconciler.cli.project_files import project_path as located
    from reconciler.cli.where import read_project
    from reconciler.manifest.whatif_policy import policy_of

    written: Mapping[str, object] = {}
    where = _where(project_path, None)
    if project_path is not None or located(where).exists():
        written = read_project(where)[0].simulate
    try:
        policy = policy_of(written, declared)
    except QuotaValueError as wrong:
        raise UsageError(f"spec.simulate: {wrong.message}") from wrong
    for name in policy.unknown:
        console.warning(f"no tier is called {name!r}; known are {', '.join(policy.names)}")
    return policy


def _where(project: Path | None, cluster: str | None) -> Where:
    return Where(
        project=project, cluster=cluster, every=False, bootstrap_server=None, command_config=None,
        config_from=None, timeout=None,
    )  # fmt: skip


def task_of(console: Console, project: Path | None, cluster: str, paths: Sequence[str]) -> "Task":
    """The documents of one cluster of the project.

    Raises:
        ManifestErrors: Something is wrong with a file.
        UsageError: There is no project.
    """
    (target,) = offline_targets(_where(project, cluster), paths)
    sources = Sources(since=None, no_inventory=False)
    return task_for(console, target, paths, NO_LIMITS, sources)


def _of_manifests(
    console: Console, given: Given, lake: "Lake", window: tuple[int, int]
) -> "tuple[tuple[Candidate, ...], Mapping[str, Sequence[Declaration]]]":
    """What the documents would make of the last look at each cluster, and the documents by cluster id."""
    from reconciler.cli.offline import StandIn, plan_on
    from reconciler.lake import replay
    from reconciler.spark.candidates import Candidate

    found: list[Candidate] = []
    declared: defaultdict[str, list[Declaration]] = defaultdict(list)
    for one in given.clusters.chosen():
        task = task_of(console, given.clusters.project, one.name, given.paths)
        seen = replay.opened(lake, one.id, *window)
        taken = seen.limits.look.observed_at_ms / 1000 if seen.limits.look else None
        stand_in = StandIn(cluster_id=one.id, state=seen.state, taken_at=taken)
        prepared = plan_on(task, stand_in)
        found.append(Candidate(cluster_id=one.id, plan=prepared.preview.plan))
        declared[one.id] += chain.from_iterable(task.desired.claims.values())
    return tuple(found), declared


def code_of(found: "Simulation", *, require_evidence: bool) -> Exit:
    """What a simulation exits with."""
    if found.breaches:
        return Exit.REFUSED
    return Exit.EVIDENCE if require_evidence and not found.enough else Exit.DONE
