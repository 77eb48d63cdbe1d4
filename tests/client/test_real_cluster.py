"""Three real brokers: visibility on each, a broker that is killed."""

import pytest

from reconciler.client import ClientConfig, QuotaClient
from reconciler.quota.entity import entity
from reconciler.quota.outcome import Applied
from tests.client.support import Recorder, on_loop, setting
from tests.servers.jars import NEWEST
from tests.servers.kafka import KafkaCluster, StartKafka

pytestmark = pytest.mark.integration


@pytest.fixture
def three(kafka: StartKafka) -> KafkaCluster:
    return kafka(NEWEST, nodes=3)


@on_loop
async def test_a_change_becomes_visible_on_every_broker(three: KafkaCluster) -> None:
    changes = [setting(entity(user=f"three-{n}"), 1000.0 + n) for n in range(3)]
    async with QuotaClient(ClientConfig.from_mapping(three.client_properties())) as our:
        assert [node.id for node in (await our.cluster()).nodes] == [1, 2, 3]
        assert set((await our.alter(changes)).values()) == {Applied()}
        visibility = await our.wait_visible(changes)
        assert (visibility.visible, visibility.lagging, visibility.unreachable) == (
            (1, 2, 3),
            (),
            {},
        )
        for node in (1, 2, 3):
            state = await our.describe(node=node)
            assert all(change.entity in state.limits for change in changes)


@on_loop
async def test_after_the_failure_of_the_working_broker_another_one_is_used(
    three: KafkaCluster,
) -> None:
    recorder = Recorder()
    settings = three.client_properties()
    async with QuotaClient(ClientConfig.from_mapping(settings), events=recorder.events()) as our:
        await our.describe()
        port = int(recorder.of("connected")[0].node.rpartition(":")[2])
        dead = next(number for number in three.numbers if three.port(number) == port)
        three.kill(dead)
        await our.describe(timeout=60)
        changes = [setting(entity(user="three-dead"), 5.0)]
        results = await our.alter(changes)
        assert set(results.values()) == {Applied()}
        visibility = await our.wait_visible(changes, timeout=60)
        assert set(visibility.visible) == set(three.numbers) - {dead}
        assert visibility.everywhere
