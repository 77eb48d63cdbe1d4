"""The offered versions, and the requests that close a connection, on every target."""

import pytest

from reconciler.wire import frames
from reconciler.wire.apis import (
    ALTER_CLIENT_QUOTAS,
    API_VERSIONS,
    BY_KEY,
    DESCRIBE_CLIENT_QUOTAS,
    DESCRIBE_CLUSTER,
    METADATA,
    SASL_AUTHENTICATE,
    KafkaApi,
)
from reconciler.wire.messages import api_versions, describe_cluster, metadata
from reconciler.wire.primitives import WireWriter
from reconciler.wire.sasl.scram import ScramClient
from tests.contract.raw import Closed, RawConnection
from tests.contract.targets import Target

_COMMON = {
    "Metadata": (0, 12),
    "SaslHandshake": (0, 1),
    "ApiVersions": (0, 4),
    "DescribeConfigs": (1, 4),
    "SaslAuthenticate": (0, 2),
    "DescribeClientQuotas": (0, 1),
    "AlterClientQuotas": (0, 1),
    "DescribeUserScramCredentials": (0, 0),
    "DescribeCluster": (0, 1),
}
_FOUR = {**_COMMON, "Metadata": (0, 13), "DescribeCluster": (0, 2)}
OFFERED = {
    "3.4": {
        **{name: _COMMON[name] for name in _COMMON if name != "DescribeUserScramCredentials"},
        "ApiVersions": (0, 3),
        "DescribeCluster": (0, 0),
    },
    "3.9": _COMMON,
    "4.0-4.3": _FOUR,
    "4.x": {**_FOUR, "ApiVersions": (0, 5)},
}
NO_CONTROLLER = (
    "The request was sent to an endpoint of type BROKER,"
    " but we wanted an endpoint of type CONTROLLER"
)
NO_SCRAM = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism {}"
)
EVERY_TOPIC = b"\0\0\0\0"  # v0 cannot request none
METADATA_VERSION = {"3.4": 8, "3.9": 21}
HELLO = api_versions.ApiVersionsRequest(software_name="contract", software_version="1.0")


def test_the_offered_versions_can_be_decoded(target: Target) -> None:
    """Each version differs from its neighbours here; versions that the codec lacks are cut off."""
    with target.connect() as connection:
        offered = connection.offered()
    ranges = {
        api.name: (max(offered[key][0], api.lowest), min(offered[key][1], api.highest))
        for key, api in BY_KEY.items()
        if key in offered
    }
    assert ranges == target.expected(OFFERED)


def test_every_version_of_api_versions_is_answered(target: Target) -> None:
    highest = target.expected(OFFERED)["ApiVersions"][1]
    with target.connect() as connection:
        for version in range(highest + 1):
            answer = connection.api_versions(version, HELLO)
            assert answer.error_code == 0
            assert any(api.api_key == 49 for api in answer.apis)
            if version >= 3:
                finalized = {feature.name: feature.highest for feature in answer.finalized}
                level = finalized["metadata.version"]
                assert level == METADATA_VERSION.get(target.lines[0], level)
                names = {feature.name for feature in answer.features}
                assert ("kraft.version" in names) == (version >= 4)


def test_a_newer_api_versions_is_rejected_in_the_oldest_layout(target: Target) -> None:
    highest = target.expected(OFFERED)["ApiVersions"][1]
    with target.connect() as connection:
        connection.send(
            frames.encode_request(
                API_VERSIONS, highest + 1, correlation_id=9, client_id="raw", body=b"\x00"
            )
        )
        body = frames.response_body(API_VERSIONS, highest + 1, connection.receive())
        answer = api_versions.decode_response(0, body)
        assert answer.error_code == 35
        own = api_versions.ApiRange(api_key=18, lowest=0, highest=highest)
        assert answer.apis == (own,)
        assert connection.api_versions(highest, HELLO).error_code == 0


