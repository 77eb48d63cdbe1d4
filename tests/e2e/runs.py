"""Complete runs against real brokers, shared by the tests of this folder."""

from collections.abc import Mapping

from reconciler.base.clock import SystemClock
from reconciler.client import ClientConfig, QuotaClient
from reconciler.errors import KquotaError
from reconciler.ports import Inventory, QuotaStore
from reconciler.quota.entity import Entity
from reconciler.quota.keys import Key
from reconciler.quota.planner.desired_state import Declaration, DesiredState, merge
from reconciler.quota.planner.guards import Guards
from reconciler.quota.policy import Policy, Rules
from reconciler.quota.results.report import Outcome
from reconciler.quota.state import ALL, limits_of
from reconciler.reconcile import ReconcileOptions, ReconcilePorts, apply, prepare
from tests.servers import raw_quotas
from tests.servers.kafka import KafkaCluster

ANYTHING = Guards(
    max_removals=100_000,
    max_removed_percent=100,
    max_change_factor=1e12,
    protect_defaults=False,
    allow_small_values=True,
    allow_empty=True,
)
CONVERGED_SECONDS = 240.0
"""Maximum time until a reconciliation is complete: a write of unknown outcome stays open for 65 s."""
POLL_SECONDS = 2.0
EVERYTHING = ReconcileOptions(rules=Rules(policy=Policy.SYNC, sync_confirmed=True), guards=ANYTHING)


def ports(store: QuotaStore, inventory: Inventory) -> ReconcilePorts:
    return ReconcilePorts(store=store, inventory=inventory, clock=SystemClock())


async def reconciled(
    store: QuotaStore,
    inventory: Inventory,
    desired: DesiredState,
    orders: ReconcileOptions = EVERYTHING,
) -> Outcome:
    input_ports = ports(store, inventory)
    return await apply(input_ports, orders, await prepare(input_ports, orders, desired))


async def converged(store: QuotaStore, inventory: Inventory, desired: DesiredState) -> Outcome:
    """Reconcile until everything is complete, and return that outcome.

    Raises:
        AssertionError: It is not complete within `CONVERGED_SECONDS`.
    """
    clock = SystemClock()
    deadline = clock.monotonic() + CONVERGED_SECONDS
    result: Outcome | KquotaError | None = None
    while clock.monotonic() < deadline:
        try:
            result = await reconciled(store, inventory, desired)
        except KquotaError as error:
            result = error
        else:
            if result.complete:
                return result
        await clock.sleep(POLL_SECONDS)
    raise AssertionError(f"not complete within {CONVERGED_SECONDS:g} s: {result}")


async def settled(client: QuotaClient) -> Mapping[Entity, tuple[float | None, ...]]:
    return (await client.describe(ALL)).limits


def config(bootstrap: str, **more: str) -> ClientConfig:
    return ClientConfig.from_mapping({"bootstrap.servers": bootstrap} | more)


def addresses(cluster: KafkaCluster) -> dict[int, str]:
    return {number: f"127.0.0.1:{cluster.port(number)}" for number in cluster.numbers}


def cleared(cluster: KafkaCluster) -> KafkaCluster:
    raw_quotas.clear(cluster.port(cluster.numbers[0]))
    return cluster


def desired_state(values: Mapping[Entity, Mapping[Key, float]]) -> DesiredState:
    """One document per entity."""
    return merge(
        Declaration(document=f"team/doc-{number}", entity=subject, limits=limits_of(limits))
        for number, (subject, limits) in enumerate(values.items())
    )
