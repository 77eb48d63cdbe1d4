"""Tests of clusters: start, listeners, permissions, pauses, kills and restarts."""

import ssl
import struct

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.servers import jars, ping, raw_quotas, tools
from tests.servers.kafka import GRANTS, KafkaCluster, StartKafka, random_uuid
from tests.servers.node import ServerFailed
from tests.servers.properties import Listener, mechanisms, to_text
from tests.servers.raw_quotas import entity

ALICE = entity(user="alice", client_id=None)
OLDEST = jars.VERSIONS[0]
EVERY_LISTENER = {"listeners": tuple(Listener), "acls": True}
"""One cluster for each version serves most of these tests."""


def test_a_cluster_id_looks_like_one_of_kafka() -> None:
    texts = [random_uuid() for _ in range(200)]
    assert len(set(texts)) == len(texts)
    assert {len(text) for text in texts} == {22}
    assert not any(text.startswith("-") for text in texts)


@pytest.mark.integration
@pytest.mark.parametrize("version", jars.VERSIONS)
def test_each_version_starts_and_keeps_quotas(empty_kafka: StartKafka, version: str) -> None:
    cluster = empty_kafka(version, **EVERY_LISTENER)
    raw_quotas.set_quotas(cluster.port(), {ALICE: {"producer_byte_rate": 1024.0}})
    assert raw_quotas.describe(cluster.port()) == {ALICE: {"producer_byte_rate": 1024.0}}
    assert cluster.active_controller() == 1


@pytest.mark.integration
@pytest.mark.parametrize("version", [OLDEST, jars.NEWEST])
@pytest.mark.parametrize("listener", [Listener.SASL_SSL, Listener.OAUTHBEARER])
def test_the_listeners_let_kafkas_own_tool_in(
    kafka: StartKafka, version: str, listener: Listener
) -> None:
    cluster = kafka(version, **EVERY_LISTENER)
    _describe_with_kafkas_tool(cluster, listener, mechanisms(version)[-1])


@pytest.mark.integration
@pytest.mark.parametrize("mechanism", mechanisms(jars.NEWEST))
def test_the_newest_version_takes_every_password_mechanism(
    kafka: StartKafka, mechanism: str
) -> None:
    cluster = kafka(jars.NEWEST, **EVERY_LISTENER)
    _describe_with_kafkas_tool(cluster, Listener.SASL_PLAINTEXT, mechanism)


def _describe_with_kafkas_tool(cluster: KafkaCluster, listener: Listener, mechanism: str) -> None:
    properties = cluster.client_properties(listener, user="planner", mechanism=mechanism)
    file = cluster.folder / "planner.properties"
    file.write_text(to_text(properties), encoding="utf-8")
    answer = tools.kafka_configs(
        cluster.version,
        "--bootstrap-server",
        cluster.bootstrap(listener),
        "--command-config",
        str(file),
        "--describe",
        "--entity-type",
        "clients",
        flags=cluster.issuer.jvm_flags() if cluster.issuer else (),
    )
    assert answer.returncode == 0, (listener, mechanism, answer.stderr)


@pytest.mark.integration
def test_the_two_principals_have_exactly_the_documented_rights(kafka: StartKafka) -> None:
    cluster = kafka(jars.NEWEST, **EVERY_LISTENER)
    assert ping.visible_grants(cluster.port()) == set(GRANTS)


@pytest.mark.integration
def test_a_broker_shows_the_certificate_of_its_authority_only(kafka: StartKafka) -> None:
    cluster = kafka(jars.NEWEST, **EVERY_LISTENER)
    assert cluster.authority is not None
    trusting = cluster.authority.client_context()
    assert ping.answers(cluster.port(1, Listener.SASL_SSL), tls=trusting)
    with pytest.raises(ssl.SSLCertVerificationError):
        ping.api_versions(cluster.port(1, Listener.SSL), tls=ssl.create_default_context())


@pytest.mark.integration
def test_a_client_certificate_is_a_principal_and_none_is_anonymous(kafka: StartKafka) -> None:
    cluster = kafka(jars.NEWEST, **EVERY_LISTENER)
    assert cluster.authority is not None
    stranger = cluster.authority.client("stranger")
    assert _describe_error(cluster, cluster.authority.client_context()) == 0  # a super user
    assert _describe_error(cluster, cluster.authority.client_context(stranger)) == 31


def _describe_error(cluster: KafkaCluster, tls: ssl.SSLContext) -> int:
    everything = struct.pack(">ib", 0, 0)
    port = cluster.port(1, Listener.SSL)
    answer = ping.call(port, raw_quotas.DESCRIBE, 0, everything, tls=tls)
    _throttle, error = struct.unpack_from(">ih", answer)
    return error


