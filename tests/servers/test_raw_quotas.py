"""Tests of raw reads and writes of quotas on real brokers."""

import pytest

from tests.servers import ping, raw_quotas
from tests.servers.kafka import StartKafka
from tests.servers.raw_quotas import Answer, entity

pytestmark = pytest.mark.integration


def test_every_form_of_entity_is_read_back(empty_kafka: StartKafka) -> None:
    port = empty_kafka("4.3.1").port()
    rates = {"producer_byte_rate": 1024.0, "request_percentage": 12.5}
    quotas = {
        entity(user="alice"): rates,
        entity(user=None): rates,
        entity(user="<default>", client_id="größe ,="): rates,
        entity(user=None, client_id=None): rates,
        entity(client_id="app"): rates,
        entity(ip="10.0.0.7"): {"connection_creation_rate": 5.0},
        entity(ip=None): {"connection_creation_rate": 50.0},
    }
    raw_quotas.set_quotas(port, quotas)
    assert raw_quotas.describe(port) == quotas
    raw_quotas.clear(port)
    assert raw_quotas.describe(port) == {}


def test_a_rejection_contains_the_message_of_the_broker(empty_kafka: StartKafka) -> None:
    port = empty_kafka("4.3.1").port()
    wrong = {entity(user="alice"): {"producer_byte_rate": 0.0}}
    words = "Quota producer_byte_rate must be greater than 0"
    expected = [Answer(entity=entity(user="alice"), error=42, message=words)]
    assert raw_quotas.alter(port, wrong) == expected
    with pytest.raises(ping.CallFailed, match=words):
        raw_quotas.set_quotas(port, wrong)


def test_many_quotas_are_removed_in_several_requests(empty_kafka: StartKafka) -> None:
    port = empty_kafka("4.3.1").port()
    many = {entity(user=f"user-{n}"): {"producer_byte_rate": 1.0 + n} for n in range(6000)}
    raw_quotas.set_quotas(port, many)
    raw_quotas.clear(port)
    assert raw_quotas.describe(port) == {}
