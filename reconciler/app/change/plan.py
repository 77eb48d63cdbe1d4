"""Plans one cluster: what would change and why, and its effect by recorded use, and which documents a pull request changes. Nothing is written."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from reconciler.app.change.evidence import address_of, quota_callback, recorded_use, simulate_plan
from reconciler.app.change.offline_plan import plan_offline
from reconciler.app.change.plan_preparation import PlanTask, knowing, prepare_task, task_for
from reconciler.app.clusters.project_files import name_in
from reconciler.app.clusters.runtime import open_runtime
from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.notices import Notices
from reconciler.app.requests import EvidenceRequest, PlanRequest, RecordUse
from reconciler.base.regular_files import read_regular
from reconciler.errors import GitError
from reconciler.manifest.loader import load_files
from reconciler.quota.planner.desired_state import Declaration, DesiredState
from reconciler.quota.precedence import Principal
from reconciler.quota.results.report import Preview
from reconciler.reconcile import PreparedPlan

if TYPE_CHECKING:
    from reconciler.codecs.plan_file import PlanFile
    from reconciler.git.repository import CommitTree
    from reconciler.render.json_values import Json
    from reconciler.render.recorded_use import RecordedUse
    from reconciler.usage.impact.result_rows import Simulation


class ClusterPlan(Struct, frozen=True, kw_only=True):
    """The plan of one cluster."""

    target: ClusterTarget
    prepared: PreparedPlan
    preview: Preview  # the plan for readers, with the documents that a proposal changes
    simulation: "Simulation | None" = None  # the effect by recorded use; None = not requested

    @property
    def recorded(self) -> "RecordedUse | None":
        """The effect by recorded use as text; ``None`` = not requested."""
        return recorded_use(self.simulation, self.preview)

    @property
    def document(self) -> "dict[str, Json]":
        """The document to be printed."""
        from reconciler.codecs.plan import plan_document

        if self.simulation is None:
            return plan_document(self.preview)
        from reconciler.codecs.row_values import row_document

        whatif = row_document(self.simulation) | {"enough": self.simulation.enough}
        return plan_document(self.preview, whatif)

    @property
    def file(self) -> "PlanFile":
        """The document to be saved."""
        from reconciler.codecs.plan import saved_plan

        if self.simulation is None:
            return saved_plan(self.preview)
        from reconciler.codecs.simulation import whatif_document

        return saved_plan(self.preview, whatif_document(self.simulation))


async def plan_cluster(
    notices: Notices,
    target: ClusterTarget,
    *,
    request: PlanRequest,
    evidence: EvidenceRequest | None = None,
    principals: Sequence[Principal] = (),
    offline: bool = False,
    snapshot: Path | None = None,
) -> ClusterPlan:
    """Return the plan of one cluster.

    Args:
        evidence: Recorded use; ``None`` = not used.
        snapshot: Quotas of the cluster, for an offline plan.

    Raises:
        ManifestErrors: A document is invalid.
        UsageError: The options contradict each other.
        ClientError: The cluster cannot be queried.
    """
    task = knowing(task_for(notices, target, request), principals)
    callback = None
    if offline:
        prepared = await plan_offline(notices, task, snapshot)
    else:
        asks_callback = evidence is not None and bool(address_of(target, evidence))
        prepared, callback = await _prepare(notices, task, asks_callback=asks_callback)
    preview, simulation = prepared.preview, None
    if evidence is not None:
        used = await asyncio.to_thread(simulate_plan, notices, task, prepared, evidence, callback)
        if used is not None:
            preview, simulation = used.preview, used.simulation
    changed = changed_documents(target, task.desired, typed_paths=bool(request.paths))
    return ClusterPlan(
        target=target,
        prepared=prepared,
        preview=replace(preview, changed_documents=changed, selection=request.selection),
        simulation=simulation,
    )


async def _prepare(
    notices: Notices, task: PlanTask, *, asks_callback: bool
) -> tuple[PreparedPlan, str | None]:
    """Return the plan, and if evidence is used the brokers' quota callback: a custom one makes evidence unusable."""
    records = RecordUse.NONE if task.request.no_inventory else RecordUse.ANY
    async with open_runtime(notices, task.target, records, command="plan", writes=False) as runtime:
        prepared = await prepare_task(task, runtime)
        return prepared, await quota_callback(runtime.client) if asks_callback else None


def changed_documents(
    target: ClusterTarget, desired: DesiredState, *, typed_paths: bool
) -> frozenset[str] | None:
    """Return the documents that differ from the common ancestor of HEAD and the trusted revision.

    Args:
        target: The cluster; its options contain the trusted revision.
        typed_paths: Whether document paths are relative to the current folder, not to the project.

    Returns:
        The names, or ``None`` if there is no trusted revision or the histories have no known common commit.
    """
    revision = target.options.config_from
    if revision is None:
        return None
    from reconciler.git.repository import Repository

    start = Path() if typed_paths else target.root
    try:
        repository = Repository.around(target.root.absolute())
        base = repository.merge_base(revision)
        if base is None:
            return None
        tree = repository.tree(base)
        declared = [*desired.declarations, *desired.ended]
        names = {path: name_in(tree, start / path) for path in {claim.path for claim in declared}}
        return frozenset(_changed_paths(target, declared, names, start, tree))
    except GitError:
        return None


def _changed_paths(
    target: ClusterTarget,
    declared: Iterable[Declaration],
    names: dict[str, str],
    start: Path,
    tree: "CommitTree",
) -> Iterable[str]:
    before = tree.read(name for name in names.values() if name in tree.entries)
    differing = {
        path: before.get(name, b"")
        for path, name in names.items()
        if before.get(name) != _content(start / path)
    }
    texts = [(path, content.decode("utf-8", "replace")) for path, content in differing.items()]
    loaded = load_files(texts, clusters=None if target.project is None else target.project.labels)
    base_facts = {_facts(claim) for claim in loaded.of(target.name)}
    for claim in declared:
        if claim.path in differing and _facts(claim) not in base_facts:
            yield claim.document


def _content(path: Path) -> bytes | None:
    try:
        return read_regular(path, max_bytes=1 << 30)
    except (OSError, ValueError):
        return None


def _facts(claim: Declaration) -> tuple[object, ...]:
    """Return the content of a document, independent of its place."""
    return (
        claim.document,
        claim.entity,
        claim.limits,
        claim.deletion_policy,
        claim.suspended,
        claim.until,
        claim.labels,
        claim.accepted,
    )