@pytest.mark.parametrize(
    ("name", "version"), [("", ""), ("kquota", "1.0+local"), ("k quota", "1"), ("-k", "1")]
)
def test_a_client_with_an_invalid_software_name_is_rejected(
    target: Target, name: str, version: str
) -> None:
    writer = WireWriter(flexible=True)
    writer.string(name)
    writer.string(version)
    writer.tags()
    with target.connect() as connection:
        answer = connection.ask(API_VERSIONS, 3, writer.to_bytes())
        refused = api_versions.decode_response(3, answer)
        assert (refused.error_code, refused.apis) == (42, ())
        assert connection.api_versions(3, HELLO).error_code == 0


def test_a_client_that_expects_another_broker_is_rejected_from_4_4_on(target: Target) -> None:
    """KIP-1242: cluster and node together, or neither."""
    if target.expected(OFFERED)["ApiVersions"][1] < 5:
        return
    codes = {
        (None, -1): 0,
        (target.cluster_id, 1): 0,
        ("another-cluster-id-1234", 1): 129,
        (target.cluster_id, 2): 129,
        (target.cluster_id, -1): 42,
        (None, 1): 42,
    }
    with target.connect() as connection:
        for (cluster_id, node_id), code in codes.items():
            request = api_versions.ApiVersionsRequest(
                software_name="a", software_version="1", cluster_id=cluster_id, node_id=node_id
            )
            assert connection.api_versions(5, request).error_code == code


UNPARSABLE: list[tuple[KafkaApi, int, bytes]] = [
    (DESCRIBE_CLIENT_QUOTAS, 0, b"\0\0\0\1"),
    (DESCRIBE_CLIENT_QUOTAS, 0, b"\xff\xff\xff\xff\0"),
    (DESCRIBE_CLIENT_QUOTAS, 0, b"\0\0\0\1\xff\xff\0\0\0\0"),
    (DESCRIBE_CLIENT_QUOTAS, 1, b"\x7f"),
    (DESCRIBE_CLIENT_QUOTAS, 1, b"\0\0\0"),
    (DESCRIBE_CLIENT_QUOTAS, 2, b"\1\0\0"),
    (ALTER_CLIENT_QUOTAS, 0, b"\xff\xff\xff\xff\0"),
    (ALTER_CLIENT_QUOTAS, 1, b"\0\0\0"),
    (ALTER_CLIENT_QUOTAS, 2, b"\1\0\0"),
    (METADATA, 99, b""),
]


@pytest.mark.parametrize(("api", "version", "body"), UNPARSABLE)
def test_malformed_requests_close_the_connection(
    target: Target, api: KafkaApi, version: int, body: bytes
) -> None:
    with target.connect() as connection, pytest.raises(Closed):
        connection.ask(api, version, body)


