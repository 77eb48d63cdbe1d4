"""What a budget calls promised is what a real broker carries when all clients use their limits at the same time."""

import asyncio

import pytest

from reconciler.client import ClientConfig, QuotaClient
from reconciler.quota.keys import Key
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.planner.budgets import Budget, budget_uses
from reconciler.quota.planner.desired_state import merge
from reconciler.quota.planner.plan import Plan
from reconciler.quota.state import QuotaState
from tests.recording import broker_run
from tests.recording.runs import Group, Run
from tests.servers.kafka import KafkaCluster
from tests.servers.properties import Listener

SECONDS, WARM_UP, TAIL = 100, 12_000, 0
LIMITS = {"web": 120_000, "etl": 150_000, "app": 200_000, "feed": 150_000, "sync": 100_000}
KINDS = {name: "fetch" if name in {"feed", "sync"} else "produce" for name in LIMITS}
RUN = Run(
    number=99,
    version="4.3.1",
    level="client",
    seconds=SECONDS,
    groups=tuple(
        Group(
            name=name,
            kind=KINDS[name],
            shape="steady",
            mean=3 * limit,
            record=4_096,
            connections=1,
            target_delay=1.0,
            fetch_bytes=65_536,
        )
        for name, limit in LIMITS.items()
    ),
)
BOUND = 0.15


async def quotas_of(bootstrap: str) -> QuotaState:
    config = ClientConfig.from_mapping({"bootstrap.servers": bootstrap})
    async with QuotaClient(config) as client:
        return await client.describe()


def promised(live: QuotaState, key: Key) -> float:
    (use,) = budget_uses(
        Plan(cluster_id="c"),
        [Budget(name="broker", key=key, amount=1.0)],
        live,
        desired=merge(()),
        owned=OwnershipRecords(cluster_id="c"),
        logins=(),
    )
    return use.after


@pytest.mark.integration
def test_the_promised_sum_is_what_a_broker_carries_when_every_client_uses_its_limit() -> None:
    users = {"admin": broker_run.PASSWORD, "feeder": broker_run.PASSWORD}
    users |= dict.fromkeys(LIMITS, broker_run.PASSWORD)
    listeners = (Listener.PLAINTEXT, Listener.SASL_PLAINTEXT)
    with KafkaCluster(RUN.version, listeners=listeners, users=users) as cluster:
        broker_run.alter(cluster.bootstrap(), broker_run.limits_of(RUN.level, RUN.groups, LIMITS))
        live = asyncio.run(quotas_of(cluster.bootstrap()))
        phase = broker_run.drive(cluster, RUN, "budget", SECONDS)
    begin, end = phase.from_ms + WARM_UP, phase.to_ms - TAIL
    for kind, key in broker_run.KEYS.items():
        carried = sum(
            record.size
            for record in phase.records
            if KINDS[record.group] == kind
            and record.done_ms is not None
            and begin <= record.done_ms < end
        )
        rate = carried * 1000 / (end - begin)
        assert rate == pytest.approx(promised(live, Key(key)), rel=BOUND), kind
