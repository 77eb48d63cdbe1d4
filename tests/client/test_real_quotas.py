"""What only a real broker shows of quotas: a custom callback, and its own words about unknown types of entities."""

import pytest

from reconciler.client import ClientConfig, QuotaClient
from reconciler.errors import BrokerError
from reconciler.quota.filters import ANY, Component, Filter
from reconciler.quota.outcome import OpenAlteration, Rejected
from tests.client.support import RATE, on_loop
from tests.servers.jars import NEWEST
from tests.servers.kafka import KafkaCluster, StartKafka
from tests.servers.properties import Listener
from tests.servers.tools import CALLBACK

pytestmark = pytest.mark.integration


def to(
    cluster: KafkaCluster, listener: Listener = Listener.PLAINTEXT, user: str = "admin"
) -> ClientConfig:
    return ClientConfig.from_mapping(cluster.client_properties(listener, user=user))


@on_loop
async def test_a_custom_callback_is_detected(kafka: StartKafka) -> None:
    async with QuotaClient(to(kafka(NEWEST, callback=CALLBACK))) as our:
        assert await our.quota_callback() == CALLBACK.class_name
    async with QuotaClient(to(kafka(NEWEST))) as our:
        assert await our.quota_callback() is None


@pytest.mark.parametrize("version", ["3.9.1", NEWEST])
@on_loop
async def test_entity_types_are_strings_that_the_broker_validates_with_its_own_message(
    empty_kafka: StartKafka, version: str
) -> None:
    """KIP-546: types are not restricted to constants, and a broker refuses unknown ones."""
    group = (("group", "g"),)
    async with QuotaClient(to(empty_kafka(version))) as our:
        refused = await our.alter_open([OpenAlteration(group, ((RATE, 1.0),))])
        assert refused[group] == Rejected(
            code=42, name="INVALID_REQUEST", message="Unhandled client quota entity type: group"
        )
        for match in ("g", None, ANY):
            with pytest.raises(BrokerError, match="Unsupported entity type group"):
                await our.describe(
                    Filter(components=(Component(entity_type="group", match=match),))
                )
        assert (await our.describe()).foreign_entities == ()