@pytest.mark.parametrize(
    "frame",
    [b"\0\0\0\x0a\x03\xe7\0\0\0\0\0\1\xff\xff", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"],
    ids=["an unknown API", "a negative size", "two gigabytes"],
)
def test_invalid_frames_close_the_connection(target: Target, frame: bytes) -> None:
    with target.connect() as connection:
        connection.send(frame)
        with pytest.raises(Closed):
            connection.receive()


def test_the_cluster_reports_its_identity(target: Target) -> None:
    with target.connect() as connection:
        low, high = target.expected(OFFERED)["Metadata"]
        for version in range(low, high + 1):
            nothing = metadata.MetadataRequest(topics=(), allow_auto_topic_creation=version < 4)
            body = metadata.encode_request(version, nothing) if version else EVERY_TOPIC
            response = metadata.decode_response(version, connection.ask(METADATA, version, body))
            assert [(broker.node_id, broker.host, broker.port) for broker in response.brokers] == [
                (1, "127.0.0.1", target.port)
            ]
            assert response.cluster_id == (target.cluster_id if version >= 2 else None)


def test_the_addresses_are_those_of_the_listener_that_received_the_request(target: Target) -> None:
    with target.login("alice") as connection:
        body = describe_cluster.encode_request(0, describe_cluster.DescribeClusterRequest())
        response = describe_cluster.decode_response(0, connection.ask(DESCRIBE_CLUSTER, 0, body))
    assert response.cluster_id == target.cluster_id
    assert [(broker.node_id, broker.port) for broker in response.brokers] == [(1, target.sasl_port)]


def test_a_broker_is_not_a_controller(target: Target) -> None:
    if target.expected(OFFERED)["DescribeCluster"][1] < 1:
        return
    answers = {1: (0, None), 2: (114, NO_CONTROLLER), 3: (115, "Unsupported endpoint type 3")}
    with target.connect() as connection:
        for endpoint, expected in answers.items():
            body = describe_cluster.encode_request(
                1, describe_cluster.DescribeClusterRequest(endpoint_type=endpoint)
            )
            response = describe_cluster.decode_response(
                1, connection.ask(DESCRIBE_CLUSTER, 1, body)
            )
            assert (response.error_code, response.error_message) == expected


def test_the_order_of_authentication_is_enforced(target: Target) -> None:
    with RawConnection(target.sasl_port) as connection:
        assert connection.api_versions(0, HELLO).error_code == 0
        with pytest.raises(Closed):
            connection.offered()
    with RawConnection(target.sasl_port) as connection, pytest.raises(Closed):
        connection.describe()
    with RawConnection(target.sasl_port) as connection, pytest.raises(Closed):
        connection.token(b"")
    with RawConnection(target.sasl_port) as connection:
        assert connection.handshake("PLAIN").error_code == 0
        assert connection.api_versions(0, HELLO).error_code == 34
        with pytest.raises(Closed):
            connection.describe()


def test_requests_after_a_login_are_answered(target: Target) -> None:
    with target.login("admin") as connection:
        assert connection.offered()
        assert connection.handshake("PLAIN").error_code == 34
        assert connection.describe().verdict == (0, "")
        late = connection.token(b"")
        assert (late.error_code, late.error_message) == (
            34,
            "SaslAuthenticate request received after successful authentication",
        )
    with target.connect() as connection:
        assert connection.handshake("PLAIN").error_code == 34
        body = b"\x01\x00"
        assert connection.ask(SASL_AUTHENTICATE, 2, body)[:2] == b"\x00\x22"
        assert connection.describe().verdict == (0, "")


def test_wrong_credentials_are_rejected_with_the_message_of_kafka(target: Target) -> None:
    tokens = {
        b"\0alice\0wrong": "Authentication failed: Invalid username or password",
        b"\0stranger\0alice-secret": "Authentication failed: Invalid username or password",
        b"garbage": "Invalid SASL/PLAIN response: expected 3 tokens, got 1",
        b"\0\0alice-secret": "Authentication failed: username not specified",
        b"\0alice\0": "Authentication failed: password not specified",
        b"bob\0alice\0alice-secret": (
            "Authentication failed:"
            " Client requested an authorization id that is different from username"
        ),
    }
    for token, words in tokens.items():
        with RawConnection(target.sasl_port) as connection:
            connection.handshake("PLAIN")
            refused = connection.token(token)
            assert (refused.error_code, refused.error_message) == (58, words)
            with pytest.raises(Closed):
                connection.describe()


def test_an_unknown_mechanism_is_rejected_with_the_known_ones(target: Target) -> None:
    with RawConnection(target.sasl_port) as connection:
        refused = connection.handshake("GSSAPI")
        assert refused.error_code == 33
        assert set(refused.mechanisms) == set(target.mechanisms)
        with pytest.raises(Closed):
            connection.describe()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize(("user", "password"), [("bob", None), ("bob", "wrong"), ("stranger", "x")])
def test_scram_accepts_only_the_correct_password(
    target: Target, mechanism: str, user: str, password: str | None
) -> None:
    if mechanism not in target.mechanisms:
        with RawConnection(target.sasl_port) as connection:
            assert connection.handshake(mechanism).error_code == 33
        return
    right = password is None
    client = ScramClient(
        mechanism, user=user, password=password or target.users[user], nonce="contract"
    )
    with RawConnection(target.sasl_port) as connection:
        assert connection.handshake(mechanism).error_code == 0
        answer = connection.token(client.start())
        if answer.error_code == 0:
            work = client.receive(answer.token)
            assert work is not None
            answer = connection.token(work.run())
        if right:
            assert (answer.error_code, answer.error_message) == (0, "")
            assert client.receive(answer.token) is None
            assert connection.offered()
            return
        assert (answer.error_code, answer.error_message) == (58, NO_SCRAM.format(mechanism))
        with pytest.raises(Closed):
            connection.describe()
