"""Bytes of Kafka's own classes: the project reads them, and writes the same bytes."""

import json
import struct
from pathlib import Path
from types import ModuleType

import pytest

from reconciler.errors import EncodeError
from reconciler.wire import frames
from reconciler.wire.apis import BY_KEY, KafkaApi
from reconciler.wire.messages import (
    alter_client_quotas,
    api_versions,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_user_scram_credentials,
    metadata,
    sasl_authenticate,
    sasl_handshake,
)
from reconciler.wire.primitives import WireReader, WireWriter
from tests.wire import samples

pytestmark = pytest.mark.golden

GOLDEN = Path(__file__).parent.parent / "golden"
FRAMES = [load for load in json.loads((GOLDEN / "wire.json").read_text()) if load["kind"] == "wire"]
DOUBLES = [
    load for load in json.loads((GOLDEN / "wire.json").read_text()) if load["kind"] == "float64"
]
BODIES = json.loads((GOLDEN / "wire_versions.json").read_text())

MODULES: dict[int, ModuleType] = {
    3: metadata,
    17: sasl_handshake,
    18: api_versions,
    32: describe_configs,
    36: sasl_authenticate,
    50: describe_user_scram_credentials,
    60: describe_cluster,
}

TOPIC_ID = bytes(range(1, 17))
LONG = "n" * 300

REQUESTS: dict[tuple[int, str], object] = {
    (3, "topic"): metadata.MetadataRequest(
        topics=(metadata.RequestTopic(name="t"),), allow_auto_topic_creation=True
    ),
    (3, "no_creation"): metadata.MetadataRequest(topics=(metadata.RequestTopic(name="t"),)),
    (3, "all_topics"): metadata.MetadataRequest(topics=None, allow_auto_topic_creation=True),
    (3, "cluster_operations"): metadata.MetadataRequest(
        topics=(metadata.RequestTopic(name="t"),),
        allow_auto_topic_creation=True,
        include_cluster_operations=True,
    ),
    (3, "topic_operations"): metadata.MetadataRequest(
        topics=(metadata.RequestTopic(name="t"),),
        allow_auto_topic_creation=True,
        include_topic_operations=True,
    ),
    (3, "topic_by_id"): metadata.MetadataRequest(
        topics=(metadata.RequestTopic(name=None, topic_id=TOPIC_ID),),
        allow_auto_topic_creation=True,
    ),
    (17, "plain"): sasl_handshake.SaslHandshakeRequest(mechanism="PLAIN"),
    (18, "full"): api_versions.ApiVersionsRequest(
        software_name="kq", software_version="1.2", cluster_id="cid", node_id=3
    ),
    (18, "plain"): api_versions.ApiVersionsRequest(software_name="kq", software_version="1.2"),
    (32, "plain"): describe_configs.DescribeConfigsRequest(
        resources=(
            describe_configs.ConfigResource(
                resource_type=describe_configs.BROKER,
                name="1",
                keys=("client.quota.callback.class", "quota.window.num"),
            ),
            describe_configs.ConfigResource(resource_type=describe_configs.TOPIC, name="t"),
        ),
        include_synonyms=True,
    ),
    (32, "documentation"): describe_configs.DescribeConfigsRequest(
        resources=(
            describe_configs.ConfigResource(
                resource_type=describe_configs.BROKER,
                name="1",
                keys=("client.quota.callback.class", "quota.window.num"),
            ),
        ),
        include_documentation=True,
    ),
    (36, "plain"): sasl_authenticate.SaslAuthenticateRequest(token=b"\x01\x02\x03"),
    (50, "some"): describe_user_scram_credentials.DescribeUserScramCredentialsRequest(
        users=("alice", "zoë")
    ),
    (60, "plain"): describe_cluster.DescribeClusterRequest(include_operations=True),
    (60, "controllers"): describe_cluster.DescribeClusterRequest(
        endpoint_type=describe_cluster.CONTROLLERS
    ),
    (60, "fenced"): describe_cluster.DescribeClusterRequest(include_fenced=True),
    (48, "any"): describe_client_quotas.DescribeClientQuotasRequest(
        components=(("user", describe_client_quotas.ANY, None), ("ip", 0, "::1")), strict=True
    ),
}