@pytest.mark.integration
@pytest.mark.parametrize("version", jars.VERSIONS)
def test_the_broker_itself_judges_bearer_tokens(kafka: StartKafka, version: str) -> None:
    cluster = kafka(version, **EVERY_LISTENER)
    assert cluster.issuer is not None
    port, mint = cluster.port(1, Listener.OAUTHBEARER), cluster.issuer.mint
    stranger = ec.generate_private_key(ec.SECP256R1())
    assert _bearer(port, mint("planner")) == b""
    for wrong in (
        mint("planner", key=stranger),
        mint("planner", lifetime_seconds=-120),
        mint("planner", audience="others"),
        mint("planner", issuer="https://other.example"),
    ):
        assert b"invalid_token" in _bearer(port, wrong)


def _bearer(port: int, token: str) -> bytes:
    """Return the broker's response to the first message of RFC 7628; empty if the token is valid."""
    message = b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01"
    with ping.connected(port) as connection:
        ping.exchange(connection, 17, 1, ping.short_string("OAUTHBEARER"))
        answer = ping.exchange(connection, 36, 0, struct.pack(">i", len(message)) + message)
    error, length = struct.unpack_from(">hh", answer)
    assert error == 0
    return answer[8 + max(0, length) :]


@pytest.mark.integration
def test_three_nodes_survive_pauses_kills_and_restarts() -> None:
    quota = {ALICE: {"producer_byte_rate": 2048.0}}
    # A killed broker can register again only after its session has expired, by default 9 s.
    quick = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "300"}
    with KafkaCluster("4.3.1", nodes=3, extra=quick) as cluster:
        ports = [cluster.port(number) for number in cluster.numbers]
        raw_quotas.set_quotas(ports, quota)
        leader = cluster.active_controller()
        follower, second_follower = (number for number in cluster.numbers if number != leader)

        cluster.pause(follower)
        assert not ping.answers(cluster.port(follower), seconds=0.3)
        assert cluster.running(follower)
        cluster.resume(follower)
        cluster.wait_ready(follower)
        assert raw_quotas.describe(cluster.port(follower)) == quota

        pid = cluster.pid(leader)
        cluster.kill(leader)
        assert not cluster.running(leader)
        assert cluster.active_controller() in {follower, second_follower}
        raw_quotas.set_quotas(
            cluster.port(second_follower), {ALICE: {"producer_byte_rate": 4096.0}}
        )

        with pytest.raises(ServerFailed, match="is running"):
            cluster.start(second_follower)
        cluster.start(leader)
        assert cluster.pid(leader) != pid
        changed = {ALICE: {"producer_byte_rate": 4096.0}}
        raw_quotas.wait_for(cluster.port(leader), lambda quotas: quotas == changed)

        cluster.terminate(follower)
        assert not cluster.running(follower)
        cluster.stop(grace_seconds=3)
        assert not any(cluster.running(number) for number in cluster.numbers)


@pytest.mark.integration
@pytest.mark.parametrize("version", ["3.4.1", "4.4.0"])
def test_the_oldest_and_the_newest_form_a_quorum_of_three(kafka: StartKafka, version: str) -> None:
    cluster = kafka(version, nodes=3)
    assert set(ping.broker_ports(cluster.port(2))) == {1, 2, 3}
    assert cluster.active_controller() in {1, 2, 3}


@pytest.mark.integration
def test_clients_are_told_the_advertised_port_and_extra_properties_count() -> None:
    callback_key = "client.quota.callback.class"
    with KafkaCluster(
        "4.0.1",
        callback=tools.CALLBACK,
        advertised={1: {Listener.PLAINTEXT: 19092}},
        extra={"quota.window.num": "2"},
    ) as cluster:
        assert cluster.bootstrap() == "127.0.0.1:19092"
        assert ping.broker_ports(cluster.port()) == {1: 19092}
        answer = tools.kafka_configs(
            "4.0.1",
            "--bootstrap-server",
            f"127.0.0.1:{cluster.inside(1)}",
            "--describe",
            "--all",
            "--entity-type",
            "brokers",
            "--entity-name",
            "1",
        )
        assert f"{callback_key}={tools.CALLBACK.class_name} " in answer.stdout
        assert "quota.window.num=2 " in answer.stdout


@pytest.mark.integration
def test_a_wrong_property_ends_the_start_with_the_brokers_words() -> None:
    cluster = KafkaCluster("4.3.1", extra={"quota.window.num": "none"})
    with pytest.raises(ServerFailed, match=r"Invalid value none for configuration quota\.window"):
        cluster.__enter__()
    assert not cluster.started
