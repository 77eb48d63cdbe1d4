"""Tests of what clusters refuse: without it the tests of the client would pass against any broker."""

import ssl
import struct

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.servers import jars, ping, raw_quotas
from tests.servers.kafka import GRANTS, KafkaCluster, StartKafka, random_uuid
from tests.servers.properties import Listener

OLDEST = jars.VERSIONS[0]
EVERY_LISTENER = {"listeners": tuple(Listener), "acls": True}
"""One cluster for each version serves these tests."""


def test_a_cluster_id_has_the_form_of_kafka() -> None:
    texts = [random_uuid() for _ in range(200)]
    assert len(set(texts)) == len(texts)
    assert {len(text) for text in texts} == {22}
    assert not any(text.startswith("-") for text in texts)


@pytest.mark.integration
def test_the_two_principals_have_exactly_the_documented_rights(kafka: StartKafka) -> None:
    cluster = kafka(jars.NEWEST, **EVERY_LISTENER)
    assert ping.visible_grants(cluster.port()) == set(GRANTS)


@pytest.mark.integration
def test_a_broker_presents_the_certificate_of_its_authority_only(kafka: StartKafka) -> None:
    cluster = kafka(jars.NEWEST, **EVERY_LISTENER)
    assert cluster.authority is not None
    trusting = cluster.authority.client_context()
    assert ping.answers(cluster.port(1, Listener.SASL_SSL), tls=trusting)
    with pytest.raises(ssl.SSLCertVerificationError):
        ping.api_versions(cluster.port(1, Listener.SSL), tls=ssl.create_default_context())


@pytest.mark.integration
def test_a_client_certificate_defines_the_principal_and_without_one_it_is_anonymous(
    kafka: StartKafka,
) -> None:
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
@pytest.mark.parametrize("version", [OLDEST, jars.NEWEST])
def test_the_broker_itself_validates_bearer_tokens(kafka: StartKafka, version: str) -> None:
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