_PARTITION = metadata.Partition(
    index=4, leader_id=1, error_code=5, leader_epoch=6, replicas=(1, 2), in_sync=(1,), offline=(2,)
)
_METADATA = metadata.MetadataResponse(
    throttle_time_ms=9,
    brokers=(
        metadata.MetadataBroker(node_id=1, host="h1", port=9092, rack="r"),
        metadata.MetadataBroker(node_id=2, host="h2", port=9093),
    ),
    cluster_id="cid",
    controller_id=2,
    topics=(
        metadata.Topic(
            name="t", error_code=3, topic_id=TOPIC_ID, is_internal=True, partitions=(_PARTITION,)
        ),
    ),
    error_code=3,
)
_CLUSTER = describe_cluster.DescribeClusterResponse(
    throttle_time_ms=5,
    error_code=1,
    error_message="m",
    cluster_id="cid",
    controller_id=1,
    brokers=(
        describe_cluster.ClusterNode(node_id=1, host="h", port=9, rack="r"),
        describe_cluster.ClusterNode(node_id=2, host="h2", port=10),
    ),
    operations=3072,
)

RESPONSES: dict[tuple[int, str], object] = {
    (3, "full"): _METADATA,
    (3, "operations"): _METADATA._replace(
        operations=5120, topics=(_METADATA.topics[0]._replace(operations=264),)
    ),
    (17, "full"): sasl_handshake.SaslHandshakeResponse(
        error_code=33, mechanisms=("PLAIN", "OAUTHBEARER")
    ),
    (18, "full"): api_versions.ApiVersionsResponse(
        error_code=0,
        throttle_time_ms=7,
        apis=(
            api_versions.ApiRange(api_key=48, lowest=0, highest=1),
            api_versions.ApiRange(api_key=60, lowest=0, highest=2),
        ),
        features=(
            api_versions.Feature(name="metadata.version", lowest=7, highest=25),
            api_versions.Feature(name="group.version", lowest=1, highest=2),
        ),
        finalized_epoch=17,
        finalized=(api_versions.Feature(name="metadata.version", lowest=8, highest=24),),
        zk_migration_ready=True,
    ),
    (32, "full"): describe_configs.DescribeConfigsResponse(
        throttle_time_ms=1,
        results=(
            describe_configs.ConfigsResult(
                resource_type=4,
                name="1",
                settings=(
                    describe_configs.ConfigEntry(
                        name="quota.window.num",
                        value="11",
                        read_only=True,
                        source=5,
                        synonyms=(describe_configs.ConfigSynonym(name="s", value=None, source=5),),
                        config_type=3,
                        documentation="doc",
                    ),
                    describe_configs.ConfigEntry(
                        name="x", value=None, source=4, is_sensitive=True, config_type=9
                    ),
                ),
            ),
            describe_configs.ConfigsResult(
                resource_type=2, name="t", error_code=31, error_message="denied"
            ),
        ),
    ),
    (36, "full"): sasl_authenticate.SaslAuthenticateResponse(
        error_code=58, error_message="no", token=b"\x04\x05", session_lifetime_ms=3_600_000
    ),
    (50, "full"): describe_user_scram_credentials.DescribeUserScramCredentialsResponse(
        throttle_time_ms=2,
        users=(
            describe_user_scram_credentials.ScramUser(
                name="alice",
                credentials=(
                    describe_user_scram_credentials.CredentialInfo(mechanism=1, iterations=4096),
                    describe_user_scram_credentials.CredentialInfo(mechanism=2, iterations=8192),
                ),
            ),
            describe_user_scram_credentials.ScramUser(
                name="bob", error_code=91, error_message="none"
            ),
        ),
    ),
    (60, "full"): _CLUSTER,
    (60, "fenced"): _CLUSTER._replace(
        endpoint_type=2, brokers=(_CLUSTER.brokers[0]._replace(is_fenced=True), _CLUSTER.brokers[1])
    ),
}

