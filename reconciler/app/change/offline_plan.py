"""``plan --offline``: a plan against a snapshot or the records, without a connection."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from msgspec import Struct
from msgspec.structs import replace

from reconciler.app.change.plan_preparation import PlanTask, with_configuration
from reconciler.app.clusters.runtime import by_rules, read_only_inventory
from reconciler.app.notices import Notices
from reconciler.base.clock import SystemClock
from reconciler.base.text_files import read_text
from reconciler.codecs.state import read_state
from reconciler.errors import ConfigError, UsageError
from reconciler.inventory.memory import MemoryInventory
from reconciler.ports import Inventory
from reconciler.quota.entity import Entity
from reconciler.quota.state import Limits, QuotaState
from reconciler.reconcile import Observation, PreparedPlan, ReconcilePorts, ValidationMode, preview
from reconciler.reconcile.observation import check_cluster
from reconciler.reconcile.validation import validate


class OfflineCluster(Struct, frozen=True, kw_only=True):
    """The state that an offline plan uses instead of a cluster."""

    cluster_id: str  # the cluster id; "" if unknown
    state: QuotaState
    taken_at: float | None  # seconds since the epoch; None if it is no snapshot or has no time


async def plan_offline(notices: Notices, task: PlanTask, snapshot: Path | None) -> PreparedPlan:
    """Plan against a snapshot, else the ownership records, else an empty cluster.

    Raises:
        UsageError: The snapshot cannot be read, or validation by the broker was requested.
        ConfigError: It is not a snapshot.
        WrongCluster: It belongs to another cluster than the expected one.
    """
    if task.options.validation is ValidationMode.BROKER:
        raise UsageError("--offline and --validate broker contradict each other")
    clock = SystemClock()
    inventory = _inventory(task, clock)
    cluster = await _offline_cluster(notices, task, snapshot, inventory)
    return await _plan_on_snapshot(task, cluster, inventory, clock)


async def plan_on(task: PlanTask, cluster: OfflineCluster) -> PreparedPlan:
    """Plan against known quotas, for example the last quota snapshot in a lake."""
    clock = SystemClock()
    return await _plan_on_snapshot(task, cluster, _inventory(task, clock), clock)


def _inventory(task: PlanTask, clock: SystemClock) -> Inventory:
    return (
        MemoryInventory() if task.request.no_inventory else read_only_inventory(task.target, clock)
    )


async def _plan_on_snapshot(
    task: PlanTask, cluster: OfflineCluster, inventory: Inventory, clock: SystemClock
) -> PreparedPlan:
    observation = Observation(
        cluster=None,
        cluster_id=cluster.cluster_id,
        live=cluster.state,
        owned=await inventory.load(cluster.cluster_id),
        at=clock.now(),
        snapshot_at=cluster.taken_at,
    )
    first = preview(observation, task.desired, task.options)
    ports = ReconcilePorts(
        store=_UnavailableStore(), inventory=inventory, clock=clock, validator=by_rules
    )
    verdict = await validate(ports, task.options, observation, first.plan.changes)
    judged = replace(first, preview=replace(first.preview, verdict=verdict))
    return with_configuration(judged, task)


async def _offline_cluster(
    notices: Notices, task: PlanTask, snapshot: Path | None, inventory: Inventory
) -> OfflineCluster:
    expected = task.options.expected_cluster_id
    if snapshot is not None:
        cluster_id, taken_at, state = read_state(read_text(snapshot), location=str(snapshot))
        check_cluster(cluster_id, expected)
        return OfflineCluster(
            cluster_id=cluster_id, state=state, taken_at=_seconds(taken_at, snapshot)
        )
    owned = None if expected is None else await inventory.load(expected)
    limits: Mapping[Entity, Limits] = {}
    if owned is not None and owned.is_known:
        source = "the last applied values"
        limits = {subject: record.applied for subject, record in owned.records.items()}
    else:
        source = "an empty cluster; pass --snapshot for a comparison"
    notices.note(f"offline: planning against {source}")
    return OfflineCluster(cluster_id=expected or "", state=QuotaState(limits=limits), taken_at=None)


def _seconds(text: str, path: Path) -> float | None:
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).astimezone(UTC).timestamp()
    except ValueError as error:
        raise ConfigError(f"takenAt {text!r} is not a time", location=str(path)) from error


class _UnavailableStore:
    """A ``QuotaStore`` for offline plans that refuses every call."""

    async def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise UsageError("--offline does not contact a cluster")

    cluster = observe = describe = alter = wait_visible = _refuse
