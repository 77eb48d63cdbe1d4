"""Small worlds for reconciliations: documents in one line, ports in memory, runs as one call."""

import asyncio

from msgspec.structs import replace

from reconciler.inventory.memory import MemoryInventory
from reconciler.quota.entity import DEFAULT, Entity, entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.planner.desired_state import Declaration, DesiredState, merge
from reconciler.quota.planner.guards import Guards
from reconciler.quota.policy import DeletionPolicy, Policy, Rules
from reconciler.quota.results.report import Outcome
from reconciler.quota.state import QuotaState, limits_of
from reconciler.reconcile import PreparedPlan, ReconcileOptions, ReconcilePorts, apply, prepare
from tests.fakes.cluster import FakeCluster
from tests.fakes.memory_audit_log import MemoryAuditLog

RATE, CONSUME, SHARE = Key.PRODUCER_BYTE_RATE, Key.CONSUMER_BYTE_RATE, Key.REQUEST_PERCENTAGE
ALICE, BOB, ANYONE = entity(user="alice"), entity(user="bob"), entity(user=DEFAULT)
ALICE_SHOP = entity(user="alice", client_id="shop")

OPEN = Guards(
    max_removals=10_000,
    max_removed_percent=100.0,
    max_change_factor=1e12,
    protect_defaults=False,
    allow_small_values=True,
    allow_empty=True,
)
"""Guards that permit everything."""


def declared(
    subject: Entity,
    values: dict[Key, float],
    *,
    document: str = "",
    policy: DeletionPolicy | None = None,
) -> Declaration:
    name = document or f"team/{subject}"
    return Declaration(
        document=name,
        entity=subject,
        limits=limits_of(values),
        path=f"{name}.yaml",
        line=3,
        deletion_policy=policy,
    )


def documents(values: dict[Entity, dict[Key, float]]) -> DesiredState:
    return merge([declared(subject, limits) for subject, limits in values.items()])


def state(values: dict[Entity, dict[Key, float]]) -> QuotaState:
    return QuotaState(limits={subject: limits_of(limits) for subject, limits in values.items()})


class World:
    """A cluster, its records, its audit log."""

    def __init__(
        self,
        live: dict[Entity, dict[Key, float]] | None = None,
        *,
        policy: Policy = Policy.SYNC,
        owned: OwnershipRecords | None = None,
        guards: Guards = OPEN,
        **cluster,
    ) -> None:
        self.cluster = FakeCluster(state(live or {}), **cluster)
        self.inventory = MemoryInventory(*([owned] if owned else []))
        self.audit = MemoryAuditLog()
        self.progress: list[tuple[str, int, int]] = []
        self.ports = ReconcilePorts(
            store=self.cluster,
            inventory=self.inventory,
            clock=self.cluster.clock,
            audit=self.audit,
            progress=lambda *step: self.progress.append(step),
        )
        self.orders = ReconcileOptions(
            rules=Rules(policy=policy, sync_confirmed=True), guards=guards
        )

    def options(self, **orders) -> ReconcileOptions:
        return replace(self.orders, **orders)

    async def run(self, desired: DesiredState, **orders) -> Outcome:
        options = self.options(**orders)
        return await apply(self.ports, options, await prepare(self.ports, options, desired))

    def apply(self, desired: DesiredState, **orders) -> Outcome:
        return asyncio.run(self.run(desired, **orders))

    def plan(self, desired: DesiredState, **orders) -> PreparedPlan:
        return asyncio.run(prepare(self.ports, self.options(**orders), desired))

    def owned(self) -> OwnershipRecords:
        return asyncio.run(self.inventory.load(self.cluster.cluster_id))