DESCRIBED = [
    (
        (("client-id", "app"), ("user", LONG)),
        (("request_percentage", float("nan")), ("future_rate", 0.1)),
    ),
    ((("ip", None),), (("connection_creation_rate", float("inf")),)),
    ((("group", "g"),), ()),
    ((("user", ""),), (("producer_byte_rate", -0.0),)),
]

ALTERATIONS = (
    (
        (("user", LONG), ("client-id", None)),
        (("producer_byte_rate", 1.5), ("request_percentage", None), ("consumer_byte_rate", -0.0)),
    ),
    ((("user", "zoë"),), (("x", None),)),
    ((), (("x", 3.0),)),
    ((("user", "zoë"),), ()),
)

RESULTS = (((("user", "u"),), 0, None), ((("client-id", None), ("user", "zoë")), 42, "bad"))


def name_of(vector: dict[str, object]) -> str:
    return "-".join(str(vector[field]) for field in ("name", "direction", "api_key", "api_version"))


def vectors_of(direction: str, keys: set[int]) -> list[dict[str, object]]:
    return [body for body in BODIES if body["direction"] == direction and body["api_key"] in keys]


@pytest.mark.parametrize("vector", FRAMES, ids=name_of)
def test_a_frame_of_kafkas_classes_is_read_and_written_unchanged(vector: dict[str, object]) -> None:
    frame = bytes.fromhex(str(vector["frame_hex"]))
    api, version = BY_KEY[int(vector["api_key"])], int(vector["api_version"])
    correlation_id = int(vector["correlation_id"])
    assert frames.frame_size(frame[:4]) == len(frame) - 4
    if vector["direction"] == "request":
        header, body = frames.decode_request(frame[4:])
        assert header == frames.RequestHeader(
            api_key=api.key,
            api_version=version,
            correlation_id=correlation_id,
            client_id=str(vector["client_id"]),
        )
        assert len(frame) - len(body) == 4 + int(vector["header_bytes"])
        again = request_again(api, version, body)
        written = frames.encode_request(
            api, version, correlation_id=correlation_id, client_id="quotactl", body=again
        )
    else:
        assert frames.correlation_id_of(frame[4:]) == correlation_id
        body = frames.response_body(api, version, frame[4:])
        assert len(frame) - len(body) == 4 + int(vector["header_bytes"])
        again = response_again(api, version, body)
        written = frames.encode_response(api, version, correlation_id=correlation_id, body=again)
    assert written == frame


def request_again(api: KafkaApi, version: int, body: bytes) -> bytes:
    """``body`` decoded and encoded again by the project."""
    if api.key == 49:
        request = alter_client_quotas.decode_request(version, body)
        return alter_client_quotas.encode_request(
            version, request.alterations, validate_only=request.validate_only
        )
    module = MODULES.get(api.key, describe_client_quotas)
    again: bytes = module.encode_request(version, module.decode_request(version, body))
    return again


def response_again(api: KafkaApi, version: int, body: bytes) -> bytes:
    if api.key == 48:
        described = describe_client_quotas.decode_response(version, body, samples.LAYOUT)
        (row,) = described.entries.items()
        assert row == ((None, "café", False), (1048576.0, None, 12.5, None, None))
        return body
    if api.key == 49:
        altered = alter_client_quotas.decode_response(version, body)
        return alter_client_quotas.encode_response(
            version, results=altered.results, throttle_time_ms=altered.throttle_time_ms
        )
    module = MODULES[api.key]
    again: bytes = module.encode_response(version, module.decode_response(version, body))
    return again


@pytest.mark.parametrize("vector", DOUBLES, ids=lambda vector: vector["java_text"])
def test_a_float64_is_encoded_as_by_java(vector: dict[str, str]) -> None:
    octets = bytes.fromhex(vector["hex"])
    value = WireReader(octets, flexible=True).float64()
    assert struct.pack(">d", float(vector["java_text"])) == octets
    writer = WireWriter(flexible=True)
    writer.float64(value)
    assert writer.to_bytes() == octets


