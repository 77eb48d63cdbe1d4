"""DescribeCluster (key 60), versions 0 to 2: cluster id, brokers, and the operations that the caller may perform.

Version 1 adds the kind of endpoint (KIP-919), version 2 fenced brokers (KIP-1073).
"""

from typing import Final, NamedTuple

from msgspec import Struct

from reconciler.errors import EncodeError
from reconciler.wire.apis import DESCRIBE_CLUSTER

BROKERS: Final = 1
CONTROLLERS: Final = 2

OPERATIONS_NOT_ASKED: Final = -(2**31)
"""``cluster_authorized_operations`` if the request did not include it."""


class DescribeClusterRequest(Struct, frozen=True):
    """The options of a request."""

    # Also request the operations on the cluster that the caller may perform.
    include_operations: bool = False
    endpoint_type: int = BROKERS  # 1 brokers, 2 controllers; only 1 below version 1
    include_fenced: bool = False  # also list fenced brokers; only False below version 2


class ClusterNode(NamedTuple):
    """One node: its advertised address, its rack, and whether it is fenced."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False


class DescribeClusterResponse(NamedTuple):
    """The cluster as one node describes it."""

    cluster_id: str
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    endpoint_type: int = BROKERS
    # The controller, -1 if none; a KRaft broker returns a random live broker.
    controller_id: int = -1
    brokers: tuple[ClusterNode, ...] = ()
    # Bit n set means the caller may perform the operation with Kafka's `AclOperation` code n (10 DescribeConfigs, 11
    # AlterConfigs); `OPERATIONS_NOT_ASKED` if not requested.
    operations: int = OPERATIONS_NOT_ASKED


def encode_request(version: int, request: DescribeClusterRequest) -> bytes:
    """Encode the body of a request.

    Raises:
        EncodeError: ``version`` does not support an option.
    """
    if version < 1 and request.endpoint_type != BROKERS:
        raise EncodeError(f"DescribeCluster v{version} cannot ask for controllers")
    if version < 2 and request.include_fenced:
        raise EncodeError(f"DescribeCluster v{version} cannot ask for fenced brokers")
    writer = DESCRIBE_CLUSTER.writer(version)
    writer.boolean(request.include_operations)
    if version >= 1:
        writer.int8(request.endpoint_type)
    if version >= 2:
        writer.boolean(request.include_fenced)
    return writer.complete()


def decode_request(version: int, body: bytes) -> DescribeClusterRequest:
    """Decode a request body."""
    reader = DESCRIBE_CLUSTER.request_reader(version, body)
    return reader.complete(
        DescribeClusterRequest(
            include_operations=reader.boolean(),
            endpoint_type=reader.int8() if version >= 1 else BROKERS,
            include_fenced=reader.boolean() if version >= 2 else False,
        )
    )


def encode_response(version: int, response: DescribeClusterResponse) -> bytes:
    """Encode the body of a response."""
    writer = DESCRIBE_CLUSTER.writer(version)

    def write_broker(broker: ClusterNode) -> None:
        writer.int32(broker.node_id)
        writer.string(broker.host)
        writer.int32(broker.port)
        writer.nullable_string(broker.rack)
        if version >= 2:
            writer.boolean(broker.is_fenced)

    writer.int32(response.throttle_time_ms)
    writer.int16(response.error_code)
    writer.nullable_string(response.error_message)
    if version >= 1:
        writer.int8(response.endpoint_type)
    writer.string(response.cluster_id)
    writer.int32(response.controller_id)
    writer.structures(response.brokers, write_broker)
    writer.int32(response.operations)
    return writer.complete()


def decode_response(version: int, body: bytes) -> DescribeClusterResponse:
    """Decode a response body."""
    reader = DESCRIBE_CLUSTER.answer_reader(version, body)

    def read_broker() -> ClusterNode:
        return ClusterNode(
            node_id=reader.int32(),
            host=reader.string(),
            port=reader.int32(),
            rack=reader.nullable_string(),
            is_fenced=reader.boolean() if version >= 2 else False,
        )

    return reader.complete(
        DescribeClusterResponse(
            throttle_time_ms=reader.int32(),
            error_code=reader.int16(),
            error_message=reader.nullable_string(),
            endpoint_type=reader.int8() if version >= 1 else BROKERS,
            cluster_id=reader.string(),
            controller_id=reader.int32(),
            brokers=reader.structures(read_broker, least_size=11),
            operations=reader.int32(),
        )
    )
