"""Responses about the cluster: ApiVersions, Metadata, DescribeCluster, DescribeConfigs, SCRAM users.

Each function decodes the body of one request and encodes the body of its response; a body that cannot be decoded
raises ``DecodeError``, on which a broker closes the connection. Messages and codes are those of 3.4.1 to 4.4.0.
"""

import re
from collections import Counter
from typing import Final

from reconciler.sandbox.authorizer import Operation
from reconciler.sandbox.broker_rules.alterations import BrokerFailure
from reconciler.sandbox.request import NeverAnswered, SandboxRequest
from reconciler.sandbox.sasl_session import SCRAM_ITERATIONS
from reconciler.wire.apis import API_VERSIONS
from reconciler.wire.error_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    DUPLICATE_RESOURCE,
    ILLEGAL_SASL_STATE,
    INVALID_REQUEST,
    MISMATCHED_ENDPOINT_TYPE,
    NONE,
    REBOOTSTRAP_REQUIRED,
    RESOURCE_NOT_FOUND,
    UNSUPPORTED_ENDPOINT_TYPE,
    UNSUPPORTED_VERSION,
)
from reconciler.wire.messages import (
    api_versions,
    describe_cluster,
    describe_user_scram_credentials,
    metadata,
)

SCRAM_CODES: Final = {"SCRAM-SHA-512": 2, "SCRAM-SHA-256": 1}
_FEATURES_EPOCH: Final = 1
_UNKNOWN_TOPIC: Final = 3
_INVALID_TOPIC: Final = 17
_UNKNOWN_TOPIC_ID: Final = 100
_TOPIC_NAME: Final = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}")


def api_versions_answer(call: SandboxRequest) -> bytes:
    """Return the ranges and features of the profile; an unknown version is answered in the layout of v0."""
    profile = call.cluster.settings.profile
    lowest, highest = profile.versions[API_VERSIONS.key]
    if not lowest <= call.version <= highest:
        own_range = api_versions.ApiRange(api_key=API_VERSIONS.key, lowest=lowest, highest=highest)
        refusal = api_versions.ApiVersionsResponse(
            error_code=UNSUPPORTED_VERSION, apis=(own_range,)
        )
        return api_versions.encode_response(0, refusal)
    request = api_versions.decode_request(call.version, call.body)
    code = call.failure.code if call.failure is not None else _request_error_code(call, request)
    if code != NONE:
        return api_versions.encode_response(
            call.version, api_versions.ApiVersionsResponse(error_code=code, apis=())
        )
    visible_features = [f for f in profile.features if f.lowest > 0 or call.version >= 4]
    response = api_versions.ApiVersionsResponse(
        error_code=NONE,
        apis=tuple(
            api_versions.ApiRange(api_key=key, lowest=low, highest=high)
            for key, (low, high) in profile.versions.items()
        ),
        throttle_time_ms=call.throttle_ms,
        features=tuple(
            api_versions.Feature(name=f.name, lowest=f.lowest, highest=f.highest)
            for f in visible_features
        ),
        finalized_epoch=_FEATURES_EPOCH,
        finalized=tuple(
            api_versions.Feature(name=f.name, lowest=f.finalized, highest=f.finalized)
            for f in profile.features
            if f.finalized > 0
        ),
    )
    return api_versions.encode_response(call.version, response)


def _request_error_code(call: SandboxRequest, request: api_versions.ApiVersionsRequest) -> int:
    """Return the code for a client with an invalid software name (KIP-511) or for another broker (KIP-1242)."""
    texts = (request.software_name, request.software_version) if call.version >= 3 else ()
    if not all(map(api_versions.is_valid_software, texts)):
        return INVALID_REQUEST
    if not call.cluster.settings.profile.checks_cluster:
        return NONE
    if (request.cluster_id is None) != (request.node_id == api_versions.UNKNOWN_NODE):
        return INVALID_REQUEST
    actual_address = (call.cluster.cluster_id, call.broker.node)
    if request.cluster_id is not None and (request.cluster_id, request.node_id) != actual_address:
        return REBOOTSTRAP_REQUIRED
    return NONE


def api_versions_out_of_turn(version: int) -> bytes:
    """Return the response on a connection that has begun with SASL; brokers close it afterwards."""
    response = api_versions.ApiVersionsResponse(error_code=ILLEGAL_SASL_STATE, apis=())
    return api_versions.encode_response(version, response)


def metadata_answer(call: SandboxRequest) -> bytes:
    """Return live brokers at the addresses of the same listener; the sandbox has no topics."""
    request = metadata.decode_request(call.version, call.body)
    operations = metadata.OPERATIONS_NOT_ASKED
    if request.include_cluster_operations:
        operations = call.cluster.settings.authorizer.bits(call.principal)
    brokers = tuple(
        metadata.MetadataBroker(node_id=node, host=host, port=port)
        for node, host, port in addresses(call)
    )
    response = metadata.MetadataResponse(
        throttle_time_ms=call.throttle_ms,
        brokers=brokers,
        cluster_id=call.cluster.cluster_id,
        controller_id=brokers[0].node_id if brokers else metadata.NO_CONTROLLER,
        topics=tuple(_unknown_topic(topic) for topic in request.topics or ()),
        operations=operations,
        error_code=call.failure.code if call.failure is not None else NONE,
    )
    return metadata.encode_response(call.version, response)


