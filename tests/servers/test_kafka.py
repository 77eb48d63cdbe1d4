"""Clusters start, answer, and survive what tests do to them."""

import pytest

from tests.servers import jars, raw_quotas
from tests.servers.kafka import StartKafka
from tests.servers.raw_quotas import entity

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("version", jars.VERSIONS)
def test_each_version_starts_and_keeps_quotas(empty_kafka: StartKafka, version: str) -> None:
    cluster = empty_kafka(version)
    alice = entity(user="alice", client_id=None)
    raw_quotas.set_quotas(cluster.port(), {alice: {"producer_byte_rate": 1024.0}})
    assert raw_quotas.describe(cluster.port()) == {alice: {"producer_byte_rate": 1024.0}}
    assert cluster.active_controller() == 1
