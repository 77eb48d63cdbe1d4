"""Which broker is dialed next, and when the known brokers are discarded."""

from reconciler.client.client_config import ClientConfig
from reconciler.client.network.nodes import Nodes, address_of
from reconciler.quota.state import Node


def nodes(*numbers: int) -> Nodes:
    config = ClientConfig.from_mapping(
        {"bootstrap.servers": "a:1,b:2", "reconnect.backoff.ms": 100}
    )
    new_nodes = Nodes(config)
    new_nodes.learn([Node(id=n, host=f"n{n}", port=9092) for n in numbers], 0.0)
    return new_nodes


def test_before_metadata_all_bootstrap_addresses_are_dialed_together() -> None:
    choice = nodes().choose(0.0)
    assert {str(address) for address in choice.addresses} == {"a:1", "b:2"}
    assert choice.wait == 0.0


def test_known_brokers_are_dialed_separately_and_failed_ones_last() -> None:
    new_nodes = nodes(1, 2, 3)
    bad = [address_of(node) for node in new_nodes.brokers[:2]]
    new_nodes.record_failure(bad, 0.0)
    for _ in range(20):
        assert [str(address) for address in new_nodes.choose(5.0).addresses] == ["n3:9092"]
    new_nodes.record_success(bad[0], 6.0)
    assert {str(new_nodes.choose(7.0).addresses[0]) for _ in range(50)} == {"n1:9092", "n3:9092"}


def test_if_all_brokers_back_off_the_first_to_be_ready_is_awaited() -> None:
    new_nodes = nodes(1)
    new_nodes.record_failure([address_of(new_nodes.brokers[0])], 10.0)
    choice = new_nodes.choose(10.0)
    assert 0.08 <= choice.wait <= 0.12


def test_the_connection_setup_timeout_grows_with_failures() -> None:
    new_nodes = nodes(1)
    address = address_of(new_nodes.brokers[0])
    assert 8 <= new_nodes.choose_node(address, 0.0).setup_seconds <= 12
    new_nodes.record_failure([address] * 3, 0.0)
    assert 24 <= new_nodes.choose_node(address, 99.0).setup_seconds <= 36


def test_known_brokers_are_discarded_when_all_failed_or_after_a_long_time_without_a_response() -> (
    None
):
    new_nodes = nodes(1, 2)
    assert new_nodes.must_rebootstrap(299.0) == ""
    assert "no data from the broker" in new_nodes.must_rebootstrap(301.0)
    new_nodes.record_failure([address_of(node) for node in new_nodes.brokers], 1.0)
    assert new_nodes.must_rebootstrap(2.0) == "every known broker failed"
    new_nodes.forget()
    assert new_nodes.must_rebootstrap(2.0) == ""


def test_the_last_known_cause_of_each_address_is_kept_until_it_works() -> None:
    new_nodes = nodes(1, 2)
    first, second = (address_of(node) for node in new_nodes.brokers)
    new_nodes.note_cause(first, "first: refused")
    new_nodes.note_cause(second, "second: refused")
    new_nodes.note_cause(second, "second: closed")
    assert new_nodes.causes(None) == ["first: refused", "second: closed"]
    assert new_nodes.causes(2) == ["second: closed"]
    new_nodes.record_success(first, 1.0)
    assert (new_nodes.causes(None), new_nodes.causes(1)) == (["second: closed"], [])
    new_nodes.forget()
    assert new_nodes.causes(None) == []  # the addresses of the configuration