def _unknown_topic(topic: metadata.RequestTopic) -> metadata.Topic:
    if topic.name is None:
        code = _UNKNOWN_TOPIC_ID
    elif _TOPIC_NAME.fullmatch(topic.name):
        code = _UNKNOWN_TOPIC
    else:
        code = _INVALID_TOPIC
    return metadata.Topic(name=topic.name, topic_id=topic.topic_id, error_code=code)


def addresses(call: SandboxRequest) -> list[tuple[int, str, int]]:
    """Return node id, host and port of every live broker, as this listener advertises them."""
    host = next(
        listener.host
        for listener in call.cluster.settings.listeners
        if listener.name == call.listener
    )
    return [(broker.node, host, broker.ports[call.listener]) for broker in call.cluster.live()]


def describe_cluster_answer(call: SandboxRequest) -> bytes:
    """Return cluster id, brokers and the caller's permissions; only broker endpoints exist here."""
    request = describe_cluster.decode_request(call.version, call.body)
    failure = call.failure or _endpoint_failure(request.endpoint_type)
    if failure is not None:
        refusal = describe_cluster.DescribeClusterResponse(
            cluster_id="",
            throttle_time_ms=call.throttle_ms,
            error_code=failure.code,
            error_message=failure.message,
        )
        return describe_cluster.encode_response(call.version, refusal)
    brokers = tuple(
        describe_cluster.ClusterNode(node_id=node, host=host, port=port)
        for node, host, port in addresses(call)
    )
    operations = describe_cluster.OPERATIONS_NOT_ASKED
    if request.include_operations:
        operations = call.cluster.settings.authorizer.bits(call.principal)
    response = describe_cluster.DescribeClusterResponse(
        cluster_id=call.cluster.cluster_id,
        throttle_time_ms=call.throttle_ms,
        controller_id=brokers[0].node_id if brokers else -1,
        brokers=brokers,
        operations=operations,
    )
    return describe_cluster.encode_response(call.version, response)


def _endpoint_failure(endpoint_type: int) -> BrokerFailure | None:
    if endpoint_type == describe_cluster.BROKERS:
        return None
    if endpoint_type == describe_cluster.CONTROLLERS:
        return BrokerFailure(
            code=MISMATCHED_ENDPOINT_TYPE,
            message="The request was sent to an endpoint of type BROKER,"
            " but we wanted an endpoint of type CONTROLLER",
        )
    return BrokerFailure(
        code=UNSUPPORTED_ENDPOINT_TYPE, message=f"Unsupported endpoint type {endpoint_type}"
    )


def scram_users_answer(call: SandboxRequest) -> bytes:
    """Return users with SCRAM credentials; an empty list requests all, like null.

    Raises:
        NeverAnswered: Null without the permission to Describe: brokers fail on the null while they build the
            refusal and never respond (observed on 3.9.1, 4.0.1, 4.3.1 and 4.4.0).
    """
    requested_users = describe_user_scram_credentials.decode_request(call.version, call.body).users
    settings = call.cluster.settings
    if call.failure is not None:
        return _scram_refused(call, call.failure.code, call.failure.message, requested_users or ())
    if not settings.authorizer.allows(call.principal, Operation.DESCRIBE):
        if requested_users is None:
            raise NeverAnswered
        return _scram_refused(call, CLUSTER_AUTHORIZATION_FAILED, None, requested_users)
    counts = Counter(requested_users or tuple(settings.users))
    users = tuple(_scram_user(call, name, count) for name, count in counts.items())
    response = describe_user_scram_credentials.DescribeUserScramCredentialsResponse(
        throttle_time_ms=call.throttle_ms, error_message="", users=users
    )
    return describe_user_scram_credentials.encode_response(call.version, response)


def _scram_refused(
    call: SandboxRequest, code: int, message: str | None, requested_users: tuple[str, ...]
) -> bytes:
    """Return a nameless user with the code for every requested user."""
    users = tuple(
        describe_user_scram_credentials.ScramUser(name="", error_code=code) for _ in requested_users
    )
    response = describe_user_scram_credentials.DescribeUserScramCredentialsResponse(
        throttle_time_ms=call.throttle_ms, error_code=code, error_message=message, users=users
    )
    return describe_user_scram_credentials.encode_response(call.version, response)


def _scram_user(
    call: SandboxRequest, name: str, count: int
) -> describe_user_scram_credentials.ScramUser:
    if count > 1:
        return describe_user_scram_credentials.ScramUser(
            name=name,
            error_code=DUPLICATE_RESOURCE,
            error_message="Cannot describe SCRAM credentials for the same user twice"
            f" in a single request: {name}",
        )
    if name not in call.cluster.settings.users:
        return describe_user_scram_credentials.ScramUser(
            name=name,
            error_code=RESOURCE_NOT_FOUND,
            error_message=f"Attempt to describe a user credential that does not exist: {name}",
        )
    offered = {
        mechanism
        for listener in call.cluster.settings.listeners
        for mechanism in listener.mechanisms
    }
    return describe_user_scram_credentials.ScramUser(
        name=name,
        error_message="",
        credentials=tuple(
            describe_user_scram_credentials.CredentialInfo(
                mechanism=code, iterations=SCRAM_ITERATIONS
            )
            for mechanism, code in SCRAM_CODES.items()
            if mechanism in offered
        ),
    )