@pytest.mark.parametrize("vector", vectors_of("request", {*MODULES, 48}), ids=name_of)
def test_requests_equal_the_bytes_of_kafka_in_every_version_or_are_refused_like_there(
    vector: dict[str, object],
) -> None:
    key, version = int(vector["api_key"]), int(vector["api_version"])
    module = MODULES.get(key, describe_client_quotas)
    request = REQUESTS[key, str(vector["name"])]
    if vector["body_hex"] is None:
        with pytest.raises(EncodeError):
            module.encode_request(version, request)
        return
    body = bytes.fromhex(str(vector["body_hex"]))
    assert module.encode_request(version, request) == body
    decoded = module.decode_request(version, body)
    if version == BY_KEY[key].highest:
        assert decoded == request
    if not (key == 18 and version < 3):  # the software's name is not encoded there
        assert module.encode_request(version, decoded) == body


@pytest.mark.parametrize("vector", vectors_of("response", set(MODULES)), ids=name_of)
def test_responses_equal_the_bytes_of_kafka_in_every_version(vector: dict[str, object]) -> None:
    key, version = int(vector["api_key"]), int(vector["api_version"])
    module = MODULES[key]
    response = RESPONSES[key, str(vector["name"])]
    body = bytes.fromhex(str(vector["body_hex"]))
    assert module.encode_response(version, response) == body
    decoded = module.decode_response(version, body)
    assert module.encode_response(version, decoded) == body
    if version == BY_KEY[key].highest:
        assert decoded == response


@pytest.mark.parametrize("vector", vectors_of("response", {48}), ids=name_of)
def test_describe_responses_equal_the_bytes_of_kafka(vector: dict[str, object]) -> None:
    version, body = int(vector["api_version"]), bytes.fromhex(str(vector["body_hex"]))
    described = describe_client_quotas.decode_response(version, body, samples.LAYOUT)
    if vector["name"] == "refused":
        written = describe_client_quotas.encode_response(
            version, entries=None, error_code=31, error_message="Cluster authorization failed."
        )
        assert (described.error_code, described.entries) == (31, {})
    else:
        written = describe_client_quotas.encode_response(
            version, entries=DESCRIBED, throttle_time_ms=3
        )
        nan, *tail = described.entries[LONG, "app", False][2], described.throttle_time_ms
        assert nan != nan  # noqa: PLR0124 - true only for NaN
        assert tail == [3]
        assert described.entries[False, False, None][4] == float("inf")
        assert str(described.entries["", False, False][0]) == "-0.0"
        assert described.foreign_values == {(LONG, "app", False): (("future_rate", 0.1),)}
        assert described.foreign_entities == (((("group", "g"),), ()),)
    assert written == body


@pytest.mark.parametrize("vector", vectors_of("request", {49}), ids=name_of)
def test_alter_requests_equal_the_bytes_of_kafka(vector: dict[str, object]) -> None:
    version, body = int(vector["api_version"]), bytes.fromhex(str(vector["body_hex"]))
    assert alter_client_quotas.encode_request(version, ALTERATIONS, validate_only=True) == body
    request = alter_client_quotas.decode_request(version, body)
    assert request == alter_client_quotas.AlterClientQuotasRequest(
        alterations=ALTERATIONS, validate_only=True
    )


@pytest.mark.parametrize("vector", vectors_of("response", {49}), ids=name_of)
def test_alter_responses_equal_the_bytes_of_kafka(vector: dict[str, object]) -> None:
    version, body = int(vector["api_version"]), bytes.fromhex(str(vector["body_hex"]))
    assert alter_client_quotas.encode_response(version, results=RESULTS, throttle_time_ms=4) == body
    altered = alter_client_quotas.decode_response(version, body)
    assert altered == alter_client_quotas.AlterClientQuotasResponse(
        throttle_time_ms=4, results=RESULTS
    )
