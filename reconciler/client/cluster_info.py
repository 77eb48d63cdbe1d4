"""Identity of a cluster: cluster id, brokers, rights of the principal, Kafka release line by its API versions."""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from msgspec import Struct

from reconciler.client.network.requests import ClientRequest, ResponseStatus
from reconciler.errors import BrokerError
from reconciler.wire.apis import (
    API_VERSIONS,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    METADATA,
)
from reconciler.wire.error_codes import RESOURCE_NOT_FOUND, error_code
from reconciler.wire.messages import (
    describe_cluster,
    describe_configs,
    describe_user_scram_credentials,
)
from reconciler.wire.messages.api_versions import OfferedVersions

_OPERATION_NAMES: Final = """
Read Write Create Delete Alter Describe ClusterAction DescribeConfigs AlterConfigs IdempotentWrite
"""
_OPERATIONS: Final = dict(enumerate(_OPERATION_NAMES.split(), start=3))
"""Codes of org.apache.kafka.common.acl.AclOperation."""

_STREAMS_GROUP_HEARTBEAT: Final = 88

_LINES: Final = (
    (API_VERSIONS.key, 5, "4.4+", "4.x"),
    (_STREAMS_GROUP_HEARTBEAT, 0, "4.1+", "4.x"),
    (METADATA.key, 13, "4.0+", "4.x"),
    (API_VERSIONS.key, 4, "3.9+", "3.9"),
    (DESCRIBE_CLUSTER.key, 1, "3.7+", "3.9"),
    (DESCRIBE_USER_SCRAM_CREDENTIALS.key, 0, "3.5+", "3.9"),
    (METADATA.key, 12, "3.1+", "3.4"),
    (DESCRIBE_CLUSTER.key, 0, "2.8+", "3.4"),
)
"""API key and version, the Kafka line that first offered it (KRaft), and the sandbox profile with its rules."""

_CALLBACK: Final = "client.quota.callback.class"
_BROKER_RESOURCE: Final = 4

CLUSTER = ClientRequest(
    api=DESCRIBE_CLUSTER,
    encode=lambda version: describe_cluster.encode_request(
        version, describe_cluster.DescribeClusterRequest(include_operations=True)
    ),
    decode=describe_cluster.decode_response,
    verdict=lambda answer: ResponseStatus(code=answer.error_code, message=answer.error_message),
    right="Describe",
)


def rights(operations: int) -> frozenset[str] | None:
    """Return operations by name; None if the broker does not return them.

    A caller without Describe on the cluster gets 0; without the option in the request the value is the lowest int32.
    """
    if operations in {0, describe_cluster.OPERATIONS_NOT_ASKED}:
        return None
    return frozenset(name for bit, name in _OPERATIONS.items() if operations >> bit & 1)


def release_line(offered: OfferedVersions) -> tuple[str, str]:
    """Return ``(version hint, sandbox profile)`` by the newest API version that a broker offers."""
    for key, version, hint, profile in _LINES:
        if offered.ranges.get(key, (0, -1))[1] >= version:
            return hint, profile
    return "2.6+", "3.4"


def callback_request(node: int) -> ClientRequest[describe_configs.DescribeConfigsResponse]:
    """Return the request for a broker's own ``client.quota.callback.class``; only this broker can answer it."""
    request = describe_configs.DescribeConfigsRequest(
        resources=(
            describe_configs.ConfigResource(
                resource_type=_BROKER_RESOURCE, name=str(node), keys=(_CALLBACK,)
            ),
        )
    )

    def verdict(answer: describe_configs.DescribeConfigsResponse) -> ResponseStatus:
        bad = next((result for result in answer.results if result.error_code), None)
        return (
            ResponseStatus() if bad is None else ResponseStatus(bad.error_code, bad.error_message)
        )

    return ClientRequest(
        api=DESCRIBE_CONFIGS,
        encode=lambda version: describe_configs.encode_request(version, request),
        decode=describe_configs.decode_response,
        verdict=verdict,
        right="DescribeConfigs",
    )


def callback_class(answer: describe_configs.DescribeConfigsResponse) -> str | None:
    """Return the class name in the response; None if the broker uses Kafka's own quota rules."""
    settings = (setting for result in answer.results for setting in result.settings)
    values = [setting.value for setting in settings if setting.name == _CALLBACK]
    return next((value for value in values if value and value != "null"), None)


ScramResponse: TypeAlias = describe_user_scram_credentials.DescribeUserScramCredentialsResponse

_MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


class ScramCredential(Struct, frozen=True, kw_only=True):
    """One SCRAM credential of a user; Kafka never returns the other fields."""

    mechanism: str
    iterations: int


def scram_request(users: tuple[str, ...]) -> ClientRequest[ScramResponse]:
    """Return the request for these users; () = all."""
    return ClientRequest(
        api=DESCRIBE_USER_SCRAM_CREDENTIALS,
        encode=lambda version: describe_user_scram_credentials.encode_request(
            version,
            describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=users),
        ),
        decode=describe_user_scram_credentials.decode_response,
        verdict=lambda answer: ResponseStatus(code=answer.error_code, message=answer.error_message),
        right="Describe",
    )


def credentials_of(
    answer: ScramResponse, scrubbed: Callable[[str], str]
) -> Mapping[str, tuple[ScramCredential, ...]]:
    """Return credentials by user, sorted; users that do not exist are omitted.

    Raises:
        BrokerError: The broker refused one of the users for a reason other than a missing credential.
    """
    credentials_by_user: dict[str, tuple[ScramCredential, ...]] = {}
    for user in answer.users:
        if user.error_code == RESOURCE_NOT_FOUND:
            continue
        if user.error_code:
            code = error_code(user.error_code)
            words = scrubbed(user.error_message or code.sentence)
            raise BrokerError(
                f"SCRAM user {user.name!a}: {code}, {words}",
                code=user.error_code,
                api=DESCRIBE_USER_SCRAM_CREDENTIALS.name,
            )
        credentials_by_user[user.name] = tuple(
            ScramCredential(
                mechanism=_MECHANISMS.get(credential.mechanism, f"UNKNOWN({credential.mechanism})"),
                iterations=credential.iterations,
            )
            for credential in user.credentials
        )
    return dict(sorted(credentials_by_user.items()))
